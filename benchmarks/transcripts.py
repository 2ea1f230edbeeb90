"""Episodes for readers: what every agent was asked and wrote, and how the team was judged."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from llm_decpomdp.benchmarks.charts import plain
from llm_decpomdp.benchmarks.page import box, folded, listing, number, tag
from llm_decpomdp.benchmarks.results import Row, episode_reward

LONG = 40
"""Lines from which a text is folded away."""


def first_prompts(episode: Row) -> str:
    """What each agent was asked on the first turn."""
    prompts: dict[str, str] = episode["groups"][0]["prompts"]
    blocks = [
        folded(f"{agent} is asked", listing(prompt, prose=True), note=_lines(prompt), unfolded=True)
        for agent, prompt in prompts.items()
    ]
    return box("div", blocks, "wide columns")


def episode_column(title: str, episode: Row) -> str:
    """An episode along the joint samples that were chosen, under its title."""
    reward = episode_reward(episode)
    mean = f": {number(reward)}" + (", mean of turns" if len(episode["groups"]) > 1 else "")
    turns = [_turn(episode, index) for index in range(len(episode["groups"]))]
    early = [tag("p", "The chain stopped early: its group was good enough.", "small")]
    return box(
        "section",
        [tag("h3", f"{title}{mean}"), *turns, *(early if episode["stopped_early"] else [])],
    )


def _turn(episode: Row, index: int) -> str:
    turn = episode["groups"][index]
    chosen = turn["chosen"]
    reward = f"reward {number(turn['rewards'][chosen])}"
    blocks = [
        f"<h3>Turn {index + 1} <span>{reward}</span></h3>",
        _points(turn["infos"][chosen]),
        _group(turn["rewards"]),
    ]
    for agent, completions in turn["completions"].items():
        text = completions[chosen]
        if index > 0:
            prompt = turn["prompts"][agent]
            html = listing(prompt, prose=True)
            blocks.append(folded(f"{agent} is asked", html, note=_lines(prompt)))
        html, long = listing(text), text.count("\n") >= LONG
        blocks.append(folded(f"{agent} writes", html, note=_lines(text), unfolded=not long))
    final = episode["final"] or {}
    if "turns" in final:
        blocks.append(_tests(final["turns"][index]["verdict"]))
    return box("div", blocks, "turn")


def _points(info: Row) -> str:
    """The components of the reward; those without points recede."""
    items = [
        tag("li", f"{plain(key.removeprefix('reward/'))} {number(value)}", "" if value else "zero")
        for key, value in info.items()
        if key.startswith("reward/")
    ]
    return box("ul", items, "points") if items else ""


def _group(rewards: Sequence[float]) -> str:
    if len(rewards) == 1:
        return ""
    others = ", ".join(number(reward) for reward in rewards)
    return tag("p", f"One of {len(rewards)} joint samples, with rewards {others}.", "small")


def _tests(verdict: Row) -> str:
    """Every test with its outcome, or why none was run."""
    tests, error = verdict["tests"], verdict["error"]
    if error is not None:
        return _failure("The program could not be loaded", error["message"])
    if not tests:
        return ""
    if all(test["status"] == "not_run" for test in tests):
        return _failure(f"None of the {len(tests)} tests was run", tests[0]["message"])
    passed = sum(test["passed"] for test in tests)
    html = box("ul", [_test(test) for test in tests], "tests")
    return folded(f"{passed} of {len(tests)} tests pass", html, unfolded=len(tests) <= LONG // 2)


def _failure(what: str, why: str) -> str:
    item = f'<li class="fail"><b>✗</b>{escape(what)}: <i>{escape(why)}</i></li>'
    return box("ul", [item], "tests")


def _test(test: dict[str, Any]) -> str:
    if test["passed"]:
        return f'<li class="pass"><b>✓</b><code>{escape(test["case"])}</code></li>'
    why = f"{test['status'].replace('_', ' ')}: {test['message']}".removesuffix(": ")
    where = f" (line {test['line']} of {test['origin']})" if test["line"] else ""
    case = f"<code>{escape(test['case'])}</code>"
    return f'<li class="fail"><b>✗</b>{case} <i>{escape(why + where)}</i></li>'


def _lines(text: str) -> str:
    count = text.strip("\n").count("\n") + 1 if text.strip() else 0
    return {0: "nothing", 1: "1 line"}.get(count, f"{count} lines")
