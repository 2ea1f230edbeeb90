"""Episodes in the page: packed small, and read again as they were."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.benchmarks.report import write_report
from llm_decpomdp.benchmarks.report.transcripts import Pack, choose_lines
from llm_decpomdp.benchmarks.runs.results import read_results
from llm_decpomdp.picture import panel, picture
from llm_decpomdp.utils.storage import RunFolder
from tests.benchmarks.report_runs import HOSTILE, chain, evaluate, finished, html, tree, write


def blocks(run: RunFolder) -> dict[str, Any]:
    """The chunks of the page, unpacked."""
    text = html(run)
    found = re.findall(r'<script type="text/plain" id="data-([a-z0-9-]+)">([^<]*)</script>', text)
    return {name: json.loads(gzip.decompress(base64.b64decode(data))) for name, data in found}


def test_the_index_has_the_numbers_of_every_episode(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    write(run, 3, "train", [chain("a", [[0.5, 4.0], [1.0, 2.0]])])
    evaluate(run, 3, [1.5])
    index = blocks(run)["index"]
    assert index["tasks"] == ["a", "eval/0"]
    assert index["episodes"] == [
        [0, 0, 3, 0, [[0, [0.5, 4.0], [0, 1]], [1, [1.0, 2.0], [0, 0]]]],
        [0, 1, 3, 1, [[0, [1.5], [0]]]],
    ]


def test_what_was_asked_written_and_judged_is_in_the_chunks(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    write(run, 1, "train", [chain("a", [[0.5, 4.0], [1.0, 2.0]])])
    found = blocks(run)
    first, second = found["chunk-0"][0]["groups"]
    assert found["shared"][first["prompts"]["aux_0"]] == "aux_0, solve a, turn 1"
    assert second["prompts"]["aux_0"] == "aux_0, solve a, turn 2"
    assert second["parent"] == [0, 1]
    assert first["completions"]["main_0"][1] == f"def main_0():\n    return 4.0  # {HOSTILE}"
    names = found["index"]["components"]
    assert [(names[i], points) for i, points in first["points"][1]] == [
        ("tests", 3.0),
        ("syntax", 1.0),
    ]
    passed, failed = found["chunk-0"][0]["verdicts"][0]["tests"]
    assert found["shared"][passed[0]] == "assert f(1) == 2" and passed[1] is True
    assert failed[1:] == [False, "error", "NameError: x", "main_0", 2]


def test_groups_of_a_tree_name_their_parents(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    write(run, 1, "train", [tree("t", [1.0, 3.0], [[0.0, 0.5], [8.0, 7.0]])])
    (episode,) = blocks(run)["chunk-0"]
    assert [group["parent"] for group in episode["groups"]] == [None, [0, 0], [0, 1]]
    assert episode["verdicts"] == []


def test_a_prompt_that_repeats_is_stored_once(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for update in range(3):
        evaluate(run, update, [1.0, 2.0])
    assert len(blocks(run)["shared"]) == 2 * 2 + 2  # tasks times agents, and test cases


def test_index_finds_chunks(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(Pack, "CHUNK", 2000)
    found = blocks(finished(RunFolder(tmp_path)))
    chunks = [found[f"chunk-{i}"] for i in range(len(found["index"]["starts"]))]
    sizes = [len(chunk) for chunk in chunks]
    assert len(chunks) > 2 and sum(sizes) == 22
    assert found["index"]["starts"] == [sum(sizes[:i]) for i in range(len(sizes))]


def test_the_picture_of_a_verdict_is_drawn_from_the_stored_episode(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    rollout = chain("a", [[0.5], [1.0]])
    first, second = rollout.final["turns"]
    first["verdict"]["details"]["picture"] = picture([panel(HOSTILE, ["r "])], {"r": ("red", "x")})
    second["verdict"]["details"]["picture"] = "file.png"  # of a reward of the user's own
    write(run, 1, "train", [rollout])
    drawn, other = blocks(run)["chunk-0"][0]["verdicts"]
    assert drawn["picture"].startswith("<svg") and "<script" not in drawn["picture"]
    assert drawn["picture"].count("<rect") == 3
    assert "picture" not in other


def test_where_rewards_sum_to_the_score_the_page_has_the_sum(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_manifest({"description": {"reward": {"cumulative": True, "maximum": 1.0}}})
    # A chain stands for all of its samples: 0.5 + 0.25. In a tree each sample has its own turns after it.
    write(run, 1, "train", [chain("a", [[0.25, 0.75], [0.0, 0.5]])])
    write(run, 2, "train", [tree("b", [0.0, 1.0], [[0.5]])])
    write(run, 2, "eval", [chain("eval/0", [[0.5], [0.25]])])
    evaluate(run, 3, [0.5])
    sums = [0.75, 0.75, 0.75, 0.5]
    assert [episode[5] for episode in blocks(run)["index"]["episodes"]] == sums
    results = read_results(run)
    assert [row["reward_mean"] for row in (*results.train, *results.evaluations)] == sums
    assert [score.reward for score in results.scores] == sums
    assert results.scores[0].points == {"tests": 0.75 * 0.75, "syntax": 0.25 * 0.75}
    page = run.report.read_text(encoding="utf-8")
    assert "reward means this sum" in page and "team reward, sum over turns" in page


def test_a_page_of_a_large_file_has_evaluations_and_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished(RunFolder(tmp_path))
    size = run.episodes.stat().st_size
    monkeypatch.setattr("llm_decpomdp.benchmarks.report.transcripts.LIMIT", size * 20 // 22)
    text = write_report(run).read_text(encoding="utf-8")
    assert "of 22 episodes, and episodes.jsonl has all" in text
    episodes = blocks(run)["index"]["episodes"]
    phases = [phase for _, phase, *_ in episodes]
    assert phases.count(1) == 16 and 0 < phases.count(0) < 6


def test_lines_are_chosen_from_the_last_evaluation_on_then_over_all_updates(tmp_path: Path) -> None:
    scores = read_results(finished(RunFolder(tmp_path))).scores
    last = {score.line for score in scores if (score.phase, score.update) == ("eval", 6)}
    assert choose_lines(scores, 8) == last
    trained = [score.line for score in scores if score.phase == "train"]
    more = set(choose_lines(scores, 19)) & set(trained)
    assert more == set(trained[::2])
