"""Arguments of policies that read states, and prompts that are too long for a policy, in groups and teams."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.advantages import group_advantages
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.checks import ENOUGH, describe_prompts, long_first_prompts
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts, sample_groups
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.training.metrics import reward_metrics
from llm_decpomdp.policy import SKIPPED, Completion, PromptTooLong
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.conftest import EchoEnv, Recurrent, TinyPolicy
from tests.algorithms.runs import build, make_team


class Short(TinyPolicy):
    """Takes prompts of `limit` letters; the first prompt of `EchoEnv` has one, later ones up to six."""

    def __init__(self, limit: int, on_long_prompt: str, seed: int = 1) -> None:
        super().__init__(Recurrent(3, 8, seed), "ab", 3)
        self.limit, self.on_long_prompt = limit, on_long_prompt

    def overflow(self, prompt: str) -> tuple[int, int] | None:
        return (len(prompt), self.limit) if len(prompt) > self.limit else None

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        found = []
        for prompt in prompts:
            if self.overflow(prompt) is None:
                found += super().generate([prompt], num_samples)
            elif self.on_long_prompt == "skip":
                found.append([SKIPPED] * num_samples)
            else:
                raise PromptTooLong("too long", prompt)
        return found


class StateReader(TinyPolicy):
    """Answers with the names of the agents that it is asked for."""

    def generate_with_envs(
        self, envs: list[Any], agents: list[str], num_samples: int
    ) -> list[list[Completion]]:
        assert isinstance(envs, list) and isinstance(agents, list)
        return [[Completion(", ".join(agents))] * num_samples for _ in envs]


def test_a_policy_that_reads_states_gets_lists() -> None:
    reader = StateReader(Recurrent(3, 8, 1), "ab", 3)
    envs: list[Any] = [EchoEnv(), EchoEnv()]
    prompts = [{"x": "a", "y": "b"}, {"x": "c"}]
    samples = sample_groups({"x": reader, "y": reader}, envs, prompts, 1)
    assert [[*answers] for answers in samples] == [["x", "y"], ["x"]]
    assert samples[0]["x"][0].text == "x, y, x"


STARTS = [Start(seed=0), Start(task_id="b"), Start(task_id="aba")]


def test_first_prompts_are_checked_before_the_first_update(tmp_path: Path) -> None:
    team = {**make_team(), "x": Short(2, "raise")}
    message = r"too long: aba: x sees 3 tokens of at most 2\. Shorten them, .*on_long_prompt"
    with pytest.raises(ValueError, match=message):
        build(tmp_path, [[start] for start in STARTS], team=team)
    with pytest.raises(ValueError, match="aba: x sees 3"):
        build(tmp_path, [STARTS[:1]], team=team, eval_starts=STARTS)
    build(tmp_path, [[start] for start in STARTS], team={**team, "x": Short(3, "raise")})


def test_many_long_prompts_are_counted_and_some_named() -> None:
    starts = [Start(task_id="a" * number) for number in range(1, 16)]
    found = long_first_prompts(EchoEnv(1), {"x": Short(2, "skip")}, [*starts, *starts], "skip")
    assert len(found) == 13
    assert describe_prompts(found).endswith(
        "aaaaaaaaaaaa: x sees 12 tokens of at most 2; and 3 more"
    )
    assert long_first_prompts(EchoEnv(1), {"x": Short(2, "raise")}, starts, "skip") == []


def test_after_many_starts_that_fit_no_more_are_looked_at() -> None:
    begun: list[Any] = []

    class Counted(EchoEnv):
        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            begun.append(options)
            return super().reset(seed, options)

    starts = [Start(task_id="aaa"), *(Start(seed=n) for n in range(100)), Start(task_id="bbb")]
    found = long_first_prompts(Counted(1), {"x": Short(2, "skip")}, starts, "skip")
    assert [one.start.task_id for one in found] == ["aaa"]
    assert len(begun) == 1 + ENOUGH


def test_feedback_that_has_grown_too_long_is_named_with_task_and_agent() -> None:
    team = {"x": make_team()["x"], "y": Short(1, "raise")}
    starts, rng = [Start(task_id="b")], np.random.default_rng(0)
    for options in (RolloutOptions(), RolloutOptions(mode="tree")):
        with pytest.raises(ValueError, match=r"^b, y: too long$"):
            collect_rollouts(EchoEnv(3), team, starts, options, group_size=2, rng=rng)


def test_an_agent_that_skips_a_turn_says_nothing_and_its_team_mate_learns_as_ever() -> None:
    team = {"x": Short(1, "skip"), "y": make_team()["y"]}
    rollouts = collect_rollouts(
        EchoEnv(2), team, STARTS[:2], group_size=4, rng=np.random.default_rng(0)
    )
    second = [rollout.groups[1] for rollout in rollouts]
    assert all(group.completions["x"] == (SKIPPED,) * 4 for group in second)
    assert all(all(one.tokens for one in group.completions["y"]) for group in second)
    learned = group_advantages(rollouts, team, ALGORITHMS["magrpo"], LearnerOptions(0.1))
    for lesson in learned:
        assert set(lesson.advantages) == ({"x", "y"} if lesson.group.turn == 0 else {"y"})
        rewards = np.array(lesson.group.rewards)
        assert lesson.advantages["y"] == pytest.approx(rewards - rewards.mean())
    row = reward_metrics(rollouts)
    assert (row["long_prompts/x"], row["long_prompts/y"]) == (2, 0)


def test_a_run_goes_on_where_an_agent_skips_turns(tmp_path: Path) -> None:
    silent = Short(0, "skip")  # never reads anything
    before = [weight.detach().clone() for weight in silent.parameters()]
    team = {"x": silent, "y": make_team()["y"]}
    options: Any = {"learner": {"kl": {"coefficient": 0.0}, "num_iterations": 2}, "group_size": 4}
    trainer = build(tmp_path, team=team, **options)
    trainer.run_updates()
    assert all(torch.equal(a, b) for a, b in zip(before, silent.parameters(), strict=True))
    rows = list(read_json_lines(trainer.folder.metrics))
    assert all(
        row["long_prompts/x"] == row["turn_1/groups"] + row.get("turn_2/groups", 0) for row in rows
    )
    trained = [row for row in rows if row["kind"] == "train"]
    assert any(row["grad_norm/y"] for row in trained)
    assert not any(row["grad_norm/x"] for row in trained)
    episodes = list(read_json_lines(trainer.folder.episodes))
    assert {r for e in episodes for g in e["groups"] for r in g["finish_reasons"]["x"]} == {"skip"}


def test_a_group_that_nobody_reads_has_no_signal(tmp_path: Path) -> None:
    team = {"x": Short(0, "skip", 1), "y": Short(0, "skip", 2)}
    trainer = build(tmp_path, team=team, learner={"learning_rate": 0.1})
    summary = trainer.run_updates()
    assert summary["silent_updates"] == 4
    assert summary["groups_without_signal"] == summary["groups"] == 8
