"use strict";
(() => {
  // Everything that models and tests say becomes text nodes: nothing here parses markup.
  const $ = (id) => document.getElementById(id);
  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (value === true) element.setAttribute(key, "");
      else if (value !== false && value != null) element.setAttribute(key, value);
    }
    element.append(...children.flat().filter((child) => child != null && child !== ""));
    return element;
  };
  const number = (value) => (value ? value.toFixed(2).replace("-", "\u2212") : "0.00");
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const words = (name) => name.replaceAll("_", " ");
  const lines = (text) => {
    const count = text.trim() ? text.trim().split("\n").length : 0;
    return count === 1 ? "1 line" : count ? `${count} lines` : "empty";
  };

  // The page of a run that goes on; the address keeps the filters and the browser the place.
  const seconds = Number(document.body.dataset.reload);
  if (seconds) setTimeout(() => location.reload(), 1000 * seconds);
  const reloaded = performance.getEntriesByType("navigation")[0]?.type === "reload";

  // Tables as CSV.
  for (const table of document.querySelectorAll("table[data-name]")) {
    const save = () => {
      const quoted = (cell) => `"${(cell.title || cell.textContent).replaceAll('"', '""')}"`;
      const text = [...table.rows].map((row) => [...row.cells].map(quoted).join(",")).join("\n");
      const address = URL.createObjectURL(new Blob(["\ufeff", text, "\n"], { type: "text/csv" }));
      make("a", { href: address, download: `${table.dataset.name}.csv` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 1000);
    };
    table.parentElement.after(make("button", { type: "button", class: "csv", onclick: save }, "Save as CSV"));
  }

  // The navigation marks the part that is read.
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) links.get(target.id)?.classList.toggle("here", isIntersecting);
  }, { rootMargin: "-20% 0px -75% 0px" });
  for (const id of links.keys()) if ($(id)) watcher.observe($(id));

  // Chunks of text, unpacked when they are first needed.
  const cache = new Map();
  const chunk = (name) => {
    if (!cache.has(name)) cache.set(name, unpack($(`data-${name}`).textContent));
    return cache.get(name);
  };
  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  }

  const KEYWORDS = "and as assert async await break class continue def del elif else except False finally for from global " +
    "if import in is lambda None nonlocal not or pass raise return True try while with yield";
  const TOKENS = new RegExp(
    `(?<c>#[^\\n]*)|(?<s>[rbfuRBFU]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\\\.|[^"\\\\\\n])*"?|'(?:\\\\.|[^'\\\\\\n])*'?))` +
    `|(?<d>(?<=\\b(?:def|class)\\s+)\\w+|@[\\w.]+)|(?<k>\\b(?:${KEYWORDS.replaceAll(" ", "|")})\\b)|(?<n>\\b\\d[\\w.]*)|\\w+`, "g");
  function code(text) {
    if (!/^\s*(?:def|class|import|from|return|for|if|@\w)\b/m.test(text)) {
      return make("pre", { class: "prose", tabindex: 0 }, text || "(empty)");
    }
    const parts = [];
    let last = 0;
    for (const match of text.matchAll(TOKENS)) {
      const kind = Object.keys(match.groups).find((key) => match.groups[key] !== undefined);
      if (!kind) continue;
      parts.push(text.slice(last, match.index), make("span", { class: kind }, match[0]));
      last = match.index + match[0].length;
    }
    return make("pre", { tabindex: 0 }, parts, text.slice(last));
  }

  if (!$("data-index")) return;
  const PAGE = 100;
  const KEYS = ["task", "phase", "update", "turn", "solved", "run", "min", "max", "sort"];
  const form = $("filters").elements;
  let index, found = [], shown = 0, selected = null, other = null, picks = new Map(), tick = 0;

  const when = ([run, phase, update]) =>
    (!phase ? `training, update ${update}` : update ? `evaluation after update ${update}`
      : index.runs[run].trained ? "evaluation before training" : "evaluation") +
    (index.runs.length > 1 ? ` · ${runName(run)}` : "");
  const runName = (run) => {
    const { name, seed, experiment } = index.runs[run];
    return `${experiment ? `${experiment}, ` : ""}${seed == null ? name : `seed ${seed}`}`;
  };
  const considered = (episode) =>
    form.turn.value ? episode[4].filter((group) => group[0] === form.turn.value - 1) : episode[4];
  const rewards = (episode) => considered(episode).flatMap((group) => group[1]);
  // Where the rewards of an episode sum to its score, that sum is the sixth entry.
  const isSum = (episode) => episode.length > 5 && !form.turn.value;
  const value = (episode) => (isSum(episode) ? episode[5] : mean(rewards(episode)));
  const wins = (episode) => considered(episode).flatMap((group) => group[2] ?? []);
  const heat = (reward) => `--heat: ${Math.round(58 * Math.max(0, Math.min(1, reward / index.top)))}%`;
  const hides = (key) => form[key].value === "";

  function passes(episode) {
    const [run, phase, update, task] = episode;
    if (!hides("task") && index.tasks[task] !== form.task.value) return false;
    if (!hides("phase") && (form.phase.value === "eval") !== (phase === 1)) return false;
    if (!hides("update") && update !== Number(form.update.value)) return false;
    if (!hides("run") && run !== Number(form.run.value)) return false;
    const all = rewards(episode);
    if (!all.length) return false;
    if (!hides("solved") && wins(episode).some(Boolean) !== (form.solved.value === "1")) return false;
    const reward = value(episode);
    return (hides("min") || reward >= Number(form.min.value)) && (hides("max") || reward <= Number(form.max.value));
  }
  const spread = (episode) => Math.max(...rewards(episode)) - Math.min(...rewards(episode));
  const ORDERS = {
    "": (e) => -2 * e[2] - e[1], old: () => 0,
    high: (e) => -value(e), low: value, spread: (e) => -spread(e) };

  function filter() {
    found = [...index.episodes.keys()].filter((id) => passes(index.episodes[id]));
    const order = ORDERS[form.sort.value] ?? ORDERS[""];
    const places = new Map(found.map((id) => [id, order(index.episodes[id])]));
    found.sort((a, b) => places.get(a) - places.get(b) || a - b);
    const all = index.episodes.length.toLocaleString("en");
    $("count").textContent = `${found.length.toLocaleString("en")} of ${all} episodes`;
    $("list").replaceChildren();
    shown = 0;
    more();
  }
  function more() {
    $("list").append(...found.slice(shown, shown + PAGE).map((id) => make("li", {}, row(id))));
    shown = Math.min(found.length, shown + PAGE);
    $("more").hidden = shown >= found.length;
    mark();
  }
  function row(id) {
    const episode = index.episodes[id], all = rewards(episode), solved = wins(episode).filter(Boolean).length;
    const strip = all.length > 1 && all.length <= 16 ? all.map((reward) => make("i", { style: heat(reward) })) : [];
    return make("button", { type: "button", class: "row", "data-id": id, onclick: () => open(id) },
      make("span", { class: "task" }, index.tasks[episode[3]]), make("b", {}, number(value(episode))),
      make("small", {}, when(episode), solved ? make("span", { class: "ok" }, ` · ${all.length > 1 ? `${solved} ` : ""}solved`) : ""),
      make("span", { class: "strip", "aria-hidden": "true" }, strip));
  }
  function mark() {
    for (const button of $("list").querySelectorAll(".row")) {
      if (Number(button.dataset.id) === selected) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  }

  function save() {
    const state = new URLSearchParams();
    for (const key of KEYS) if (form[key].value) state.set(key, form[key].value);
    if (selected !== null) state.set("episode", selected);
    if (other !== null) state.set("with", other);
    history.replaceState(null, "", `#${state}`);
  }
  function choose(id, partner = null, quiet = false) {
    [selected, other, picks] = [id, partner, new Map()];
    mark();
    if (!quiet) save();
    return read();
  }
  async function open(id) {
    await choose(id);
    if ($("reader").getBoundingClientRect().top > innerHeight / 2) $("reader").scrollIntoView(); // below the list on phones
  }
  function move(step, focus) {
    const at = Math.max(0, Math.min(found.length - 1, found.indexOf(selected) + step));
    if (!found.length) return;
    while (at >= shown) more();
    choose(found[at]);
    const button = $("list").querySelector(`[data-id="${found[at]}"]`);
    if (focus) button.focus();
    else button.scrollIntoView({ block: "nearest" });
  }

  async function read() {
    const mine = ++tick, ids = [selected, other].filter((id) => id !== null);
    if (!ids.length) return $("reader").replaceChildren(make("p", { class: "muted" }, "No episode matches these filters."));
    const texts = await Promise.all(ids.map(text));
    const shared = await chunk("shared");
    if (mine !== tick) return; // another one was chosen meanwhile
    const columns = ids.map((id, i) => make("article", {}, head(id, i), turns(id, texts[i], shared)));
    $("reader").replaceChildren(make("div", { class: columns.length > 1 ? "pair" : "" }, columns));
  }
  async function text(id) {
    const at = index.starts.findLastIndex((start) => start <= id);
    return (await chunk(`chunk-${at}`))[id - index.starts[at]];
  }
  function head(id, column) {
    const episode = index.episodes[id], task = index.tasks[episode[3]];
    const tools = column ? make("button", { type: "button", onclick: () => choose(selected) }, "Close") : comparison(id, episode);
    const reward = episode.length > 5 ? `score ${number(episode[5])}` : `mean reward ${number(mean(episode[4].flatMap((group) => group[1])))}`;
    const label = `${when(episode)} · ${reward}`;
    return make("div", { class: "episode-head" }, make("div", {}, make("h3", {}, task), make("div", { class: "small" }, label)), make("div", { class: "tools" }, tools));
  }
  function comparison(id, episode) {
    const same = [...index.episodes.keys()].filter((i) => i !== id && index.episodes[i][3] === episode[3]).slice(0, 60);
    if (!same.length) return null;
    const options = same.map((i) => make("option", { value: i, selected: i === other }, when(index.episodes[i])));
    const change = (event) => choose(id, event.target.value === "" ? null : Number(event.target.value));
    return make("label", {}, "Compare with ", make("select", { onchange: change }, make("option", { value: "" }, "none"), options));
  }

  function turns(id, episode, shared) {
    const sections = [];
    for (let at = 0; at !== -1; ) {
      const group = episode.groups[at], key = `${id} ${at}`;
      if (!picks.has(key)) picks.set(key, group.chosen ?? best(index.episodes[id][4][at][1]));
      const pick = picks.get(key);
      sections.push(turn(id, at, pick, episode, shared));
      at = episode.groups.findIndex((next) => next.parent && next.parent[0] === at && next.parent[1] === pick);
    }
    if (episode.early) sections.push(make("p", { class: "small" }, "Stopped early: the reward of the group reached the threshold."));
    return sections;
  }
  const best = (values) => values.indexOf(Math.max(...values));

  function turn(id, at, pick, episode, shared) {
    const group = episode.groups[at], [number_, values, solved] = index.episodes[id][4][at];
    const children = new Set(episode.groups.filter((next) => next.parent?.[0] === at).map((next) => next.parent[1]));
    const many = values.length > 1;
    const follow = (sample) => { picks.set(`${id} ${at}`, sample); read(); };
    const chips = values.map((reward, j) => make("button",
      { type: "button", class: "chip", style: heat(reward), "aria-pressed": String(j === pick), onclick: () => follow(j), "aria-label": `sample ${j + 1}, reward ${number(reward)}` },
      `${j + 1}: `, make("b", {}, number(reward)), solved?.[j] ? " \u2713" : "", children.has(j) ? " \u2192" : ""));
    const verdict = group.chosen !== null ? episode.verdicts[number_] : null;
    const cards = values.map((reward, j) => sample(group, j, reward, solved?.[j], j === pick && many, children.has(j), j === group.chosen ? verdict : null, shared));
    const note = many ? `${values.length} joint samples of one state` + (children.size ? "; \u2192 continued" : "") : "";
    return make("section", { class: "turn" }, make("h4", {}, `Turn ${number_ + 1}`, make("small", {}, note)),
      prompts(group, shared), many ? make("div", { class: "chips", role: "group", "aria-label": "Joint samples" }, chips) : null,
      make("div", { class: many ? "samples" : "samples one", tabindex: many ? 0 : null }, many ? ordered(cards, pick) : cards));
  }
  const ordered = (cards, pick) => [cards[pick], ...cards.filter((_, j) => j !== pick)];

  function prompts(group, shared) {
    return Object.entries(group.prompts).map(([agent, prompt]) => {
      const text_ = typeof prompt === "number" ? shared[prompt] : prompt;
      return make("details", {}, make("summary", {}, make("b", {}, `prompt of ${agent}`), ` ${lines(text_)}`),
        make("pre", { class: "prose", tabindex: 0 }, text_));
    });
  }

  function sample(group, j, reward, solved, on, goes, verdict, shared) {
    const agents = Object.keys(group.completions);
    const made = group.joint[j].map((g, i) => `${agents[i]} ${g + 1}`).join(", ");
    const crossed = group.joint[j].some((g) => g !== j);
    const writings = agents.map((agent, i) => {
      const g = group.joint[j][i], cut = group.reasons[agent][g] === "length";
      return make("div", {}, make("h5", {}, `completion of ${agent}`, cut ? make("em", {}, "truncated at the token limit") : ""), code(group.completions[agent][g]));
    });
    return make("div", { class: on ? "sample on" : "sample" },
      make("header", {}, make("b", {}, group.joint.length > 1 ? `Sample ${j + 1}` : "Reward"), crossed ? make("span", {}, made) : "", solved ? make("span", { class: "ok" }, "\u2713 solved") : "",
        goes && j === group.chosen && group.joint.length > 1 ? make("span", {}, "continued") : "", make("span", { class: "reward" }, number(reward))),
      make("div", { class: "writings" }, writings), ledger(group.points[j], reward), ownPoints(group.own, j), world(verdict), tests(verdict, group.tests[j], shared));
  }

  function ownPoints(own, j) {
    const parts = Object.entries(own ?? {}).map(([agent, points]) => `${agent} ${number(points[j])}`);
    return parts.length ? make("p", { class: "small" }, `Own points, no part of the reward: ${parts.join(", ")}`) : null;
  }

  function world(verdict) {
    if (!verdict?.picture) return null;
    const box = make("div", { class: "world" });
    box.innerHTML = verdict.picture; // drawn by the report, which escapes all texts
    return box;
  }

  function ledger(points, total) {
    if (!points.length) return null;
    const line = (name, value) => make("tr", { class: value ? "" : "zero" }, make("th", { scope: "row" }, name), make("td", {}, number(value)));
    const rows = points.map(([component, value]) => line(words(index.components[component]), value));
    return make("table", { class: "ledger" }, make("tbody", {}, rows, line("reward", total)));
  }

  function tests(verdict, counts, shared) {
    if (verdict?.error) return make("ul", { class: "tests" }, make("li", {}, make("b", { class: "bad" }, "\u2717"), "The program could not be loaded: ", make("i", {}, verdict.error)));
    if (!verdict?.tests.length) return counts?.[1] ? make("p", { class: "small" }, `${counts[0]} of ${counts[1]} tests pass`) : null;
    const passed = verdict.tests.filter((test) => test[1]).length;
    const items = verdict.tests.map(([name, pass, status, message, origin, line]) => {
      const why = pass ? "" : ` ${words(status)}${message ? `: ${message}` : ""}${line ? ` (line ${line} of ${origin})` : ""}`;
      return make("li", {}, make("b", { class: pass ? "ok" : "bad" }, pass ? "\u2713" : "\u2717"), make("code", {}, shared[name]), make("i", {}, why));
    });
    return make("details", { open: verdict.tests.length <= 8 }, make("summary", {}, make("b", {}, `${passed} of ${items.length} tests pass`)), make("ul", { class: "tests" }, items));
  }

  function fill(name, values, label = String) {
    for (const value of values) form[name].append(make("option", { value }, label(value)));
    if (values.length < 2) form[name].closest("label").hidden = true;
  }
  async function apply(scroll) {
    const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
    for (const key of KEYS) form[key].value = state.get(key) ?? "";
    filter();
    let [id, partner] = ["episode", "with"].map((key) => (index.episodes[state.get(key)] && state.has(key) ? Number(state.get(key)) : null));
    if (state.has("compare") && found.length) {
      const same = found.filter((i) => index.episodes[i][0] === index.episodes[Math.min(...found)][0]);
      [id, partner] = [Math.min(...same), same.length > 1 ? Math.max(...same) : null];
    }
    id ??= found[0] ?? null;
    await choose(id, partner, true);
    if (scroll && state.size) $("transcripts").scrollIntoView();
  }
  async function start() {
    if (typeof DecompressionStream === "undefined") {
      $("count").textContent = "This browser cannot unpack the transcripts: it has no DecompressionStream.";
      return;
    }
    index = await chunk("index");
    const rewardsOf = index.episodes.flatMap((episode) => episode[4].flatMap((group) => group[1]));
    index.top = rewardsOf.reduce((top, value) => Math.max(top, value), 1e-9);
    fill("task", [...index.tasks].sort(new Intl.Collator("en", { numeric: true }).compare));
    fill("update", [...new Set(index.episodes.map((episode) => episode[2]))].sort((a, b) => a - b));
    fill("turn", [...new Set(index.episodes.flatMap((episode) => episode[4].map((group) => group[0] + 1)))].sort((a, b) => a - b));
    fill("run", [...index.runs.keys()], runName);
    $("filters").addEventListener("input", () => { filter(); choose(found.includes(selected) ? selected : found[0] ?? null); });
    $("filters").addEventListener("submit", (event) => event.preventDefault());
    $("reset").addEventListener("click", () => { for (const key of KEYS) form[key].value = ""; filter(); save(); });
    $("more").addEventListener("click", more);
    $("list").addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); move(step, true); }
    });
    document.addEventListener("keydown", (event) => {
      const step = { j: 1, k: -1 }[event.key];
      if (step && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest("input, select")) move(step, false);
    });
    addEventListener("hashchange", () => { if (location.hash.includes("=")) apply(true); });
    await apply(!reloaded);
  }
  start();
})();
