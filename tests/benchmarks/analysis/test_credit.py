"""Credit of agents."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import llm_decpomdp
from llm_decpomdp import DecPOMDPEnv, make
from llm_decpomdp.agents.scripted import Gold, Replay
from llm_decpomdp.algorithms import RolloutOptions, Start, collect_rollouts
from llm_decpomdp.algorithms.rollouts.joint import pairing
from llm_decpomdp.algorithms.training.metrics import episode_row
from llm_decpomdp.benchmarks import Replayed, credits, evaluate, replay
from llm_decpomdp.benchmarks.analysis.credit import (
    DRAWN,
    Coalition,
    Credit,
    coalitions,
    orders,
    shapley,
)
from llm_decpomdp.benchmarks.analysis.credit_summary import (
    MEASURES,
    credit_folder,
    measurement_points,
    read_credit,
    task_means,
)
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.seeding import stream
from tests.benchmarks.cli.test_commands import call
from tests.benchmarks.evaluations import starts_of
from tests.benchmarks.stored_runs import Counted, change, played, run_of

Make = Callable[..., DecPOMDPEnv]


def row_of(
    env: DecPOMDPEnv, *texts: Sequence[str], plan: str = "chain", joint_mode: str = "aligned"
) -> dict[str, Any]:
    """A row of the first task, in which each agent says its texts; on every turn `group_size` of them."""
    team = {agent: Replay(said) for agent, said in zip(env.possible_agents, texts, strict=True)}
    starts = [Start(task_id=env.tasks.tasks[0].task_id)]
    size = len(texts[0]) // (env.num_turns if plan == "chain" else 1)
    options, rng = RolloutOptions(mode=plan, joint_mode=joint_mode), stream(0, "handoff")
    (found,) = collect_rollouts(env, team, starts, options, group_size=size, rng=rng)
    return episode_row(found, 1, "train")


def credits_of(
    env: DecPOMDPEnv, *texts: Sequence[str], **options: str
) -> dict[tuple[int, int, str], Credit]:
    """The credits of texts of each agent, by turn, sample and agent."""
    found = all_of(env, [row_of(env, *texts, **options)])
    return {(c.turn, c.sample, c.agent): c for c in found}


def references(env: DecPOMDPEnv) -> list[str]:
    """The data's answers to the first task."""
    env.reset(options={"task_id": env.tasks.tasks[0].task_id})
    return [llm_decpomdp.answers(env).reference(agent) for agent in env.possible_agents]


def all_of(env: DecPOMDPEnv, rows: Sequence[dict[str, Any]]) -> list[Credit]:
    found = replay({"train": env}, enumerate(rows, 1))
    return list(credits(one for one in found if isinstance(one, Replayed)))


def test_credit_of_a_harmful_helper() -> None:
    # The first agent earns 0.6 alone; the second loses 0.3 with a wrong word, adds 0.4 with its own.
    env = make("probe-lazy-v0")
    first, second = references(env)
    found = credits_of(env, [first], ["x"])
    worker, idler = (found[1, 1, agent] for agent in env.possible_agents)
    assert worker.reward == pytest.approx(0.3)
    assert worker.silent == idler.silent == 0.0
    assert (worker.difference, idler.difference) == pytest.approx((0.6, -0.3))
    assert (worker.shapley, idler.shapley) == pytest.approx((0.6, -0.3))
    assert (worker.gold, idler.gold) == pytest.approx((0.0, 0.7))
    assert (worker.own, idler.own) == (None, None)
    assert (worker.lazy, idler.lazy) == (0.0, 1.0)
    assert (worker.dispensable, idler.dispensable) == (None, None)
    good = credits_of(env, [first], [second])[1, 1, "player_1"]
    assert (good.difference, good.lazy, good.dispensable) == (pytest.approx(0.4), 0.0, 0.0)


def test_own_choice_is_relative_to_the_other_samples(make_word_env: Make) -> None:
    # One point if both write the word, a quarter off for each silent agent.
    env = make_word_env(num_turns=1)
    found = credits_of(env, ["apple", "apple", ""], ["apple", "pear", "apple"])
    left, right = ([found[1, sample, a] for sample in (1, 2, 3)] for a in env.possible_agents)
    assert [one.reward for one in left] == [1.0, 0.0, -0.25]
    assert [one.own for one in left] == pytest.approx(
        [1 - (1 - 0.25) / 2, 0 - (0 - 0.25) / 2, -0.25 - 1.0]
    )
    assert [MEASURES["choice"](one) for one in left] == [abs(one.own or 0.0) for one in left]
    assert [one.own for one in right] == pytest.approx(
        [1 - (0 + 1) / 2, 0 - 1.0, -0.25 - (-0.25 - 0.25) / 2]
    )
    assert [one.difference for one in left] == pytest.approx([1.25, 0.25, 0.0])
    assert [one.silent for one in left] == [-0.5] * 3
    assert [one.lazy for one in left] == [0.0, 0.0, 1.0]
    assert [one.gold for one in left] == pytest.approx([0.0, 0.0, 1.25])
    assert [one.shapley for one in left] == pytest.approx([(1.25 + 0.25) / 2, 0.25, 0.0])


@pytest.mark.parametrize("num_agents", [2, 3, 5])
def test_agents_that_add_the_same_share_the_reward_evenly(num_agents: int) -> None:
    env = make("probe-halves-v0", num_agents=num_agents)
    answers = [[text] for text in references(env)]
    found = credits_of(env, *answers[:-1], ["wrong"])
    shares = [found[1, 1, agent].shapley for agent in env.possible_agents]
    assert shares == pytest.approx([1 / num_agents] * (num_agents - 1) + [0.0])
    assert found[1, 1, env.possible_agents[-1]].gold == pytest.approx(1 / num_agents)


def test_of_eight_agents_with_equal_parts_drawn_orders_tell_the_same() -> None:
    env = make("probe-halves-v0", num_agents=8)
    answers = [[text] for text in references(env)]
    counted = Counted(env.reward)
    row = row_of(env, *answers)
    env.reward = counted
    assert [c.shapley for c in all_of(env, [row])] == pytest.approx([1 / 8] * 8)
    assert len(counted.calls) <= 2**8


def test_agents_that_need_each_other_split_what_both_would_lose() -> None:
    env = make("probe-rendezvous-v0")
    found = credits_of(env, ["a"], ["a"])
    assert [c.difference for c in found.values()] == [1.0, 1.0]
    assert [c.shapley for c in found.values()] == [0.5, 0.5]


def test_later_turns_start_in_their_own_state() -> None:
    # On each turn half a point for the one who is shown a letter, and half for the silence of the other.
    env = make("probe-turns-v0")
    letters = references(env)
    found = credits_of(env, [letters[0], "x"], ["", letters[1]])
    assert [found[1, 1, a].difference for a in env.possible_agents] == pytest.approx([1.0, 0.0])
    silent = credits_of(env, [letters[0], ""], ["", letters[1]])
    assert found[2, 1, "player_1"].reward < silent[2, 1, "player_1"].reward
    assert found[2, 1, "player_0"].difference == pytest.approx(
        found[2, 1, "player_0"].reward - silent[2, 1, "player_1"].reward
    )


def test_equal_counterfactuals_are_executed_once(make_word_env: Make) -> None:
    env = make_word_env(num_turns=1)
    row = row_of(env, ["apple", "apple"], ["apple", ""])
    counted = Counted(env.reward)
    env.reward = counted
    all_of(env, [row])
    after_replay = [tuple(call.values()) for call in counted.calls[2:]]
    assert len(after_replay) == len(set(after_replay))
    # Beside what was played: nobody, the right one alone, and its reference; the left one's was said.
    assert set(after_replay) == {("", ""), ("", "apple"), ("apple", "It is apple.")}


def test_where_the_data_have_no_answer_gold_is_missing(make_word_env: Make) -> None:
    env = make_word_env(num_turns=1)
    task = replace(env.tasks.tasks[0], references={"left_0": "apple"})
    env = DecPOMDPEnv("word_v0", replace(env.tasks, tasks=(task,)), env.roles, env.reward, env.mode)
    found = credits_of(env, ["pear", "pear"], ["apple", "apple"])
    assert found[1, 1, "left_0"].gold == 1.0
    assert found[1, 1, "right_0"].gold is None


def test_credit_of_two_correct_programs() -> None:
    # Alone aux earns 0.4, and main 0.6 + 0.5: it calls what is not there, so no test passes.
    env = make("coophumaneval-v0", split="test[:1]", source="bundled", num_turns=1)
    found = credits_of(env, *([text] for text in references(env)))
    aux, main_ = found[1, 1, "aux_0"], found[1, 1, "main_0"]
    assert (aux.reward, aux.silent) == (pytest.approx(4.0), 0.0)
    assert (aux.difference, main_.difference) == pytest.approx((2.9, 3.6))
    assert (aux.shapley, main_.shapley) == pytest.approx((1.65, 2.35))
    assert (aux.dispensable, main_.dispensable) == (0.0, 0.0)


def test_unneeded_helper_is_dispensable_and_not_lazy() -> None:
    # It earns its 0.4 for being there, but all tests pass without it.
    env = make("coophumaneval-v0", split="test[:1]", source="bundled", num_turns=1)
    alone = make("coophumaneval-v0", split="test[:1]", source="bundled", num_agents=1)
    helper = "def aux(*args):\n    return None"
    aux = credits_of(env, [helper], references(alone))[1, 1, "aux_0"]
    assert aux.passed and aux.passed_without
    assert (aux.dispensable, aux.lazy) == (1.0, 0.0)
    assert aux.difference == pytest.approx(0.4)


@pytest.mark.parametrize("joint_mode", ["aligned", "cross"])
def test_every_joint_sample_of_a_tree_has_its_credits(make_word_env: Make, joint_mode: str) -> None:
    env = make_word_env(num_turns=2)
    rows = played(env, "tree", joint_mode=joint_mode)
    found = all_of(env, rows)
    samples = sum(len(group["rewards"]) for row in rows for group in row["groups"])
    assert len(found) == 2 * samples
    rewards = {
        (line, group, sample): reward
        for line, row in enumerate(rows, 1)
        for group, of in enumerate(row["groups"], 1)
        for sample, reward in enumerate(of["rewards"], 1)
    }
    for one in found:
        assert one.reward == rewards[one.line, one.group, one.sample]
    for left, right in zip(found[::2], found[1::2], strict=True):
        assert left.shapley + right.shapley == pytest.approx(left.reward - left.silent)
    assert len(pairing(joint_mode, 2, 2)(2).joint) == len(rows[0]["groups"][0]["rewards"])


def test_levels_of_a_task_have_equal_weights(make_word_env: Make) -> None:
    def one(task: str, line: int, turn: int, group: int, sample: int, value: float) -> Credit:
        empty: Any = dict.fromkeys(("reward", "silent", "shapley", "gold", "own"), 0.0)
        place: Any = {"line": line, "phase": "eval", "update": 0, "task": task, "turn": turn}
        return Credit(
            **place, **empty, group=group, sample=sample, agent="a", difference=value,
            passed=False, passed_without=False,
        )  # fmt: skip

    found = [
        one("t", 1, 1, 1, 1, 1.0),
        one("t", 1, 1, 1, 2, 3.0),  # the first turn: 2
        one("t", 1, 2, 2, 1, 8.0),
        one("t", 1, 2, 3, 1, 4.0),
        one("t", 1, 2, 3, 2, 0.0),  # the second: (8 + 2) / 2, so the episode: 3.5
        one("t", 2, 1, 1, 1, 0.5),
        one("u", 3, 1, 1, 1, -1.0),
    ]
    assert task_means(found, MEASURES["difference"]) == {"t": 2.0, "u": -1.0}
    assert task_means(found, MEASURES["lazy"]) == {}
    (moment,) = measurement_points(found)
    assert moment.agents["a"]["difference"].value == 0.5
    assert "lazy" not in moment.agents["a"]
    assert (moment.tasks, moment.samples, len(moment.turns)) == (2, 7, 2)


def test_command_writes_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env = make("coophumaneval-v0", split="test[:3]", source="bundled", num_turns=1)
    starts, gold = starts_of(env), dict.fromkeys(env.possible_agents, Gold())
    evaluate(env, gold, starts, folder=tmp_path)
    assert call("credit", str(tmp_path)) == 0
    assert "2.900" in capsys.readouterr().out
    (moment,) = read_credit(tmp_path)
    content = json.loads((tmp_path / "credit.json").read_text(encoding="utf-8"))
    assert (content["episodes"], content["changed_groups"]) == (3, 0)
    assert moment.agents["aux_0"]["shapley"].value == pytest.approx(1.65)
    assert moment.team["reward"].value == pytest.approx(4.0)
    assert moment.turns == ()
    with (tmp_path / "credit.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert {row["lazy"] for row in rows} == {"0.0"}
    evaluate(env, gold, starts, samples=2, folder=tmp_path)
    assert read_credit(tmp_path) == []  # of other episodes than there are now


def test_command_reads_the_phase(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(tmp_path, "tree").path
    assert call("credit", str(run)) == 0
    (held_out,) = read_credit(run)
    assert (held_out.phase, held_out.tasks) == ("eval", 2)
    assert call("credit", str(run), "--phase", "train") == 0
    (trained,) = read_credit(run, "train")
    assert trained.phase == "train" and read_credit(run) == [held_out]
    assert "choice" in trained.agents["aux_0"] and "choice" not in held_out.agents["aux_0"]
    capsys.readouterr()
    assert call("credit", str(run), "--phase", "test") == 2
    assert "phase" in capsys.readouterr().err


def test_command_warns_of_differences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(tmp_path).path
    change(run, 3, lambda row: row["groups"][0]["rewards"].__setitem__(0, 9.0))
    assert call("credit", str(run)) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 groups, the first in line 3, differ from the stored ones" in shown
    assert read_credit(run)[0].team["reward"].value < 5.0


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def random_game(players: int) -> dict[Coalition, float]:
    """A worth for each coalition."""
    draw = np.random.default_rng(players)
    return {
        frozenset(some): float(draw.normal())
        for size in range(players + 1)
        for some in combinations(range(players), size)
    }


def by_the_formula(worth: dict[Coalition, float], players: int, player: int) -> float:
    """The sum over all coalitions without the player, weighted by factorials."""
    return sum(
        math.factorial(len(some))
        * math.factorial(players - len(some) - 1)
        / math.factorial(players)
        * (worth[some | {player}] - worth[some])
        for some in worth
        if player not in some
    )


@pytest.mark.parametrize("players", [1, 2, 3, 4, 6])
def test_up_to_six_players_get_what_the_formula_says(players: int) -> None:
    worth = random_game(players)
    expected = [by_the_formula(worth, players, one) for one in range(players)]
    assert shapley(worth.__getitem__, orders(players, rng())) == pytest.approx(expected)


@pytest.mark.parametrize("players", [2, 5, 7, 8])
def test_the_values_add_up_to_what_all_earn_beyond_nobody(players: int) -> None:
    worth = random_game(players)
    values = shapley(worth.__getitem__, orders(players, rng()))
    everyone = frozenset(range(players))
    assert math.fsum(values) == pytest.approx(worth[everyone] - worth[frozenset()])


@pytest.mark.parametrize("players", [7])
def test_a_player_that_adds_nothing_gets_nothing(players: int) -> None:
    worth = random_game(players)
    values = shapley(lambda some: worth[some - {1}], orders(players, rng()))
    assert values[1] == 0.0
    assert all(abs(value) > 1e-6 for one, value in enumerate(values) if one != 1)


def test_of_many_players_drawn_orders_come_near_the_formula() -> None:
    worth = {some: value + 2.0 * sum(some) for some, value in random_game(7).items()}
    drawn = orders(7, rng())
    assert len(drawn) == DRAWN
    expected = [by_the_formula(worth, 7, one) for one in range(7)]
    four_errors = 4 * math.sqrt(2 / DRAWN)  # of the difference of two normal worths
    assert shapley(worth.__getitem__, drawn) == pytest.approx(expected, abs=four_errors)


def test_drawn_orders_are_those_of_their_generator() -> None:
    assert orders(8, rng()) == orders(8, rng()) != orders(8, np.random.default_rng(1))


def test_of_few_players_every_coalition_is_asked_for_and_none_twice() -> None:
    found = coalitions(orders(4, rng()))
    assert len(found) == len(set(found)) == 2**4
    assert (found[0], found[-1]) == (frozenset(), frozenset(range(4)))


def test_credit_of_agents_that_take_turns_is_refused(tmp_path: Path) -> None:
    env = make("probe-relay-turns-v0")
    team = dict.fromkeys(env.possible_agents, Gold())
    evaluate(env, team, starts_of(env), folder=tmp_path / "turns")
    with pytest.raises(ConfigError, match="credit needs agents that all act in every turn"):
        credit_folder(tmp_path / "turns")
