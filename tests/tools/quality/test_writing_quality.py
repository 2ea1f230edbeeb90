"""The comparison of rewards for writing with degenerate texts, and the audit of rows."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.audit.run import audit
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.envs.datasets.loading import REFERENCE
from llm_decpomdp.envs.writing.audit import about_writing, degenerate
from llm_decpomdp.envs.writing.text_measures import words
from llm_decpomdp.registry import make
from tools.quality import writing
from tools.quality.writing import (
    GOAL,
    POLICIES,
    RewardRow,
    compare,
    imperfect,
    judge,
    main,
    nonsense,
    table,
)

DEGENERATE = ("shuffled words", "random words", "source copied", "another row's", "one sentence")


@pytest.mark.parametrize("genre", ["tldr", "arxiv"])
def test_v1_ranks_the_reference_before_every_degenerate_text(genre: str) -> None:
    env = make(f"{genre}-v1", source="bundled", split="all")
    lines = {line.texts: line for line in compare(env, seed=1)}
    assert set(lines) == {REFERENCE, *DEGENERATE, *POLICIES}
    for kind in DEGENERATE:
        assert lines[kind].reference_first >= GOAL, kind
        assert lines[kind].rows == 60
        assert lines[kind].mean < lines[REFERENCE].mean / 3
    for kind in POLICIES:
        assert lines[kind].reference_first >= 0.85, kind
        assert lines[kind].mean < 2.5, kind
    assert lines[REFERENCE].mean > 3.6


@pytest.mark.parametrize("genre", ["tldr", "arxiv"])
def test_v1_falls_with_the_faults_of_a_text(genre: str) -> None:
    env = make(f"{genre}-v1", source="bundled", split="all")
    mean = {line.texts: line.mean for line in compare(env, make_texts=imperfect)}
    for fault in ("replaced", "left out"):
        earned = [mean[f"{share}0% of words {fault}"] for share in (1, 2, 3)]
        assert mean[REFERENCE] > earned[0] > earned[1] > earned[2] > 0.7
    assert mean["10% of words left out"] > 3.3
    assert mean["first 1 and 3 sentences"] < 1.0


@pytest.mark.parametrize("genre", ["tldr", "arxiv"])
def test_v0_is_earned_by_shuffled_words(genre: str) -> None:
    env = make(f"{genre}-v0", source="bundled", split="all")
    lines = {line.texts: line for line in compare(env)}
    assert lines["shuffled words"].mean > 0.95 * lines[REFERENCE].mean


def test_degenerate_texts_are_what_they_are_called() -> None:
    env = make("tldr-v1", source="bundled", split="all")
    task, kinds = next(degenerate(env, seed=0))
    own = task.references["elaborator_0"]
    assert kinds[REFERENCE] == task.references
    shuffled = kinds["shuffled words"]["elaborator_0"]
    assert sorted(shuffled.split()) == sorted(own.split()) and shuffled != own
    assert len(kinds["random words"]["elaborator_0"].split()) == len(own.split())
    assert kinds["source copied"]["summarizer_0"] == task.prompt
    assert kinds["another row's"]["elaborator_0"] in [
        other.references["elaborator_0"] for other in env.tasks.tasks if other is not task
    ]
    repeated = kinds["one sentence"]["elaborator_0"]
    sentence = own.split(". ")[0]
    assert repeated.count(sentence) >= 2 and repeated.replace(sentence, "").strip(" .") == ""


def test_policies_write_words_of_the_source_and_transitions() -> None:
    env = make("tldr-v1", source="bundled", split="all")
    task, kinds = next(nonsense(env, seed=0))
    assert set(kinds) == {REFERENCE, *DEGENERATE, *POLICIES}
    given = "however moreover for example finally also and of in with for but on that by"
    there = set(words(f"{task.prompt} {given}"))
    for name in POLICIES:
        if not name.startswith("shuffled runs"):
            assert all(there.issuperset(words(text)) for text in kinds[name].values()), name
        second = words(kinds[name]["elaborator_0"])
        assert {"however", "moreover", "finally"} <= set(second), name
    pairs = set(pairwise(words(task.prompt)))
    runs = words(kinds["random runs of 2"]["summarizer_0"])
    assert len(runs) >= 20
    assert sum(pair in pairs for pair in pairwise(runs)) >= len(runs) // 2
    halves = kinds["shuffled runs of 2"]["summarizer_0"]
    assert sorted(words(halves)) == sorted(words(task.references["summarizer_0"]))


def test_the_same_seed_makes_the_same_texts() -> None:
    env = make("arxiv-v1", source="bundled", split="all")
    one, same, other = (list(degenerate(env, seed)) for seed in (0, 0, 1))
    assert one == same != other


def test_command_writes_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = lambda name, **options: make(name, **{**options, "split": "all[:4]"})  # noqa: E731
    monkeypatch.setattr(writing, "make", few)
    main(
        source="bundled",
        seed=0,
        model=None,
        rows=1,
        max_new_tokens=1,
        file=tmp_path / "a" / "b.json",
    )
    printed = capsys.readouterr().out
    assert printed.count("| texts | mean | sd | min | max | reference first | rows |") == 6
    assert "tldr-v0, at most 2.98:" in printed and "arxiv-v1, at most 4:" in printed
    lines = json.loads((tmp_path / "a" / "b.json").read_text())["lines"]
    assert len(lines) == 4 * (6 + len(POLICIES))


def test_samples_are_judged_beside_their_rows_references() -> None:
    env = make("tldr-v1", source="bundled", split="all")
    tasks = env.tasks.tasks[:2]
    line = judge(
        env, "a model", [dict(tasks[0].references), dict.fromkeys(env.possible_agents, "")]
    )
    assert (line.reference_first, line.least, line.rows) == (0.5, 0.0, 2)
    assert "| a model |" in list(table([line]))[-1]


def test_a_table_has_no_negative_zero() -> None:
    assert "-0.00" not in "".join(table([RewardRow("e", "t", -1e-17, 0.0, -1e-17, 0.0, 1.0, 1)]))


# The audit


def test_the_bundled_rows_have_no_faults() -> None:
    for genre in ("tldr", "arxiv"):
        for version in ("v0", "v1"):
            env = make(f"{genre}-{version}", source="bundled", split="all")
            remarks = list(about_writing(env))
            assert not [remark for remark in remarks if remark.fault]
            assert {remark.kind for remark in remarks} <= ({"rank"} if version == "v0" else set())


def test_faults_of_rows_are_told(tmp_path: Path) -> None:
    good = make("tldr-v1", source="bundled").tasks.tasks
    rows = [
        {"task_id": "lonely", "prompt": "My cat sleeps.", "completion": "Cat."},
        *(
            {"task_id": name, "prompt": good[0].prompt, "completion": one, "elaboration": other}
            for name, one, other in (
                ("good", *good[0].references.values()),
                ("again", *good[0].references.values()),
                ("wrong", *good[1].references.values()),
                ("short", "Petra.", "Petra wants money."),
            )
        ),
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    remarks = list(about_writing(make("tldr-v1", source=str(path))))
    found = {(remark.kind, remark.task_id) for remark in remarks}
    assert ("duplicate", "tldr/again") in found and ("duplicate", "tldr/good") not in found
    assert ("reference", "tldr/lonely") in found
    assert ("length", "tldr/short") in found and ("length", "tldr/good") not in found
    assert {"tldr/wrong"} <= {remark.task_id for remark in remarks if remark.fault}
    assert "tldr/good" not in {remark.task_id for remark in remarks if remark.fault}


def test_the_command_audits_texts_and_names_refused_rows(tmp_path: Path) -> None:
    assert audit("tldr-v1", "bundled", "all").summary.startswith(
        "tldr-v1, all of bundled: 60 rows, 60 checked, 0 excluded"
    )
    path = tmp_path / "rows.jsonl"
    path.write_text(
        json.dumps({"prompt": ""}) + "\n" + json.dumps({"prompt": "My cat sleeps."}) + "\n"
    )
    found = audit("tldr-v1", str(path))
    assert [remark.kind for remark in found.remarks] == ["reference", "excluded"]
    with pytest.raises(ConfigError, match="no programs to grade:"):
        audit("tldr-v1", "bundled", episodes=path)
