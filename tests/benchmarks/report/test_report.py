"""Reports of run folders from the functions of the trainer, without a model."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.benchmarks.evaluation.experiments import experiments
from llm_decpomdp.benchmarks.report.page import prose
from llm_decpomdp.benchmarks.report.training import answer_times
from llm_decpomdp.benchmarks.runs.results import pairs, read_results
from llm_decpomdp.envs.coding.reward import COMPONENTS
from llm_decpomdp.registry import make
from llm_decpomdp.rendering import describe_reward
from llm_decpomdp.utils.storage import RunFolder, append_json_line, read_json_lines
from tests.benchmarks.report_runs import (
    DATA,
    MANIFEST,
    chain,
    evaluate,
    finished,
    html,
    train,
    tree,
    words,
    write,
)

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return finished(RunFolder(tmp_path / "run"))


class Tags(HTMLParser):
    """Counts elements and refuses those that are closed in the wrong order."""

    VOID = ("meta", "br", "path", "use", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open, self.open

    def values(self, name: str) -> list[str]:
        """All values of an attribute."""
        return [of[name] or "" for _, of in self.seen if name in of]

    def count(self, name: str) -> int:
        return sum(tag == name for tag, _ in self.seen)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag, (tag, self.getpos())


def test_the_page_is_well_formed_and_its_ids_are_unique(folder: RunFolder) -> None:
    tags = Tags(html(folder, charts=True))
    assert tags.count("svg") == 6  # three charts, each for wide and narrow screens
    ids = tags.values("id")
    assert len(ids) == len(set(ids))


def test_every_part_of_the_navigation_is_there(folder: RunFolder) -> None:
    tags = Tags(html(folder))
    anchors = [link[1:] for link in tags.values("href") if re.fullmatch("#[a-z]+", link)]
    assert {"summary", "learning", "tasks", "cooperation", "costs", "transcripts"} <= set(anchors)
    assert set(anchors) <= set(tags.values("id"))


def test_the_page_fetches_nothing_and_runs_its_own_script_alone(folder: RunFolder) -> None:
    text = html(folder, charts=True)
    tags = Tags(text)
    assert not {"link", "img", "iframe", "object"} & {tag for tag, _ in tags.seen}
    assert all(
        address.startswith("#") for name in ("href", "xlink:href") for address in tags.values(name)
    )
    assert not tags.values("src")
    assert not re.search(r"https?:|@import|url\((?!#)", text)
    scripts = [of for tag, of in tags.seen if tag == "script" and of.get("type") != "text/plain"]
    assert scripts == [{}]
    script = text[text.index("<script>") + len("<script>") : text.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text


def test_what_data_and_configurations_say_is_escaped(folder: RunFolder) -> None:
    task = f"eval/{HOSTILE}"
    write(folder, 7, "eval", [chain(task, [[1.0]])])
    folder.config.write_text(f"note: '{HOSTILE}'\n", encoding="utf-8")
    folder.write_manifest({**MANIFEST, "model": HOSTILE})
    text = html(folder)
    assert text.count("&lt;img src=x onerror=alert(1)&gt;") >= 4
    assert HOSTILE not in text
    assert "task=eval%2F%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E&amp;phase=eval" in text


def test_the_same_folder_gives_the_same_page(folder: RunFolder) -> None:
    assert html(folder, charts=True) == html(folder, charts=True)


def test_the_result_is_said_with_intervals(folder: RunFolder) -> None:
    text = words(folder)
    pattern = (
        r"rose from 0\.75 \(0\.5\d to 0\.9\d\) to 2\.02 \(1\.\d\d to 2\.\d\d\) over 8 episodes on held-out "
        r"tasks, none of which was trained on\. The difference is \+1\.27 \(\+1\.0\d to \+1\.\d\d\)"
    )
    assert re.search(pattern, text), text[:2000]
    assert "95 % intervals over tasks. " in text


def test_tasks_that_were_trained_on_are_not_called_held_out(folder: RunFolder) -> None:
    write(folder, 6, "train", [chain("eval/3", [[1.0, 2.0]])])
    text = words(folder)
    assert "1 of 8" in text and "held-out tasks" not in text


def test_tasks_are_shown_by_falling_gain_and_lead_to_their_transcripts(folder: RunFolder) -> None:
    assert pairs(read_results(folder))[0].task == "eval/5"
    text, page = words(folder), html(folder)
    assert "8 rose, 0 fell, 0 did not change" in text
    assert "eval/5 0.50 3.50 +3.00 eval/4" in text
    assert 'href="#task=eval%2F5&amp;phase=eval&amp;update=6">3.50</a>' in page
    assert '<a href="#task=eval%2F5&amp;phase=eval&amp;compare=1">eval/5</a>' in page


def test_the_cooperation_panel_counts_how_often_components_were_earned(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    evaluate(run, 0, [0.0, 0.0, 0.0, 1.0], components={"uses_aux": 1.0})
    train(run, 1, components={"uses_aux": 1.0})
    evaluate(run, 1, [0.0, 1.0, 2.0, 1.0], components={"uses_aux": 1.0})
    assert "uses aux 25% 75%" in words(run)


def test_a_tree_counts_its_turns_equally(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    write(run, 1, "train", [tree("t", [1.0, 3.0], [[0.0, 0.0], [8.0, 8.0]])])
    (score,) = read_results(run).scores
    assert score.turns == (2.0, 4.0)
    assert score.reward == pytest.approx(3.0)
    assert "gain from turn 1 to 2 +2.00" in words(run)


def test_stand_in_data_gets_a_banner_and_real_data_none(folder: RunFolder) -> None:
    header = re.compile(r"<header>.*?</header>", re.DOTALL)
    assert "banner" not in header.findall(html(folder))[0]
    stand_in = {"train": DATA, "eval": {**DATA, "stand_in": True}}
    folder.write_manifest({**MANIFEST, "data": stand_in})
    (banner,) = re.findall(r'<p class="banner">(.*?)</p>', header.findall(html(folder))[0])
    assert "coophumaneval" in banner


def test_costs_configuration_and_origin_are_shown(folder: RunFolder) -> None:
    text = words(folder)
    title = "MAGRPO on coophumaneval-v0 smollm2-135m-instruct · seed 7 · 2026-03-01 12:00:00 UTC"
    assert title in text
    for cost in (" 6.00 s per update, 60% ", " 1 min 0 s ", " 1,234 "):
        assert cost in text
    assert "algorithm: name: magrpo" in text
    assert "git checkout 7977d54 llm-decpomdp train --config config.yaml" in text


def test_components_carry_the_names_of_the_data(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    shares = {"style_$x$": 0.6, "length": 0.4, "never": 0.0}
    evaluate(run, 0, [1.0, 2.0], components=shares)
    train(run, 3, components=shares)
    assert ">style $x$</text>" in (page := html(run, charts=True))
    assert ">never</text>" not in page and ": never." in words(run)


def test_environments_without_components_have_a_report(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    train(run, 2, components={})
    assert 'id="components"' not in html(run)


def test_a_run_without_evaluation_has_a_report(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    train(run, 8, agents=("solo_0",))
    text = words(run)
    assert re.search(r"\b0\.35 over the first 3 updates .*\b0\.60 .*\bof 8\b", text)
    assert 'id="tasks"' not in html(run)


@pytest.mark.parametrize("kind", ["train", "eval"])
def test_an_unfinished_run_of_one_row_has_a_report(tmp_path: Path, kind: str) -> None:
    run = RunFolder(tmp_path)
    if kind == "train":
        train(run, 1)
        assert re.search(r"mean team reward of \d\.\d\d", words(run))
    else:
        evaluate(run, 0, [1.0])
        assert "mean team reward 1.00 over 1 episode." in words(run)


def test_a_run_that_kept_no_episodes_has_a_report(folder: RunFolder) -> None:
    folder.episodes.unlink()
    text = words(folder)
    assert "rose from 0.75 to 2.02" in text
    assert "do not tell how much of the difference is chance" in text
    assert "Transcripts" not in text


def test_environments_that_record_no_episode_have_a_report(folder: RunFolder) -> None:
    rows = [json.loads(line) for line in folder.episodes.read_text("utf-8").splitlines()]
    folder.episodes.unlink()
    for row in rows:
        append_json_line(folder.episodes, {**row, "final": None})
    assert "largest: eval/5" in words(folder)


REWARD = describe_reward(make("coophumaneval-v0", source="bundled").reward)
DESCRIPTION = {
    "environment": "Two agents write one program: `aux_0` a helper. Nobody sees <the other>.",
    "algorithm": "MAGRPO (arXiv 2508.04652): what earned more becomes likelier.",
    "reward": REWARD,
}
ABOUT = {**MANIFEST, "description": DESCRIPTION}
FORM = {"syntax": 0.75, "main_defined": 0.25}
WHOLE = {"syntax": 0.5, "tests": 0.5}


def run_of(
    path: Path,
    before: list[float],
    after: list[float],
    shares: dict[str, float],
    manifest: dict[str, Any] = ABOUT,
) -> RunFolder:
    """A run with two evaluations whose rewards are split into components by their shares."""
    run = RunFolder(path)
    run.write_manifest(manifest)
    evaluate(run, 0, before, components=shares)
    train(run, 2, components=shares)
    evaluate(run, 2, after, components=shares)
    return run


def test_the_page_says_what_the_agents_do_and_how_they_learn(tmp_path: Path) -> None:
    run = run_of(tmp_path, [1.0] * 8, [2.0] * 8, FORM)
    text, page = words(run), html(run)
    assert "Two agents write one program: aux_0 a helper. Nobody sees &lt;the other&gt;." in text
    assert "what earned more becomes likelier." in text
    assert "docs/evaluation.md" in text and "docs/metrics.md" in text
    assert set(re.findall(r"https?://[^\"<]*", page)) == {"https://arxiv.org/abs/2508.04652"}
    assert "default-src 'none'" in page


def test_each_component_is_explained_in_the_words_of_its_environment(tmp_path: Path) -> None:
    text = words(run_of(tmp_path / "some", [1.0] * 8, [2.0] * 8, FORM))
    for name in FORM:
        assert f"{name.replace('_', ' ')} {COMPONENTS[name].text}" in text
    silent = RunFolder(tmp_path / "none")
    silent.write_manifest(ABOUT)
    evaluate(silent, 0, [0.0] * 8, components=FORM)
    assert f"syntax {COMPONENTS['syntax'].text}" in words(silent)


def test_teams_with_another_maximum_are_named(tmp_path: Path) -> None:
    alone = {**ABOUT, "description": {**DESCRIPTION, "reward": {**REWARD, "maximum": 2.1}}}
    runs = [
        run_of(tmp_path / f"{i}", [1.0], [1.0], WHOLE, m)
        for i, m in enumerate((ABOUT, ABOUT, alone))
    ]
    assert "of at most 4.0 (2.1 for 2)." in words(*runs)


def test_many_experiments_have_the_whole_width(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / f"{i}", [1.0], [1.0], WHOLE) for i in range(5)]
    many, two, one = html(*runs), html(*runs[:2]), html(runs[0])
    for name in ("tasks", "cooperation"):
        assert f'<section id="{name}" class="wide">' in many
        assert f'<section id="{name}" class="">' in two
    assert '<section id="summary" class="wide">' in two
    assert '<section id="summary" class="">' in one


def test_one_run_that_says_what_it_is_about_is_enough(tmp_path: Path) -> None:
    new = run_of(tmp_path / "new", [1.0], [1.0], WHOLE)
    old = run_of(tmp_path / "old", [1.0], [1.0], WHOLE, MANIFEST)
    assert "Two agents write one program" in words(new, old)
    assert "coophumaneval-v0 : Two agents" not in words(new, old)


def test_the_cards_say_out_of_how_much_and_how_many_were_solved(tmp_path: Path) -> None:
    run = run_of(tmp_path, [1.0] * 8, [4.0, *[2.0] * 7], WHOLE)
    text = words(run)
    assert re.search(r"before training 1\.00 of 4\.0 after 2 updates 2\.25 of 4\.0", text)
    assert "tasks solved 0 of 8 → 1 of 8" in text


def test_a_gain_in_form_is_called_form(tmp_path: Path) -> None:
    text = words(run_of(tmp_path, [1.0, 0.5] * 4, [2.0] * 8, FORM))
    assert "Only the form improved; no task is solved." in text
    assert "tasks solved 0 of 8 → 0 of 8" in text
    assert re.search(r"\+1\.25 of the change is form \(syntax, main defined\)", text)


def test_a_gain_beyond_form_is_told_apart(tmp_path: Path) -> None:
    text = words(run_of(tmp_path, [1.0, 0.5] * 4, [2.0] * 8, WHOLE))
    assert "The reward increased; no task is solved." in text
    assert re.search(
        r"\+0\.62 of the change is form \(syntax\), .*; \+0\.62 .* is the rest \(tests\)", text
    )


UNCHANGED = "Training did not change the reward significantly."


@pytest.mark.parametrize(
    ("before", "after", "headline"),
    [
        ([1.0, 2.0] * 4, [2.0, 1.0] * 4, f"{UNCHANGED} .* contains 0, so .* may be chance"),
        ([1.0, 1.0], [2.0, 2.5], f"{UNCHANGED} .* may be chance: 2 tasks"),
        ([2.0] * 8, [1.0] * 8, "The reward is lower than before training."),
        ([1.0] * 8, [4.0] * 8, "tasks solved: 0 of 8 before training, 8 of 8 after training."),
    ],
)
def test_the_headline_claims_what_was_measured(
    before: list[float], after: list[float], headline: str, tmp_path: Path
) -> None:
    assert re.search(headline, words(run_of(tmp_path, before, after, WHOLE)))


def test_seeds_are_counted_by_episodes(tmp_path: Path) -> None:
    runs = [
        run_of(tmp_path / f"{s}", [1.0] * 8, [4.0] * 8, WHOLE, {**ABOUT, "seed": s}) for s in (0, 1)
    ]
    for seed, run in enumerate(runs):
        run.config.write_text(f"seed: {seed}\n", encoding="utf-8")
    assert "episodes solved 0 of 16 → 16 of 16" in words(*runs)


def test_an_evaluation_has_cards_too(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_manifest({**ABOUT, "kind": "evaluation"})
    evaluate(run, 0, [4.0, 2.0], components=WHOLE)
    assert re.search(r"mean team reward 3\.00 of 4\.0 .* tasks solved 1 of 2 ", words(run))


def test_teams_stand_by_tests_passed_and_sequential_tokens(tmp_path: Path) -> None:
    teams = [RunFolder(tmp_path / name) for name in ("team", "single")]
    for team, counts in zip(teams, ({"aux_0": 20, "main_0": 30}, {"main_0": 90}), strict=True):
        evaluate(team, 0, [1.0, 2.0])
        rows = list(read_json_lines(team.episodes))
        team.episodes.write_text("", encoding="utf-8")
        for extra, row in enumerate(rows):
            turns = [counts, {"main_0": extra}]
            append_json_line(team.episodes, {**row, "tokens": turns})
        assert 'id="time"' not in html(team)
    points = answer_times(experiments([read_results(team) for team in teams]))
    assert [(point.name, point.x.value, point.y.value) for point in points] == [
        *(("team", 30.5, 0.5), ("single", 90.5, 0.5)),
    ]
    page = html(*teams, charts=True)
    assert 'id="time"' in page and ">team</text>" in page and ">sequential tokens</text>" in page


def test_rows_without_groups_and_a_damaged_configuration_are_named(folder: RunFolder) -> None:
    text = folder.config.read_text(encoding="utf-8")
    for damaged in ("env: {id: x", "- 1"):
        folder.config.write_text(damaged, encoding="utf-8")
        with pytest.raises(ValueError, match=r"run/config\.yaml is damaged: "):
            html(folder)
    folder.config.write_text(text, encoding="utf-8")
    append_json_line(folder.episodes, {"task_id": 3})
    with pytest.raises(ValueError, match=r"episodes\.jsonl: line \d+ has no groups"):
        html(folder)


def test_empty_lists_of_the_data_are_called_none(tmp_path: Path) -> None:
    issues = {"known_issues": {"HumanEval/47": "the <example> is wrong"}, "excluded": {}}
    run = run_of(tmp_path, [1.0], [1.0], FORM, {**ABOUT, "data": {"eval": {**DATA, **issues}}})
    text = words(run)
    assert "excluded none" in text and "known issues 1, listed below" in text
    assert "HumanEval/47 the &lt;example&gt; is wrong" in text
    assert "{}" not in text


def test_prose_is_escaped_before_it_is_marked() -> None:
    assert prose("`<b>` & arXiv 1234.56789") == (
        '<p><code>&lt;b&gt;</code> &amp; <a href="https://arxiv.org/abs/1234.56789" '
        'rel="noreferrer">arXiv 1234.56789</a></p>'
    )
