"""docs/metrics.md against the rows of real runs, and warnings about made rows: each for its pattern alone."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Rollout, Start
from llm_decpomdp.algorithms.training import run_log
from llm_decpomdp.algorithms.training.callbacks import TrainerCallback
from llm_decpomdp.algorithms.training.in_flight import version_metrics
from llm_decpomdp.algorithms.training.metrics import (
    WARNING_UPDATES,
    evaluation_metrics,
    find_warnings,
    reward_metrics,
)
from llm_decpomdp.algorithms.training.run_log import WarningMonitor
from llm_decpomdp.policy import Completion
from llm_decpomdp.utils.storage import read_json_lines
from llm_decpomdp.utils.text import duration
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.critics.readers import reading_team
from tests.algorithms.preferences.teams import lexical, recurrent
from tests.algorithms.rewards.reward_models import write_reward_model
from tests.algorithms.runs import ROOT, build, make_team, recording_team
from tests.algorithms.training.test_in_flight import written

PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
PLACEHOLDERS = {
    "<agent>": "[xy]",
    "<policy>": r"[xy](\+[xy])*",
    "<k>": r"\d+",
    "<component>": r"\w+",
}


def documented(section: str) -> set[str]:
    """The keys of a section's table, with placeholders."""
    text = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (found,) = [part for part in text if part.startswith(section)]
    return set(re.findall(r"^\| `([^`]+)` \|", found, flags=re.MULTILINE))


def pattern(key: str) -> re.Pattern[str]:
    escaped = re.escape(key)
    for placeholder, meaning in PLACEHOLDERS.items():
        escaped = escaped.replace(re.escape(placeholder), meaning)
    return re.compile(escaped)


class TaggedEnv(EchoEnv):
    """Tells of answers without tags, as environments of centralized teams do, and gives agents own points."""

    def step(self, actions: dict[str, str]) -> Any:
        *values, infos = super().step(actions)
        return *values, {
            agent: {**info, "untagged": 1, "own/part": 0.5} for agent, info in infos.items()
        }


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Rows of a chain with policies of their own, and of a tree with a shared one."""
    found: list[dict[str, Any]] = []
    shared = make_team()["x"]
    for options in (
        {
            "env": TaggedEnv(2),
            "early_termination_threshold": 3.0,
            "max_resample_rounds": 1,
            "curriculum": "pass_rate",
            "learner": {"num_iterations": 2, "normalize_advantages": "role"},
        },
        {
            "mode": "tree",
            "joint_mode": "cross",
            "group_size": 2,
            "team": {"x": shared, "y": shared},
        },
        {"learner": {"critic": "own"}, "team": reading_team()},
        {
            "max_async_level": 1,
            "learner": {"importance_sampling": "truncate"},
            "team": recording_team(),
        },
        {"algorithm": "coma", "team": reading_team()},
        {"algorithm": "madpo", "team": {"x": recurrent(1), "y": recurrent(2)}},
        {
            "algorithm": "madpo",
            "team": {"x": lexical(1), "y": lexical(2)},
            "opponent": {"x": lexical(3), "y": lexical(4)},
            "learner": {"opponent": "there"},
        },
        {
            "team": reading_team(),
            "reward_model": {
                "path": str(write_reward_model(tmp_path_factory.mktemp("judge"))),
                "update_interval": 2,
            },
            "group_size": 8,
        },
    ):
        trainer = build(tmp_path_factory.mktemp("run"), **options)
        trainer.run_updates()
        found += read_json_lines(trainer.folder.metrics)
    return found


@pytest.mark.parametrize(
    ("kind", "section"), [("train", "Rows of updates"), ("eval", "Rows of eval")]
)
def test_every_key_of_a_row_is_documented_and_every_documented_key_occurs(
    metrics: list[dict[str, Any]], kind: str, section: str
) -> None:
    keys = {key for row in metrics if row["kind"] == kind for key in row}
    if kind == "train":  # of `in_flight`, whose samplers are models: `test_in_flight.py` runs them
        keys |= version_metrics([written((0, 1))], ["x"], 1).keys()
    known = documented("Every row") | documented(section)
    patterns = {key: pattern(key) for key in known}
    assert {k for k in keys if not any(p.fullmatch(k) for p in patterns.values())} == set()
    assert {key for key, p in patterns.items() if not any(p.fullmatch(k) for k in keys)} == set()


def test_the_files_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`(\w+\.py)`", PAGE))
    assert named and named <= {path.name for path in (ROOT / "algorithms").rglob("*.py")}


def test_every_documented_key_has_a_unit_and_a_file() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(lines) == len(set(lines)) > 25
    for line in lines:
        _, _, unit, text, _ = (part.strip() for part in line.split("|"))
        assert unit and re.search(r"`\w+\.py`$", text), line


def test_rows_agree_with_their_episodes(metrics: list[dict[str, Any]], tmp_path: Path) -> None:
    trainer = build(tmp_path)
    trainer.run_updates()
    row = next(r for r in read_json_lines(trainer.folder.metrics) if r["kind"] == "train")
    episodes = [e for e in read_json_lines(trainer.folder.episodes) if e["phase"] == "train"]
    episodes = [episode for episode in episodes if episode["update"] == row["update"]]
    means = [
        sum(sum(g["rewards"]) / len(g["rewards"]) for g in e["groups"]) / len(e["groups"])
        for e in episodes
    ]
    assert row["reward_mean"] == pytest.approx(sum(means) / len(means))
    assert row["groups"] == sum(len(episode["groups"]) for episode in episodes)
    spent = sum(row[f"{activity}_seconds"] for activity in ("sampling", "stepping", "learning"))
    assert 0 < spent <= row["tokens"] / row["tokens_per_second"]


class Dull(EchoEnv):
    """Rewards nothing."""

    def step(self, actions: dict[str, str]) -> Any:
        prompts, rewards, *rest = super().step(actions)
        return prompts, dict.fromkeys(rewards, 0.0), *rest


EIGHT = [[Start(seed=number)] for number in range(8)]


def row(silent: int = 1, cut: float = 0.0) -> dict[str, Any]:
    cuts = {"truncated/x": cut, "truncated/y": cut}
    return {"kind": "train", "groups": 1, "groups_without_signal": silent, **cuts}


def test_five_silent_updates_in_a_row_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    monitor = WarningMonitor()
    for silent in (1, 1, 1, 1, 0, 1, 1, 1, 1):
        monitor.observe(row(silent))
    assert not caplog.records
    for _ in range(2 * WARNING_UPDATES):
        monitor.observe(row())
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "5 updates in a row taught nothing" in record.message
    assert "raise temperature or group_size" in record.message
    assert "easier ones" in record.message and "max_new_tokens" not in record.message


def test_where_completions_are_cut_off_the_limit_is_named(caplog: pytest.LogCaptureFixture) -> None:
    monitor = WarningMonitor()
    for _ in range(WARNING_UPDATES):
        monitor.observe(row(cut=0.875))
    assert "88% of the completions are cut off" in caplog.text
    assert "raise max_new_tokens" in caplog.text


def test_a_run_that_cannot_learn_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer = build(tmp_path, EIGHT, env=Dull(1), eval_starts=[])
    with caplog.at_level(logging.INFO, "llm_decpomdp"):
        summary = trainer.run_updates()
    assert caplog.text.count("taught nothing") == 1
    assert "update 1, train: mean reward 0.000, 1 of 1 groups without signal" in caplog.text
    assert summary["silent_updates"] == summary["groups_without_signal"] == 8
    assert 0 <= summary["cut_off"] <= 1


class Clock(TrainerCallback):
    """A clock of which an update takes 10 s, and a page after it 1000 s."""

    seconds = 0.0

    def perf_counter(self) -> float:
        return self.seconds

    def on_optimizer_step(self, *_: object) -> None:
        self.seconds += 10

    def on_step_end(self, *_: object) -> None:
        self.seconds += 1000


def test_lines_say_how_long_updates_and_evaluations_will_take(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(run_log, "time", clock)

    class Slow(EchoEnv):
        def step(self, actions: dict[str, str]) -> Any:
            clock.seconds += 100
            return super().step(actions)

    trainer = build(tmp_path, EIGHT, eval_env=Slow(1), eval_starts=EIGHT[0], eval_every=3)
    trainer.callbacks.append(clock)
    with caplog.at_level(logging.INFO, "llm_decpomdp"):
        trainer.run_updates()
    lines = [line for line in caplog.messages if ", train: " in line]
    # Evaluations follow the updates 3, 6 and 8.
    expected = [70 + 300, 60 + 300, 50 + 300, 40 + 200, 30 + 200, 20 + 200, 10 + 100]
    ends = [f", about {duration(seconds)} left" for seconds in expected]
    assert all(line.endswith(end) for line, end in zip(lines[:-1], ends, strict=True))
    assert not lines[-1].endswith(" left")


def chain(*turns: Sequence[float], key: str = "reward/a", stopped_early: bool = False) -> Rollout:
    groups = [
        Group(
            turn=index,
            parent=Parent(index - 1, 0) if index else None,
            prompts={},
            completions={"x": (Completion("a"), Completion("b", finish_reason="length"))},
            joint=((0,), (1,)),
            rewards=tuple(rewards),
            infos=tuple({key: reward, "turn": 1.0} for reward in rewards),
            chosen=0,
            stopped_early=stopped_early and index == len(turns) - 1,
        )
        for index, rewards in enumerate(turns)
    ]
    return Rollout(Start(), tuple(groups))


def test_metrics_are_means_in_which_every_chain_counts_the_same() -> None:
    long = chain([0.0, 2.0], [3.0, 5.0], stopped_early=True)
    short = chain([1.0, 1.0])
    metrics = reward_metrics([long, short])
    assert metrics["reward_mean"] == metrics["reward/a"] == pytest.approx((2.5 + 1.0) / 2)
    assert metrics["turn_1/reward_mean"] == 1.0
    assert (metrics["turn_2/reward_mean"], metrics["turn_2/groups"]) == (4.0, 1)
    assert metrics["last/reward_mean"] == 2.5
    assert metrics["reward_std"] == pytest.approx(np.std([0, 2, 3, 5, 1, 1]))
    assert metrics["stopped_early"] == 0.5
    assert "turn" not in metrics
    assert metrics["truncated/x"] == 0.5


def test_a_first_episode_that_ended_early_hides_nothing_of_the_others() -> None:
    short, long = chain([4.0]), chain([1.0], [3.0])
    metrics = evaluation_metrics([short, long])
    assert metrics == pytest.approx(evaluation_metrics([long, short]))
    # Nothing is padded.
    assert (metrics["turn_2/reward_mean"], metrics["turn_2/groups"]) == (
        3.0,
        1,
    )
    assert metrics["last/reward_mean"] == 3.5


def test_evaluations_have_the_standard_error_of_independent_chains() -> None:
    chains = [chain([r]) for r in (1.0, 2.0, 6.0)]
    metrics = evaluation_metrics(chains)
    assert metrics["reward_standard_error"] == pytest.approx(np.sqrt(7.0) / np.sqrt(3))
    assert evaluation_metrics(chains[:1])["reward_standard_error"] is None


def test_infos_that_some_steps_lack_are_left_out() -> None:
    chains = [chain([1.0], key=key) for key in ("reward/a", "reward/b")]
    assert "reward/a" not in reward_metrics(chains)


UPDATES = 60


def updates(**ends: tuple[float, float]) -> list[dict[str, Any]]:
    """Rows whose numbers go from one value to another in a straight line."""
    usual = {"reward_mean": (1.0, 1.1), "entropy/main_0": (1.0, 0.8), "kl/main_0": (0.0, 0.01)}
    usual |= {"tokens": (100.0, 110.0), "truncated/main_0": (0.0, 0.0), "silent": (0.0, 0.0)}
    usual |= {name.replace("__", "/"): values for name, values in ends.items()}
    rows = []
    for number in range(UPDATES):
        share = number / (UPDATES - 1)
        row = {key: first + share * (last - first) for key, (first, last) in usual.items()}
        counts = {"groups": 2, "groups_without_signal": round(2 * row.pop("silent"))}
        rows.append({"update": number + 1, "kind": "train", "turn_1/groups": 2, **counts, **row})
    return rows


def evaluation(reward: float, **more: float) -> dict[str, Any]:
    return {"kind": "eval", "reward_mean": reward, "reward_standard_error": 0.05, **more}


def names(rows: list[dict[str, Any]], evaluations: list[dict[str, Any]] | None = None) -> list[str]:
    return [warning.name for warning in find_warnings(rows, evaluations or [])]


def test_a_healthy_training_has_no_warning() -> None:
    assert names(updates(), [evaluation(1.0), evaluation(1.1)]) == []


@pytest.mark.parametrize(
    ("ends", "name"),
    [
        ({"entropy__main_0": (1.0, 0.01)}, "entropy collapse of main_0"),
        ({"kl__main_0": (0.0, 0.6)}, "growing KL of main_0"),
        ({"silent": (1.0, 1.0)}, "no group with signal"),
        ({"tokens": (100.0, 300.0), "reward_mean": (1.0, 0.9)}, "growing length"),
        ({"tokens": (100.0, 300.0), "truncated__main_0": (0.0, 0.9)}, "growing length"),
        (
            {"reward_mean": (1.0, 0.5), "reward_model__mean": (0.0, 2.0)},
            "reward model and task apart",
        ),
    ],
)
def test_each_pattern_has_its_warning(ends: dict[str, tuple[float, float]], name: str) -> None:
    assert names(updates(**ends)) == [name]


def test_equal_answers_to_solved_tasks_are_no_collapse() -> None:
    assert names(updates(entropy__main_0=(1.0, 0.01), solved=(0.2, 1.0))) == []


def test_growth_that_earns_reward_is_no_fault() -> None:
    assert names(updates(tokens=(100.0, 300.0))) == []


def test_held_out_reward_that_does_not_follow_is_drift() -> None:
    rows = updates(reward_mean=(1.0, 3.0))
    assert names(rows, [evaluation(1.0), evaluation(1.1)]) == ["training and held-out apart"]
    assert names(rows, [evaluation(1.0), evaluation(2.5)]) == []
    assert names(rows, [evaluation(1.0)]) == []


def test_answers_for_the_visible_tests_alone_are_named() -> None:
    first, last = (
        evaluation(1.0, visible_tests=shown, hidden_tests=hidden)
        for shown, hidden in ((0.5, 0.5), (0.9, 0.4))
    )
    (warning,) = find_warnings([], [first, last])
    assert warning.name == "visible tests pass, hidden ones fail"
    assert "90% of the tests that prompts show pass, and 40% of the others" in warning.text
    assert find_warnings([], [last, first]) == []


def test_the_first_and_the_last_rows_are_enough() -> None:
    rows = updates(kl__main_0=(0.0, 0.6))
    assert find_warnings(rows, []) == find_warnings([*rows[:5], *rows[-5:]], [])
    rows, ends = updates(reward_mean=(1.0, 3.0)), [evaluation(1.0), evaluation(1.1)]
    between = evaluation(1.0, reward_standard_error=100.0)
    found = find_warnings(rows, [ends[0], between, ends[1]])
    assert found == find_warnings(rows, ends) != []
