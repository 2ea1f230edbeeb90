"""Expected gradients by enumeration: weights of turns where a part of the episodes ends, and biased options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.advantages import (
    BASELINES,
    leave_one_out,
    maximum,
    mean,
    none,
    partner_returns,
    subtract_baseline,
    visit_weights,
)
from llm_decpomdp.algorithms.learning.episodes import pool_advantages
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import Pairing, align, collect_rollouts
from llm_decpomdp.algorithms.rollouts.joint import common, cross
from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.benchmarks.analysis.credit import Coalition, orders, shapley
from llm_decpomdp.policy import Completion
from tests.algorithms.enumeration import (
    Game,
    History,
    Table,
    cosine,
    expected_gradient,
    gradient,
    make_tables,
    true_gradient,
)

STARTS = [Start(seed=0)]
SHARE = {"mean": lambda size: (size - 1) / size, "leave_one_out": lambda size: 1.0}
"""Weight of all turns by baseline: that of the first turn, which is the documented one."""


def reward(history: History, joint: tuple[str, ...]) -> float:
    first = 1.0 if joint[0] else 0.3
    return first + (2.0 * bool(joint[0]) - 0.7 * (joint == history[-1]) + 0.5 if history else 0.0)


def ends(history: History, joint: tuple[str, ...]) -> bool:
    return joint[0] == "a"


def player(
    plan: str, game: Game, team: Any, oracle: Any, size: int, mode: str = "aligned"
) -> Callable[[], list[Rollout]]:
    options = RolloutOptions(mode=plan, joint_mode=mode)
    return lambda: collect_rollouts(game, team, STARTS, options, group_size=size, rng=oracle)


def gradients(
    algorithm: str,
    plan: str,
    size: int = 2,
    *,
    agents: Sequence[str] = ("x",),
    over: Any = ends,
    mode: str = "aligned",
    credit: Any = None,
    num_turns: int = 2,
    answers: Sequence[str] = ("", "a"),
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor, dict[str, Table]]:
    """The expected gradient of a learner, the true one, and the team."""
    game = Game(reward, over, num_turns, agents)
    team, oracle = make_tables(game, answers)
    settings = LearnerOptions(**{"learning_rate": 0.0, **options})
    learner = Learner(team, ALGORITHMS[algorithm], settings)
    found = expected_gradient(learner, oracle, player(plan, game, team, oracle, size, mode))
    if credit is None and plan == "chain":
        credit = own_reward
    true = true_gradient(game, team) if credit is None else true_gradient(game, team, credit)
    return found, true, team


def own_reward(turn: int, rewards: list[float]) -> float:
    return rewards[turn]


@pytest.mark.parametrize(
    ("plan", "size"),
    [
        *product(("chain", "episodes"), (2, 3)),
        ("tree", 2),
        pytest.param("tree", 3, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("name", "baseline"), [("magrpo", "mean"), ("marloo", "leave_one_out")])
def test_all_turns_weigh_the_same_where_a_part_of_the_samples_ends(
    plan: str, name: str, baseline: str, size: int
) -> None:
    found, true, _ = gradients(name, plan, size)
    torch.testing.assert_close(found, SHARE[baseline](size) * true)


@pytest.mark.parametrize(
    "mode",
    ["aligned", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("cross", "common"))],
)
def test_a_team_s_turns_weigh_the_same_however_its_completions_are_paired(mode: str) -> None:
    found, true, _ = gradients("marloo", "chain", agents=("x", "y"), mode=mode)
    torch.testing.assert_close(found, true)


def test_a_team_s_turns_weigh_the_same_in_whole_episodes() -> None:
    found, true, _ = gradients("marloo", "episodes", agents=("x", "y"))
    torch.testing.assert_close(found, true)


def test_the_third_turn_weighs_the_same() -> None:
    for plan in ("chain", "episodes"):
        found, true, _ = gradients("marloo", plan, num_turns=3)
        torch.testing.assert_close(found, true)


def test_a_second_comparison_weighs_all_turns_the_same() -> None:
    for size in (2, 3):
        found, true, _ = gradients("marloo", "episodes", size, step_advantage_weight=0.5)
        torch.testing.assert_close(found, 1.5 * true)
    found, true, _ = gradients("magrpo", "episodes", 3, step_advantage_weight=0.5)
    torch.testing.assert_close(found, 1.5 * 2 / 3 * true)


BIASES: dict[str, tuple[dict[str, float], float, float]] = {
    "none": ({}, 1.0, 1.0),
    "discount 0.9": ({"discount": 0.9}, 0.999, 0.999),
    "discount 0.5": ({"discount": 0.5}, 0.943, 0.961),
    "normalize_advantages": ({"normalize_advantages": True}, 0.641, 0.954),
    "normalize_advantages role, first update": ({"normalize_advantages": "role"}, 0.689, 0.957),
    "reward_parts": ({"reward_parts": "normalize_then_sum"}, 0.341, 0.822),
    "negative_advantage_weight 0.5": ({"negative_advantage_weight": 0.5}, 0.956, 0.995),
    "negative_advantage_weight 0": ({"negative_advantage_weight": 0.0}, 0.552, 0.947),
}
"""Options, and the least and the median cosine of expected and exact gradient over 20 games, as documented."""


def random_cosine(seed: int, discount: float = 1.0, **options: Any) -> float:
    """The cosine for `marloo` with two episodes, in a game of two turns and three answers with normal rewards."""
    random, answers = np.random.default_rng(seed), ("", "a", "b")
    rewards = {one: random.normal() for one in answers}
    later = {pair: random.normal() for pair in product(answers, repeat=2)}
    parts: dict[Any, float] = {key: random.normal() for key in (*rewards, *later)}

    def normal(history: History, joint: tuple[str, ...]) -> float:
        return later[history[-1][0], joint[0]] if history else rewards[joint[0]]

    def components(agent: str, history: History, joint: tuple[str, ...]) -> dict[str, float]:
        one = parts[(history[-1][0], joint[0]) if history else joint[0]]
        return {"reward/one": one, "reward/other": normal(history, joint) - one}

    def discounted(turn: int, earned: list[float]) -> float:
        return sum(discount**k * earned[k] for k in range(turn, len(earned)))

    game = Game(normal, infos=components)
    team, oracle = make_tables(game, answers, seed)
    settings = LearnerOptions(learning_rate=0.0, discount=discount, **options)
    learner = Learner(team, ALGORITHMS["marloo"], settings)
    found = expected_gradient(learner, oracle, player("episodes", game, team, oracle, 2))
    return cosine(found, true_gradient(game, team, discounted))


@pytest.mark.parametrize("name", BIASES)
def test_an_option_is_not_more_biased_than_documented(name: str) -> None:
    options, least, _ = BIASES[name]
    assert random_cosine(0, **options) > least - 0.0006


@pytest.mark.slow
@pytest.mark.parametrize("name", BIASES)
def test_an_option_is_as_biased_as_documented(name: str) -> None:
    options, least, median = BIASES[name]
    found = [random_cosine(seed, **options) for seed in range(20)]
    assert (min(found), np.median(found)) == pytest.approx((least, median), abs=0.0006)


def token_weights(loss: str, lengths: Sequence[int] = (1, 5), **options: Any) -> list[float]:
    """The weight of the completion of each of two episodes on the second turn, by their numbers of letters."""
    game = Game(lambda history, _: float(len(history)), num_turns=2)
    answers = ["a" * length for length in dict.fromkeys((*lengths, 9))]
    team, _ = make_tables(game, answers)
    (table,) = team.values()
    first = tuple(table.completion(answers.index("a" * length)) for length in lengths)
    root = Group(0, None, {"x": "start"}, {"x": first}, ((0,), (1,)), (0.0, 0.0), ({}, {}))
    prompts = [game.prompt((("a" * 9,),)), game.prompt((("a" * lengths[0],),))]
    later = [
        Group(1, Parent(0, k), {"x": prompt}, {"x": (completion,)}, ((0,),), (1.0,), ({},))
        for k, (prompt, completion) in enumerate(zip(prompts, first, strict=True))
    ]
    settings = LearnerOptions(learning_rate=0.0, discount=0.0, loss=loss, **options)
    learner = Learner(team, ALGORITHMS["mareinforce"], settings)
    learner.accumulate([Rollout(STARTS[0], (root, *later), pooled=True)])
    (grads,) = gradient(team)  # of a logit whose answer was not given: its chance times the weight
    rows, last = [table.rows[prompt] for prompt in prompts], len(answers) - 1
    return [
        float(grads[row, last]) / table.chances(p)[last]
        for row, p in zip(rows, prompts, strict=True)
    ]


def test_a_token_mean_of_whole_episodes_divides_by_the_tokens_of_the_turn() -> None:
    assert token_weights("sequence_sum") == pytest.approx([1 / 2, 1 / 2])
    assert token_weights("token_mean") == pytest.approx([1 / 8, 1 / 8])
    assert token_weights("token_mean", (3, 3)) == pytest.approx([1 / 8, 1 / 8])
    assert token_weights("fixed_length", fixed_length=10) == pytest.approx([1 / 20, 1 / 20])


def test_what_all_episodes_come_to_is_as_before_to_the_last_bit() -> None:
    values = np.random.default_rng(0).normal(size=5)
    for baseline in BASELINES.values():
        whole = pool_advantages(values, baseline, 5)
        assert whole.tolist() == subtract_baseline(values, baseline).tolist()
    chain = collect_rollouts(
        Game(reward),
        make_tables(Game(reward))[0],
        STARTS,
        group_size=3,
        rng=np.random.default_rng(0),
    )
    assert visit_weights(chain[0]) == [1.0, 1.0]


def test_pools_of_a_part_of_the_episodes_by_hand() -> None:
    values = np.array([1.0, 4.0])
    assert pool_advantages(values, leave_one_out, 4).tolist() == [-3.0, 3.0]
    assert pool_advantages(values, mean, 4).tolist() == [-3.0 * 3 / 4, 3.0 * 3 / 4]
    assert pool_advantages(values, maximum, 4).tolist() == [-3.0, 0.0]
    assert pool_advantages(values, none, 4).tolist() == [1.0, 4.0]
    alone = values[1:]
    found = [pool_advantages(alone, baseline, 4).item() for baseline in BASELINES.values()]
    assert dict(zip(BASELINES, found, strict=True)) == {
        "mean": 3.0,
        "leave_one_out": 4.0,
        "max": 0.0,
        "none": 4.0,
    }
    assert pool_advantages(alone, leave_one_out, 4, normalize=True).tolist() == [0.0]


def test_a_deviation_by_role_that_is_known_scales_the_gradient_of_each_agent() -> None:
    game = Game(reward, agents=("x", "y"))
    team, oracle = make_tables(game)
    options = LearnerOptions(learning_rate=0.0, normalize_advantages="role")
    learner = Learner(team, ALGORITHMS["marloo"], options)
    assert learner.role_deviation is not None
    learner.role_deviation.squares = {"x": 4.0, "y": 0.25}
    found = expected_gradient(learner, oracle, player("episodes", game, team, oracle, 2))
    scales = torch.tensor([0.5, 2.0]).reshape(2, 1, 1)
    torch.testing.assert_close(found, scales * true_gradient(game, team))


@pytest.mark.parametrize("plan", ["episodes", pytest.param("tree", marks=pytest.mark.slow)])
def test_own_points_add_to_the_returns_of_their_agent_alone(plan: str) -> None:
    def own(agent: str, history: History, joint: tuple[str, ...]) -> dict[str, float]:
        return {"own/part": 1.5 * bool(joint[1]) - len(history)} if agent == "y" else {}

    def of_team(history: History, joint: tuple[str, ...]) -> float:
        return reward((*history[:-1], (history[-1][0],)) if history else (), joint[:1])

    def of_agent_y(history: History, joint: tuple[str, ...]) -> float:
        return of_team(history, joint) + 2.0 * own("y", history, joint)["own/part"]

    game = Game(of_team, agents=("x", "y"), infos=own)
    team, oracle = make_tables(game)
    options = LearnerOptions(learning_rate=0.0, own_weight=2.0)
    learner = Learner(team, ALGORITHMS["marloo"], options)
    found = expected_gradient(learner, oracle, player(plan, game, team, oracle, 2))
    torch.testing.assert_close(found[0], true_gradient(game, team)[0])
    torch.testing.assert_close(
        found[1], true_gradient(Game(of_agent_y, agents=("x", "y")), team)[1]
    )


TREES = (("aligned", False), ("cross", True), ("cross", False))
"""Pairings of trees whose enumeration takes long, and whether episodes may end early."""


def one_after_the_other(history: History) -> Sequence[str]:
    return ("x",) if len(history) % 2 == 0 else ("y",)


def one_leaves(history: History) -> Sequence[str]:
    return ("y",) if history else ("x", "y")


def one_joins(history: History) -> Sequence[str]:
    return ("x", "y") if history else ("x",)


@pytest.mark.parametrize("acting", [one_after_the_other, one_leaves, one_joins])
@pytest.mark.parametrize(
    ("plan", "mode", "early"),
    [
        ("episodes", "aligned", True),
        ("episodes", "aligned", False),
        ("tree", "aligned", True),
        *(pytest.param("tree", m, e, marks=pytest.mark.slow) for m, e in TREES),
    ],
)
def test_turn_order_and_agents_that_come_and_go_keep_the_gradient_exact(
    acting: Callable[[History], Sequence[str]], plan: str, mode: str, early: bool
) -> None:
    def points(history: History, joint: tuple[str, ...]) -> float:
        earlier = "".join(text for turn in history for text in turn)
        return len(earlier) * (0.5 + bool(joint[-1])) - 0.3 * bool(joint[0])

    def over(history: History, joint: tuple[str, ...]) -> bool:
        return early and joint[0] == "a"

    game = Game(points, over, agents=("x", "y"), acting=acting)
    team, oracle = make_tables(game)
    learner = Learner(team, ALGORITHMS["marloo"], LearnerOptions(learning_rate=0.0))
    found = expected_gradient(learner, oracle, player(plan, game, team, oracle, 2, mode))
    torch.testing.assert_close(found, true_gradient(game, team))


def test_a_chain_is_refused_where_agents_take_turns() -> None:
    game = Game(reward, agents=("x", "y"), acting=one_after_the_other)
    team, oracle = make_tables(game)
    with pytest.raises(ValueError, match="to episodes or tree"):
        player("chain", game, team, oracle, 2)()


G = 3
RNG = np.random.default_rng(4)

Rewards = Mapping[tuple[int, ...], float]
"""Reward of each joint sample."""


def played(pairing: Pairing, agents: int) -> tuple[Group, Rewards]:
    """A group with random rewards, in which completions interact."""
    rewards = dict(zip(pairing.joint, RNG.normal(size=len(pairing.joint)).tolist(), strict=True))
    texts = tuple(Completion(str(g)) for g in range(G))
    names = [f"agent_{i}" for i in range(agents)]
    group = Group(
        turn=0,
        parent=None,
        prompts=dict.fromkeys(names, ""),
        completions=dict.fromkeys(names, texts),
        joint=pairing.joint,
        anchors=pairing.anchors,
        rewards=tuple(rewards.values()),
        infos=({},) * len(rewards),
    )
    return group, rewards


def credit(rewards: Rewards, agent: int) -> np.ndarray:
    """The Shapley value of each completion of an agent, averaged over the joint samples that have it, (G,).

    v(S) is the mean reward of the joint samples in which the completions of S are those of the one at hand.
    """
    agents = len(next(iter(rewards)))
    of_completion: dict[int, list[float]] = {}
    for sample in rewards:

        def worth(coalition: Coalition, sample: tuple[int, ...] = sample) -> float:
            alike = (r for s, r in rewards.items() if all(s[i] == sample[i] for i in coalition))
            return float(np.mean(list(alike)))

        values = shapley(worth, orders(agents, RNG))
        total = worth(frozenset(range(agents))) - worth(frozenset())
        assert sum(values) == pytest.approx(total, abs=1e-12)  # efficiency
        of_completion.setdefault(sample[agent], []).append(values[agent])
    return np.array([np.mean(of_completion[g]) for g in range(G)])


def learned(group: Group, agent: int) -> np.ndarray:
    """The advantages of `mean`, (G,)."""
    table = partner_returns(group, np.array(group.rewards), agent)
    return subtract_baseline(table.mean(-1), mean)


def own(rewards: Rewards, pairing: Pairing, agent: int) -> Rewards:
    """The joint samples that an agent is compared by: each completion beside each choice of partners."""
    return {
        sample: rewards[sample]
        for g, anchor in product(range(G), pairing.anchors)
        for sample in [(*anchor[:agent], g, *anchor[agent + 1 :])]
    }


@pytest.mark.parametrize("agents", [2, 3])
def test_under_cross_credit_by_shapley_is_the_advantage(agents: int) -> None:
    group, rewards = played(cross(G, agents), agents)
    for agent in range(agents):
        np.testing.assert_allclose(credit(rewards, agent), learned(group, agent), atol=1e-12)


@pytest.mark.parametrize(("agents", "partners"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 4)])
def test_under_common_it_is_on_the_samples_of_comparison(agents: int, partners: int) -> None:
    pairing = common(G, agents, partners, np.random.default_rng(partners))
    group, rewards = played(pairing, agents)
    for agent in range(agents):
        compared = own(rewards, pairing, agent)
        np.testing.assert_allclose(credit(compared, agent), learned(group, agent), atol=1e-12)


def test_on_all_samples_of_common_it_is_not() -> None:
    """Completions that are anchors meet more partners there, whose luck is in their mean."""
    group, rewards = played(common(G, 2, 1, np.random.default_rng(0)), 2)
    assert not np.allclose(credit(rewards, 0), learned(group, 0), atol=1e-3)


@pytest.mark.parametrize("agents", [2, 3])
def test_under_aligned_it_is_an_equal_share_of_the_advantage(agents: int) -> None:
    group, rewards = played(align(G, agents), agents)
    for agent in range(agents):
        np.testing.assert_allclose(
            credit(rewards, agent), learned(group, agent) / agents, atol=1e-12
        )


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("magrpo", {"critic": "own", "own_weight": 1.0}, "no effect with a critic"),
        ("magrpo", {"critic": "own", "reward_parts": "normalize_then_sum"}, "a critic estimates"),
        ("rae", {"reward_parts": "normalize_then_sum"}, "rae computes advantages of its own"),
        ("mareinforce", {"reward_parts": "normalize_then_sum"}, "does not center returns"),
        (
            "magrpo",
            {
                "reward_parts": "normalize_then_sum",
                "truncation": {"mode": "penalise", "overlong_penalty": 1.0},
            },
            "would count for each component",
        ),
        ("madpo", {"own_weight": 1.0}, "pairs have no advantages"),
    ],
)
def test_unsuitable_options_are_refused(name: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ALGORITHMS[name].check(["x", "y"], LearnerOptions(**options))


def test_advantages_of_a_running_deviation_are_not_computed_again() -> None:
    role = LearnerOptions(normalize_advantages="role")
    assert not ALGORITHMS["magrpo"].can_recompute_advantages(role)
    assert ALGORITHMS["magrpo"].can_recompute_advantages(LearnerOptions())
