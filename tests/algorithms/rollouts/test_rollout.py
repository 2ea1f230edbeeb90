from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms import Rollout, RolloutOptions, Start, collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Timer, step_branches
from llm_decpomdp.branching import branch
from llm_decpomdp.policy import Completion, distinct_policies
from tests.algorithms.conftest import Script


def play(
    env: Any,
    team: Any,
    starts: Sequence[Start] = (Start(),),
    options: RolloutOptions | None = None,
    **more: Any,
) -> list[Rollout]:
    arguments: dict[str, Any] = {"group_size": 4, "rng": np.random.default_rng(0), **more}
    return collect_rollouts(env, team, starts, options, **arguments)


TEAM = {"x": ("b", "a", "aa", "aa"), "y": ("ab", "ba", "bb", "bbb")}


def scripts() -> dict[str, Script]:
    return {agent: Script(*texts) for agent, texts in TEAM.items()}


def test_the_gth_completions_of_all_agents_are_one_joint_sample(make_env: Any) -> None:
    (chain,) = play(make_env(1), scripts())
    assert chain.groups[0].rewards == (1.0, 2.0, 2.0, 2.0)
    assert chain.groups[0].infos[1] == {"reward/letters": 2.0, "solved": 0.0}


def test_best_hands_on_the_first_best_joint_sample_of_all_agents(make_env: Any) -> None:
    team = scripts()
    (chain,) = play(make_env(2), team, options=RolloutOptions(branch_selection="best"))
    assert chain.groups[0].chosen == 1
    assert team["x"].batches == team["y"].batches == [["a"], ["aba"]]


def test_random_hands_on_one_index_for_all_agents_and_every_index_in_time(make_env: Any) -> None:
    team = scripts()
    chains = play(
        make_env(2), team, [Start(seed=0)] * 40, RolloutOptions(branch_selection="random")
    )
    joint = [x + y for x, y in zip(TEAM["x"], TEAM["y"], strict=True)]
    for chain in chains:
        assert chain.groups[1].prompts["x"] == joint[chain.groups[0].chosen]
    assert {chain.groups[0].chosen for chain in chains} == {0, 1, 2, 3}


def test_a_branch_that_ended_is_not_handed_on(make_env: Any) -> None:
    team = {"x": Script("", "b"), "y": Script("", "")}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        (chain,) = play(make_env(2), team, group_size=2, rng=rng)
        assert chain.groups[0].chosen == 1 and len(chain.groups) == 2


def test_a_chain_ends_when_all_its_branches_ended(make_env: Any) -> None:
    (chain,) = play(make_env(3), {"x": Script("", ""), "y": Script("", "")}, group_size=2)
    assert len(chain.groups) == 1 and not chain.stopped_early


@pytest.mark.parametrize(("threshold", "turns"), [(1.75, 1), (1.76, 2), (None, 2)])
def test_a_chain_stops_where_the_mean_reward_reaches_the_threshold(
    make_env: Any, threshold: float | None, turns: int
) -> None:
    (chain,) = play(
        make_env(2), scripts(), options=RolloutOptions(early_termination_threshold=threshold)
    )
    assert len(chain.groups) == turns
    assert chain.stopped_early == (turns == 1)


def test_the_last_turn_is_never_an_early_stop(make_env: Any) -> None:
    (chain,) = play(make_env(1), scripts(), options=RolloutOptions(early_termination_threshold=0.0))
    assert not chain.stopped_early


def test_one_policy_object_gets_one_batch_for_all_agents_and_chains(
    make_env: Any, make_policy: Callable[..., Any]
) -> None:
    policy = make_policy()
    starts, best = [Start(seed=0), Start(seed=1)], RolloutOptions(branch_selection="best")
    play(make_env(2), {"x": policy, "y": policy}, starts, best)
    assert policy.batches[0] == ["a", "a", "b", "b"]
    assert [len(batch) for batch in policy.batches] == [4, 4]
    assert list(distinct_policies({"x": policy, "y": policy})) == ["x+y"]


def test_starts_choose_the_seed_and_the_task(make_env: Any) -> None:
    chains = play(make_env(1), scripts(), [Start(seed=1), Start(seed=1, task_id="aa")])
    assert [chain.groups[0].prompts["x"] for chain in chains] == ["b", "aa"]


def test_equal_generators_give_equal_chains(make_env: Any, make_policy: Callable[..., Any]) -> None:
    first, second = (
        play(make_env(3), {"x": make_policy(), "y": make_policy(seed=1)}, [Start(seed=3)] * 3)
        for _ in range(2)
    )
    assert first == second


def test_forks_step_in_their_own_copies_and_errors_reach_the_caller(make_env: Any) -> None:
    class Forking(make_env):  # type: ignore[misc]
        forks = 0

        def fork(self) -> Forking:
            Forking.forks += 1
            twin = Forking(self.num_turns)
            twin.agents, twin.turn = list(self.agents), self.turn
            return twin

        def snapshot(self) -> dict[str, Any]:
            return {"episode": {"turn": self.turn}}

    (chain,) = play(Forking(2), scripts())
    assert Forking.forks == 1 + 4 + 4
    assert chain.final == {"turn": 2}

    class Failing(Forking):
        def fork(self) -> Failing:
            return self

        def step(self, actions: dict[str, str]) -> Any:
            raise OSError("sandbox lost")

    with pytest.raises(OSError, match="sandbox lost"):
        play(Failing(2), scripts())


@pytest.mark.parametrize("kind", [TypeError, ValueError, RuntimeError])
def test_errors_of_environments_are_told_at_once(make_env: Any, kind: type[Exception]) -> None:
    tried: list[str] = []

    class Failing(make_env):  # type: ignore[misc]
        def step(self, actions: dict[str, str]) -> Any:
            tried.append(actions["x"])
            raise kind("in the reward")

    with pytest.raises(kind, match="in the reward"):
        play(Failing(1), {"x": Script("b"), "y": Script("a")}, group_size=1)
    assert tried == ["b"]


def test_an_environment_without_fork_is_copied_deeply(make_env: Any) -> None:
    env = make_env(2)
    env.reset()
    twin = branch(env)
    twin.step({"x": "a", "y": "a"})
    assert (env.turn, twin.turn) == (0, 1)  # type: ignore[attr-defined]
    (chain,) = play(env, scripts())
    assert chain.final is None


def test_the_stopwatch_counts_sampling_and_stepping(make_env: Any) -> None:
    timer = Timer()
    play(make_env(1), scripts(), timer=timer)
    assert set(timer.seconds) == {"sampling", "stepping"}


def test_misuse_is_an_error_with_the_remedy(make_env: Any) -> None:
    with pytest.raises(KeyError, match="no policy for agent 'y'"):
        play(make_env(1), {"x": Script("a")})
    with pytest.raises(
        ValueError, match=r"group_size must be a whole number of at least 1, got 1\.5"
    ):
        play(make_env(1), scripts(), group_size=1.5)
    with pytest.raises(KeyError, match="unknown agent 'z'"):
        play(make_env(1), {**scripts(), "z": Script("a")})
    for policy in ("gpt2", lambda prompt: "a", torch.nn.Linear(1, 1)):
        wanted = (
            f"of 'y' needs the methods generate and act .* a {type(policy).__name__} lacks generate"
        )
        with pytest.raises(TypeError, match=wanted):
            play(make_env(1), {**scripts(), "y": policy})
    with pytest.raises(ValueError, match="did you mean 'best'"):
        RolloutOptions(branch_selection="bst")
    with pytest.raises(
        ValueError, match=r"'y' returned \[1\] completions of 1 prompts, where 4 of"
    ):
        play(make_env(1), {**scripts(), "y": Script("a")})


def test_whole_numbers_of_numpy_and_policies_that_only_generate_are_no_misuse(
    make_env: Any,
) -> None:
    class Generates:
        def __init__(self) -> None:
            self.generate = scripts()["y"].generate

    rollouts = play(make_env(1), {**scripts(), "y": Generates()}, group_size=np.int64(2))
    assert len(rollouts[0].groups[0].completions["y"]) == 2


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ([["a", "b"]], "'y' returned 'a' as a completion: .*Completion, whose text is a str"),
        (["ab"], "'y' returned 'ab' as a completion"),
        ([[Completion("a"), Completion(None)]], r"returned Completion\(text=None"),  # type: ignore[arg-type]
        ([Completion("a")], r"returned \[1\] completions of 1 prompts, where 4 of each"),
        (None, r"returned \[\] completions"),
    ],
)
def test_a_policy_that_returns_no_completions_is_named(
    make_env: Any, value: Any, match: str
) -> None:
    class Wrong(Script):
        def generate(self, prompts: Any, num_samples: int = 1) -> Any:
            return value

    with pytest.raises((TypeError, ValueError), match=match):
        play(make_env(1), {**scripts(), "y": Wrong("a")})


@pytest.mark.parametrize(
    ("fault", "match"),
    [("rewards", "same finite reward"), ("agents", "are done"), ("prompts", "must be a str")],
)
def test_environments_of_no_text_team_are_refused(make_env: Any, fault: str, match: str) -> None:
    class Faulty(make_env):  # type: ignore[misc]
        def step(self, actions: dict[str, str]) -> Any:
            prompts, rewards, *rest = super().step(actions)
            if fault == "rewards":
                rewards["x"] += 1.0
            elif fault == "agents":
                self.agents = ["x"]
            else:
                prompts["x"] = 3
            return prompts, rewards, *rest

    with pytest.raises((ValueError, TypeError), match=match):
        play(Faulty(2), scripts())


# Rewards of environments that are no numbers


class Paying:
    """Pays every agent the same, once."""

    def __init__(self, reward: Any) -> None:
        self.reward = reward
        self.agents = ["x", "y"]

    def __deepcopy__(self, memo: Any) -> Paying:
        return Paying(self.reward)

    def step(self, actions: dict[str, str]) -> tuple[Any, ...]:
        agents, self.agents = self.agents, []
        kinds = ("", self.reward, True, False, {})
        return tuple(dict.fromkeys(agents, value) for value in kinds)


def reward_of(value: Any) -> float:
    samples: Any = [{"x": (Completion("a"),), "y": (Completion("b"),)}]
    env: Any = Paying(value)
    ((outcome,),) = step_branches([env], samples, [((0, 0),)])
    assert type(outcome.reward) is float
    return outcome.reward


NOT_FINITE = [math.nan, math.inf, np.float32("inf")]


@pytest.mark.parametrize("value", [None, "1", [1.0], {"x": 1.0}, np.zeros(2), *NOT_FINITE])
def test_a_reward_that_is_no_finite_number_is_named(value: Any) -> None:
    is_number = any(value is number for number in NOT_FINITE)
    kind, found = (ValueError, "(nan|inf)") if is_number else (TypeError, r".*step\(\)")
    with pytest.raises(kind, match=f"the reward of 'x' must be a finite number, got {found}"):
        reward_of(value)


@pytest.mark.parametrize(
    ("part", "value", "match"),
    [
        (
            0,
            None,
            "observations of a step must be a mapping with 'x', 'y' among its keys, got None",
        ),
        (
            1,
            {"x": 1.0},
            "rewards of a step must be a mapping with 'x', 'y' among its keys, got {'x'",
        ),
        (4, None, "infos of a step must be a mapping with 'x' among its keys, got None"),
        (4, {}, "infos of a step must be a mapping with 'x' among its keys, got {}"),
        (4, {"x": None}, "infos of 'x' must be a dictionary, which may be empty, got None"),
        (4, {"x": {"own/a": "1"}}, "info 'own/a' of 'x' must be a finite number, got '1'"),
        (4, {"x": {"own/a": math.nan}}, "info 'own/a' of 'x' must be a finite number, got nan"),
    ],
)
def test_a_step_that_returns_no_values_by_agent_is_named(part: int, value: Any, match: str) -> None:
    class Faulty(Paying):
        def __deepcopy__(self, memo: Any) -> Faulty:
            return Faulty(self.reward)

        def step(self, actions: dict[str, str]) -> tuple[Any, ...]:
            agents = list(self.agents)
            parts = [*super().step(actions)]
            parts[part] = value
            self.agents = [] if part else agents
            parts[2] = dict.fromkeys(agents, bool(part))
            return tuple(parts)

    samples: Any = [{"x": (Completion("a"),), "y": (Completion("b"),)}]
    env: Any = Faulty(1.0)
    with pytest.raises((TypeError, ValueError), match=match):
        step_branches([env], samples, [((0, 0),)])


@pytest.mark.parametrize(
    "value",
    [1, True, np.float32(1.0), np.int64(1), np.bool_(True), np.array(1.0), torch.tensor(1.0)],
)
def test_numbers_of_all_kinds_are_rewards(value: Any) -> None:
    assert reward_of(value) == 1.0
