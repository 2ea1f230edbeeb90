"""Histories in rollouts: what an agent has read and said before a prompt, in every plan."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm_decpomdp import Completion, make, single_agent_view
from llm_decpomdp.algorithms import Group, Rollout, RolloutOptions, Start, collect_rollouts
from llm_decpomdp.algorithms.learning.passes import group_by_prompt, loss_items
from llm_decpomdp.algorithms.rollout_workers.process_workers import ProcessRolloutWorkers
from llm_decpomdp.algorithms.rollouts.play import play_episodes
from llm_decpomdp.algorithms.rollouts.serialization import from_text, to_text
from llm_decpomdp.algorithms.training.expert_iteration import ExpertIteration
from llm_decpomdp.algorithms.training.metrics import episode_row
from llm_decpomdp.algorithms.training.warm_start import WarmStartOptions
from llm_decpomdp.benchmarks.evaluation.play import act_simultaneously, read_rollout
from llm_decpomdp.policy import SKIPPED, Dialogue, turns_before
from llm_decpomdp.wrappers.turn_order import TurnOrderEnv
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.rollout_workers import worker_states
from tests.algorithms.runs import Run, build, require_resumed, stop

PLANS = {
    "chain": RolloutOptions(),
    "tree": RolloutOptions(mode="tree"),
    "cross": RolloutOptions(mode="tree", joint_mode="cross"),
    "episodes": RolloutOptions(mode="episodes"),
}


class Script:
    """Answers with numbered letters, and notes what it was asked."""

    def __init__(self, letter: str, history: str = "chat", skips: str = "") -> None:
        self.letter, self.history, self.skips = letter, history, skips
        self.asked: list[str] = []
        self.count = 0

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        self.asked += prompts
        return [self.answers(prompt, num_samples) for prompt in prompts]

    def answers(self, prompt: str, number: int) -> list[Completion]:
        if prompt == self.skips:
            return [SKIPPED] * number
        self.count += number
        first = self.count - number + 1
        return [
            Completion(self.letter * k, (k, 0), (-1.0, -2.0)) for k in range(first, self.count + 1)
        ]

    def act(self, prompt: str) -> str:
        return self.generate([prompt])[0][0].text


def scripts(**options: Any) -> dict[str, Script]:
    return {"x": Script("a", **options), "y": Script("b", "none")}


def grow(plan: str, team: Any, num_turns: int = 3, env: Any = None) -> Rollout:
    (rollout,) = collect_rollouts(
        env or EchoEnv(num_turns),
        team,
        [Start(seed=0)],
        PLANS[plan],
        group_size=2,
        rng=np.random.default_rng(0),
    )
    return rollout


def path_to(rollout: Rollout, group: Group, agent: str) -> list[tuple[str, str]]:
    """The prompts and played answers of an agent before a group, found from its parents."""
    found = []
    while group.parent is not None:
        index, sample = group.parent
        group = rollout.groups[index]
        if agent in group.prompts:
            place = group.joint[sample][list(group.completions).index(agent)]
            found.append((str(group.prompts[agent]), group.completions[agent][place].text))
    return found[::-1]


@pytest.mark.parametrize("plan", PLANS)
def test_the_history_of_a_prompt_is_the_way_to_it(plan: str) -> None:
    team = scripts()
    rollout = grow(plan, team)
    assert rollout.dialogues == ("x",)
    for group in rollout.groups:
        turns = [(turn.prompt, turn.answer.text) for turn in turns_before(group.prompts["x"])]
        assert turns == path_to(rollout, group, "x") and len(turns) == group.turn
        assert type(group.prompts["y"]) is str
    assert any(len(turns_before(prompt)) == 2 for prompt in team["x"].asked)
    answer = turns_before(rollout.groups[-1].prompts["x"])[0].answer
    assert answer.tokens == (len(answer.text), 0) and not answer.log_probs
    assert not any(isinstance(prompt, Dialogue) for prompt in team["y"].asked)


def test_without_histories_nothing_changes() -> None:
    rollout = grow("tree", scripts(history="none"))
    assert rollout.dialogues == () and "dialogues" not in episode_row(rollout, 0, "train")
    texts = [prompt for group in rollout.groups for prompt in group.prompts.values()]
    assert all(type(text) is str for text in texts)


@pytest.mark.parametrize("plan", PLANS)
def test_a_rollout_that_is_read_again_has_its_histories(plan: str) -> None:
    rollout = grow(plan, scripts())
    text = to_text(rollout)
    assert from_text(text) == rollout == pickle.loads(pickle.dumps(rollout))
    assert from_text(text.replace('"opponent"', '"comparator"')) == rollout  # an earlier version
    assert text.count('"aa"') <= sum(len(group.prompts) for group in rollout.groups)
    row = episode_row(rollout, 0, "train", with_tokens=True)
    again = read_rollout({**row, "groups": [_plain(group) for group in row["groups"]]})
    for one, other in zip(again.groups, rollout.groups, strict=True):
        assert one.prompts == other.prompts
    assert turns_before(again.groups[-1].prompts["x"])


def _plain(group: dict[str, Any]) -> dict[str, Any]:
    return {**group, "prompts": {agent: str(text) for agent, text in group["prompts"].items()}}


def test_a_prompt_that_was_skipped_is_no_turn() -> None:
    first, second = scripts(skips="a"), scripts()
    skipping, usual = grow("chain", first), grow("chain", second)
    assert [len(turns_before(prompt)) for prompt in first["x"].asked] == [0, 0, 1]
    assert [len(turns_before(prompt)) for prompt in second["x"].asked] == [0, 1, 2]
    assert skipping.groups[0].completions["x"] == (SKIPPED, SKIPPED)
    assert turns_before(usual.groups[1].prompts["x"])[0].prompt == "a"


def test_agents_that_wait_or_join_later_have_their_own_histories() -> None:
    env = make("probe-late-entry-v0")
    team = {agent: Script("ab"[number]) for number, agent in enumerate(env.possible_agents)}
    (rollout,) = play_episodes(env, team, [Start(seed=0)])
    first, second = rollout.groups
    assert list(first.prompts) == ["player_0"]
    turns = {agent: len(turns_before(prompt)) for agent, prompt in second.prompts.items()}
    assert turns == {"player_0": 1, "player_1": 0}
    early = make("probe-early-exit-v0")
    team = {agent: Script("ab"[number]) for number, agent in enumerate(early.possible_agents)}
    (rollout,) = play_episodes(early, team, [Start(seed=0)])
    assert [len(turns_before(group.prompts["player_1"])) for group in rollout.groups] == [0, 1, 2]
    ordered = TurnOrderEnv(make("coophumaneval-v0", source="bundled"), ["aux_0", "main_0"])
    team = {"aux_0": Script("a"), "main_0": Script("b")}
    (rollout,) = play_episodes(ordered, team, [Start(seed=0)])
    for group in rollout.groups:
        for agent, prompt in group.prompts.items():
            turns_of = [(turn.prompt, turn.answer.text) for turn in turns_before(prompt)]
            assert turns_of == path_to(rollout, group, agent) and len(turns_of) == group.turn // 2


def test_evaluations_play_with_histories() -> None:
    team = scripts()
    (rollout,) = play_episodes(EchoEnv(3), team, [Start(seed=0)], act=act_simultaneously)
    assert [len(turns_before(group.prompts["x"])) for group in rollout.groups] == [0, 1, 2]


def test_a_partner_of_a_single_agent_reads_its_history_in_forks_too() -> None:
    partner = Script("b")
    view = single_agent_view(EchoEnv(3), "x", {"y": partner})
    view.reset(seed=0)
    view.step("a")
    assert turns_before(partner.asked[0]) == ()
    twin = view.fork()
    view.step("b")
    twin.step("c")
    one, other = partner.asked[1:]
    assert one == other and [turn.answer.text for turn in turns_before(one)] == ["b"]
    view.reset(seed=0)
    view.step("a")
    assert turns_before(partner.asked[-1]) == ()


# Learning


def test_equal_prompts_after_different_turns_are_learned_apart() -> None:
    from llm_decpomdp.algorithms import ALGORITHMS
    from llm_decpomdp.algorithms.learning.advantages import group_advantages
    from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions

    env, team = make("probe-memory-v0"), {"player_0": Script("a")}
    (rollout,) = collect_rollouts(
        env, team, [Start(seed=0)], PLANS["episodes"], group_size=3, rng=np.random.default_rng(0)
    )
    groups = group_advantages(
        [rollout], list(team), ALGORITHMS["magrpo"], LearnerOptions(), progress=0.0
    )
    items = loss_items([*groups], include_zeros=True)
    texts = {str(item.prompt) for item in items}
    assert len(texts) == 2 and len(group_by_prompt(items)) == len(items) == 7


# Runs

OPTIONS: dict[str, Any] = {
    "group_size": 3,
    "record_tokens": True,
    "eval_starts": [Start(seed=0)],
    "mode": "episodes",
}


def chat_run(folder: Path, **options: Any) -> Run:
    given = {"env": EchoEnv(3), "team": worker_states.chat_team(), **OPTIONS, **options}
    return build(folder, worker_states.BATCHES[:3], **given)


def test_a_run_with_histories_resumes_with_what_waits(tmp_path: Path) -> None:
    lagged = {
        "max_async_level": 1,
        "learner": {"importance_sampling": "truncate"},
        "checkpoint_every": 1,
    }
    straight = chat_run(tmp_path / "straight", **lagged)
    straight.run_updates()
    stopped = chat_run(tmp_path / "again", **lagged)
    stop(stopped, stopped.learner, "accumulate", 1)
    require_resumed(straight, chat_run(tmp_path / "again", **lagged), 1)


@pytest.mark.slow
def test_workers_play_histories_as_one_process_does(tmp_path: Path) -> None:
    alone = chat_run(tmp_path / "alone", rollout_batch_size=2)
    alone.run_updates()
    workers = ProcessRolloutWorkers(worker_states.chat, 2)
    run = chat_run(tmp_path / "workers", rollout_batch_size=2, rollout_worker=workers)
    run.run_updates()
    assert run.folder.episodes.read_bytes() == alone.folder.episodes.read_bytes()
    assert b'"dialogues": ["x", "y"]' in run.folder.episodes.read_bytes()


def expert_run(folder: Path) -> Run:
    team = worker_states.chat_team()
    options = WarmStartOptions(source="passes", learning_rate=0.01, samples=8, min_reward=1.0)
    problems = [Start(task_id="a"), Start(task_id="b")]
    expert = ExpertIteration(EchoEnv(3), team, problems, options, seed=3)
    return chat_run(folder, team=team, warm_start=expert, checkpoint_every=1)


def test_expert_iteration_learns_dialogues_and_resumes(tmp_path: Path) -> None:
    straight = expert_run(tmp_path / "straight")
    assert isinstance(straight.warm_start, ExpertIteration)
    straight.run_updates()
    lessons = [
        example for lesson in straight.warm_start._passes.demonstrations for example in lesson
    ]
    assert {len(turns_before(example.prompt)) for example in lessons} == {0, 1, 2}
    stopped = expert_run(tmp_path / "again")
    stop(stopped, stopped.warm_start, "accumulate", 1)
    require_resumed(straight, expert_run(tmp_path / "again"), 0)
