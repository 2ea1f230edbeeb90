"""Learning from stored pairs: `export --pairs`, then `train --pairs FILE`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from llm_decpomdp.agents import load_saved_team, tiny_causal_lm
from llm_decpomdp.algorithms.preferences import pairs
from llm_decpomdp.algorithms.preferences.learner import PreferenceLearner
from llm_decpomdp.algorithms.preferences.pairs import PreferencePair
from llm_decpomdp.algorithms.preferences.stored import add_tokens, stored_pairs
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.benchmarks import load_config, train
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.play import read_rollout
from llm_decpomdp.benchmarks.runs.setup import resolve
from llm_decpomdp.policy import Completion
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.preferences import teams
from tests.benchmarks.runs.conftest import Runs
from tests.support.commands import call

AGENTS = ("player_0", "player_1")
PROBE = ["env.id=probe-noisy-partners-v0", "env.num_agents=2", "dataset.source=auto"]
ROW: dict[str, Any] = {
    "task": "t/1",
    "turn": 0,
    "agent": "player_0",
    "prompt": "a",
    "chosen": "b",
    "rejected": "a",
    "chosen_return": 1.0,
    "rejected_return": 0.0,
}


def pairs_of(rollouts: Sequence[Rollout], **options: Any) -> list[PreferencePair]:
    """The pairs that a learner makes of rollouts."""
    return [
        pair
        for rollout in rollouts
        for of_group in teams.pairs_of(rollout, AGENTS, **options)
        for pair in of_group
    ]


def told(pair: PreferencePair) -> list[Any]:
    """What a pair is, for the agents that said different things in it."""
    agents = [agent for agent in AGENTS if pair.differs(agent)]
    sides = [[(side[a].text, side[a].tokens) for a in agents] for side in (pair.winner, pair.loser)]
    return [
        str(pair.start),
        agents,
        [pair.prompts[a] for a in agents],
        sides,
        pair.gap,
        pair.weight,
    ]


@pytest.fixture
def recorded(quick: list[str], tmp_path: Path) -> Path:
    """A run that has sampled some answers, with their tokens."""
    more = ["output.name=first", "output.record_tokens=true", "output.report=false"]
    options = ["algorithm.num_generations=6", "model.max_new_tokens=6"]
    modes = ["algorithm.joint_mode=cross", "algorithm.prompts_per_update=2"]
    overrides = [*quick, *PROBE, *more, *options, *modes]
    train(load_config(None, overrides), "first")
    rows = read_json_lines(tmp_path / "first" / "episodes.jsonl")
    path = tmp_path / "first" / "episodes.jsonl"
    lines = [lively(row) for row in rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "first"


def lively(row: dict[str, Any]) -> dict[str, Any]:
    """The row with rewards that differ: untrained models write bytes that are all worth nothing."""
    for number, group in enumerate(row["groups"]):
        rng = np.random.default_rng([row["update"], number])
        group["rewards"] = rng.random(len(group["joint"])).tolist()
    return row


@pytest.mark.parametrize(("kind", "number"), [("joint", 1), ("joint", 3), ("single", 4)])
def test_stored_pairs_are_rollouts(recorded: Path, tiny_model: str, kind: str, number: int) -> None:
    options = ["--pair-kind", kind, "--pairs-per-group", str(number)]
    assert call("export", str(recorded), "--pairs", "--to", "jsonl", *options) == 0
    stored = stored_pairs(
        recorded / "pairs-jsonl" / "train.jsonl", dict.fromkeys(AGENTS, tiny_model)
    )
    rows = [r for r in read_json_lines(recorded / "episodes.jsonl") if r["phase"] == "train"]
    made = pairs_of([read_rollout(row) for row in rows], pair_kind=kind, pairs_per_group=number)
    assert len(stored) == len(made) == 4 * number
    again = pairs_of(stored)
    key = lambda pair: json.dumps(told(pair))  # noqa: E731
    assert sorted(map(key, again)) == sorted(map(key, made))
    assert all(c.tokens for pair in again for c in pair.winner.values())
    assert add_tokens(stored, {}) == stored  # nothing is tokenised


def test_a_run_learns_from_a_file_and_goes_on_where_it_stopped(
    recorded: Path, quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--pair-kind", "single", "--pairs-per-group", "4"]
    assert call("export", str(recorded), "--pairs", "--to", "jsonl", *options) == 0
    file = recorded / "pairs-jsonl" / "train.jsonl"
    settings = [
        *[*quick, *PROBE, "algorithm.learning_rate=0.01", "algorithm.max_updates=null"],
        *["algorithm.num_train_epochs=3", "algorithm.prompts_per_update=8"],
        *["algorithm.dpo_beta=0.5", "output.checkpoint_every=2"],
        "algorithm.normalize_advantages=false",
    ]
    arguments = ["train", "--config", "demo", "--pairs", str(file)]
    assert call(*arguments, "--dry-run", "--override", *settings) == 0
    assert "16 stored pairs" in capsys.readouterr().out
    assert call(*arguments, "--override", *settings) == 0
    run = tmp_path / "run"
    rows = [row for row in read_json_lines(run / "metrics.jsonl") if row["kind"] == "train"]
    assert [row["pairs"] for row in rows] == [8] * 6
    assert rows[0]["pair_accuracy"] == 0 and rows[-1]["pair_accuracy"] > 0.9
    assert rows[-1]["pair_loss"] < rows[0]["pair_loss"]
    evaluations = [r for r in read_json_lines(run / "metrics.jsonl") if r["kind"] == "eval"]
    assert len(evaluations) == 2 and (run / "report.html").is_file()
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["pairs"]["rows"] == 16 and manifest["algorithm"] == "madpo"
    assert "tokenized again" not in capsys.readouterr().err
    longer = ["algorithm.num_train_epochs=4"]
    assert call("train", "--resume", str(run), "--override", *longer) == 0
    rows = [row for row in read_json_lines(run / "metrics.jsonl") if row["kind"] == "train"]
    assert [row["update"] for row in rows] == list(range(1, 9))
    file.write_text(file.read_text() + json.dumps(ROW | {"task": "t/9"}) + "\n")
    assert call("train", "--resume", str(run), "--override", "algorithm.num_train_epochs=5") == 2
    assert "the pairs of its configuration have changed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm.name=magrpo"], "section algorithm.preferences means nothing with magrpo"),
        (["algorithm.joint_mode=cross"], "joint_mode=cross means nothing with preferences.source"),
        (
            ["algorithm.rollout.max_resample_rounds=1"],
            "max_resample_rounds=1 means nothing with preferences.source",
        ),
        (["algorithm.pair_min_gap=3"], r"pair_min_gap=3 means nothing with preferences.source"),
    ],
)
def test_options_without_effect_on_pairs_fail(overrides: list[str], message: str) -> None:
    given = ["algorithm.name=madpo", "algorithm.pairs_source=/tmp/pairs.jsonl"]
    with pytest.raises(ConfigError, match=message):
        load_config(None, [*given, *overrides])
    load_config(None, [*given, "algorithm.pair_kind=single"])


def test_pairs_of_later_turns_teach_alone_and_beside(quick: list[str], tmp_path: Path) -> None:
    turns = [1, 1, 0, 1]
    later = [ROW | {"turn": turn, "group": n, "rollout": n} for n, turn in enumerate(turns)]
    file = written(tmp_path / "pairs.jsonl", *later)
    settings = [
        *[*quick, *PROBE, "algorithm.prompts_per_update=2", "algorithm.normalize_advantages=false"],
        *["algorithm.max_updates=null", "algorithm.num_train_epochs=1", "output.report=false"],
    ]
    assert call("train", "--config", "demo", "--pairs", str(file), "--override", *settings) == 0
    rows = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    train_rows = [row for row in rows if row["kind"] == "train"]
    assert [row["pairs"] for row in train_rows] == [2, 2]
    assert all(row["reward_mean"] == 0.5 == row["turn_2/reward_mean"] for row in train_rows)
    assert sorted("turn_1/reward_mean" in row for row in train_rows) == [False, True]


def test_pairs_of_another_environment_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "pairs.jsonl", ROW | {"environment": "humaneval-v0"})
    with pytest.raises(ValueError, match=r"line 1: a pair of humaneval-v0, .* of probe-turns-v0"):
        stored_pairs(path, {"player_0": "m"}, environment="probe-turns-v0")


def test_of_very_large_groups_the_best_and_the_worst_samples_make_pairs(
    quick: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "MAX_JOINT_SAMPLES", 20)
    options = ["algorithm.num_generations=16", "algorithm.joint_mode=cross", "seed=0"]
    settings = [*quick, *PROBE, *options, "algorithm.max_updates=1", "output.report=false"]
    assert call("train", "--config", "demo", "--override", *settings) == 0
    assert call("export", str(tmp_path / "run"), "--pairs", "--to", "jsonl") == 0
    rows = list(read_json_lines(tmp_path / "run" / "pairs-jsonl" / "train.jsonl"))
    episodes = read_json_lines(tmp_path / "run" / "episodes.jsonl")
    rewards = [row["groups"][0]["rewards"] for row in episodes if row["phase"] == "train"]
    assert {len(of_group) for of_group in rewards} == {16**2}
    largest = {max(of_group) - min(of_group) for of_group in rewards}
    assert rows and {row["margin"] for row in rows} <= largest


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_texts_without_the_tokens_of_the_model_are_tokenised_once_with_their_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = tiny_causal_lm("ab")
    sampled = {"model": "mine", "chosen_token_ids": [7], "rejected_token_ids": [8]}
    path = written(
        tmp_path / "pairs.jsonl",
        ROW | {"chosen_finish_reason": "length", "rejected": ""},
        ROW | {"task": "seed 4"} | sampled,
    )
    texts, kept = stored_pairs(path, {"player_0": "mine"})
    assert texts.groups[0].completions["player_0"][0] == Completion("b", finish_reason="length")
    assert kept.groups[0].completions["player_0"][1] == Completion("a", (8,))
    assert (texts.start, kept.start) == (Start(task_id="t/1"), Start(seed=4))
    (other,) = stored_pairs(path, {"player_0": "other"})[1:]
    assert other.groups[0].completions["player_0"][1].tokens == ()
    tokenised, same = add_tokens([texts, kept], {"player_0": policy})
    cut, empty = tokenised.groups[0].completions["player_0"]
    assert (cut.tokens, cut.finish_reason) == ((2,), "length")  # it never ended
    assert (empty.tokens, empty.finish_reason) == ((0,), "stop")
    assert same == kept
    assert "2 completions of stored pairs have no tokens" in caplog.text


def test_pairs_of_later_turns_are_refused_where_a_policy_reads_histories(tmp_path: Path) -> None:
    team = {"player_0": tiny_causal_lm("ab", history="chat")}
    path = written(tmp_path / "pairs.jsonl", ROW, ROW | {"turn": 1, "group": 1})
    first, later = stored_pairs(path, {"player_0": None})
    assert len(add_tokens([first], team)) == 1
    with pytest.raises(
        ValueError, match="'player_0' reads histories, and stored pairs of later turns"
    ):
        add_tokens([later], team)


def test_a_task_has_no_more_pairs_than_its_limit_and_keeps_the_clearest(tmp_path: Path) -> None:
    rows = [ROW | {"group": n, "chosen_return": float(r)} for n, r in enumerate([1, 3, 2])]
    path = written(tmp_path / "pairs.jsonl", *rows, ROW | {"task": "t/2"})
    found = stored_pairs(path, {"player_0": "m"}, limit=2)
    assert [(p.start.task_id, p.groups[0].rewards[0]) for p in found] == [
        ("t/1", 3.0),
        ("t/1", 2.0),
        ("t/2", 1.0),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"agent": "player_0"}, r"line 1: no task, turn, .*: write the file by export RUN --pairs"),
        (ROW | {"agent": "aux"}, "agent 'aux' is none of player_0"),
        (ROW | {"rejected_return": 1.0}, "chosen_return must be above rejected_return, got 1.0"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stored_pairs(written(tmp_path / "pairs.jsonl", row), {"player_0": "m"})


def test_missing_and_empty_files_and_two_answers_of_an_agent_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"line 2: a second row of 'player_0' in a pair: .*rollout"
    ):
        stored_pairs(written(tmp_path / "pairs.jsonl", ROW, ROW), {"player_0": "m"})
    with pytest.raises(ValueError, match="cannot read pairs from"):
        stored_pairs(tmp_path / "absent.jsonl", {})
    with pytest.raises(ValueError, match="holds no pairs"):
        stored_pairs(written(tmp_path / "empty.jsonl"), {})


SHORT = ["output.report=false", "evaluation.num_tasks=0", "algorithm.normalize_advantages=false"]
PAIRS = ["algorithm.name=madpo", "algorithm.pair_min_gap=0", "algorithm.max_updates=2"]
PAIRS += ["algorithm.num_train_epochs=2", "algorithm.num_generations=6"]


def rows_of(run: Path) -> list[dict[str, Any]]:
    timed = ("_seconds", "_per_second")
    rows = read_json_lines(run / "metrics.jsonl")
    return [{k: v for k, v in row.items() if not k.endswith(timed)} for row in rows]


def weights(run: Path) -> list[torch.Tensor]:
    team = load_saved_team(run / "final_model")
    return [weight for agent in team for weight in team[agent].parameters()]  # type: ignore[attr-defined]


def test_a_run_compares_with_a_saved_team_and_goes_on_where_it_stopped(
    quick: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = [*quick, *PROBE, *SHORT, "output.save_final_model=true"]
    first = [*settings, "output.name=first", "algorithm.max_updates=1"]
    assert call("train", "--config", "demo", "--override", *first) == 0
    monkeypatch.chdir(tmp_path)
    options = [*settings, *PAIRS, "algorithm.preferences.opponent=first/final_model"]
    line = ["train", "--config", "demo", "--override", *options]
    capsys.readouterr()
    assert call(*line, "--dry-run") == 0
    twice = capsys.readouterr().out
    assert call(*line, "algorithm.preferences.opponent=current", "--dry-run") == 0
    once = capsys.readouterr().out
    samples = [int(text.split(" joint samples")[0].split(": ")[-1]) for text in (once, twice)]
    assert samples[1] == 2 * samples[0]
    assert call(*line, "output.name=whole") == 0
    config = yaml.safe_load((tmp_path / "whole" / "config.yaml").read_text())
    assert config["algorithm"]["preferences"]["opponent"] == str(tmp_path / "first" / "final_model")
    train_rows = [row for row in rows_of(tmp_path / "whole") if row["kind"] == "train"]
    assert all(row["comparator_tokens"] > 0 for row in train_rows)
    parts = ["output.name=parts", "output.checkpoint_every=1", "algorithm.max_updates=1"]
    assert call(*line, *parts) == 0
    longer = ["--override", "algorithm.max_updates=2"]
    assert call("train", "--resume", str(tmp_path / "parts"), *longer) == 0
    assert rows_of(tmp_path / "parts") == rows_of(tmp_path / "whole")
    for a, b in zip(weights(tmp_path / "parts"), weights(tmp_path / "whole"), strict=True):
        assert torch.equal(a, b)


def test_a_named_opponent_plays_whatever_the_learner_says_of_opponents(
    quick: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As of a plug-in's learner that does not set the attribute.
    unset = property(lambda self: False, lambda self, value: None)
    monkeypatch.setattr(PreferenceLearner, "has_opponent", unset)
    settings = [*quick, *PROBE, *SHORT, "output.save_final_model=true"]
    first = [*settings, "output.name=first", "algorithm.max_updates=1"]
    assert call("train", "--config", "demo", "--override", *first) == 0
    monkeypatch.chdir(tmp_path)
    named = ["algorithm.preferences.opponent=first/final_model", "algorithm.max_updates=1"]
    more = [*settings, *PAIRS, *named, "output.name=whole"]
    assert call("train", "--config", "demo", "--override", *more) == 0
    (row,) = (row for row in rows_of(tmp_path / "whole") if row["kind"] == "train")
    assert row["comparator_tokens"] > 0


def test_a_comparator_that_is_none_is_refused(runs: Runs, tmp_path: Path) -> None:
    named = runs.config(*PROBE, *PAIRS, "algorithm.preferences.opponent=histroy")
    with pytest.raises(ConfigError, match="histroy is neither current, nor history, nor a team"):
        resolve(named)
    stored = ["algorithm.name=madpo", "algorithm.pairs_source=/tmp/pairs.jsonl"]
    with pytest.raises(
        ConfigError, match=r"opponent=history means nothing with preferences.source"
    ):
        load_config(None, [*stored, "algorithm.preferences.opponent=history"])
    team = tmp_path / "team"
    team.mkdir()
    (team / "team.json").write_text('{"format": 1, "agents": {"z": "p"}, "policies": {}}')
    other = runs.config(*PROBE, *PAIRS, f"algorithm.preferences.opponent={team}")
    with pytest.raises(ConfigError, match="plays z, and the environment has player_0, player_1"):
        resolve(other)
