"""The shared parts of families with a known optimum."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from llm_decpomdp import answers, check_env
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation import strategies as checks
from llm_decpomdp.envs.worlds.commands import Commands, read_commands
from llm_decpomdp.envs.worlds.game import (
    Game,
    WorldOptions,
    game_env,
    generated_tasks,
    score_verdict,
    split_of,
    task_fields,
)
from llm_decpomdp.envs.worlds.grid import distances, show
from llm_decpomdp.envs.worlds.strategies import Strategy, only, play, repeat_prompt, say
from llm_decpomdp.interfaces import Task
from llm_decpomdp.picture import draw_svg, draw_text, find_picture, panel, picture

FORMS = {"put": (int, int, str), "look": ()}


@pytest.mark.parametrize(
    ("text", "accepted", "invalid"),
    [
        ("put 1 2 red", [("put", 1, 2, "red")], 0),
        (
            "- put 1 2 red\n2. PUT -3 4 Blue.\n* /put 5 6 red",
            [("put", 1, 2, "red"), ("put", -3, 4, "blue"), ("put", 5, 6, "red")],
            0,
        ),
        ("I put blocks here\nlook", [("look",)], 0),
        ("put it there", [], 1),
        ("put 1 2\nput 1 2 red 3\nput 1.5 2 red\nput 123456 1 red", [], 4),
        ("<think>put 9 9 red</think>put 1 2 red", [("put", 1, 2, "red")], 0),
        ("put 7 7 red\n```text\nput 1 2 red\n```\nput 8 8 red", [("put", 1, 2, "red")], 0),
        ("`put 1 2 red`", [("put", 1, 2, "red")], 0),
        ("", [], 0),
        ("put ٣ 2 red", [], 1),  # digits of another script
    ],
)
def test_commands_are_read_from_lines(text: str, accepted: list, invalid: int) -> None:
    assert read_commands(text, FORMS) == Commands(tuple(accepted), invalid)


def test_commands_beyond_the_limit_are_invalid() -> None:
    assert read_commands("look\n" * 5, FORMS, limit=3) == Commands((("look",),) * 3, 2)


def test_distances_are_those_of_breadth_first_search() -> None:
    walls = ["..#", "#.#", "..."]
    free = {(x, y) for y, row in enumerate(walls) for x, cell in enumerate(row) if cell == "."}
    found = distances((0, 0), free.__contains__)
    assert found == {(0, 0): 0, (1, 0): 1, (1, 1): 2, (1, 2): 3, (0, 2): 4, (2, 2): 4}


def test_a_grid_is_shown_with_its_coordinates() -> None:
    assert show(["ab", "cd"]) == "  01\n0 ab\n1 cd"
    assert show(["." * 11]).splitlines()[:2] == [" " * 12 + "1", "  01234567890"]


HOSTILE = picture([panel("<b>", ["r<", " r"])], {"r": ('"/><script>', "<i>&")})


def test_a_picture_is_drawn_as_text_and_as_escaped_svg() -> None:
    assert draw_text(HOSTILE) == "<b>\nr<\n.r\nr <i>&"
    drawn = draw_svg(HOSTILE)
    assert "<script" not in drawn and "<b>" not in drawn and "<i>" not in drawn
    assert "&lt;script&gt;" in drawn and drawn.count("<rect") == 5
    assert find_picture({"picture": HOSTILE}) == HOSTILE == json.loads(json.dumps(HOSTILE))
    assert find_picture({"picture": "a file of the user"}) is None


def test_each_cell_is_drawn_below_the_title_of_its_panel() -> None:
    drawn = draw_svg(picture([panel("a", ["..", ".."])], {}))
    corners = [f'<rect x="{x}" y="{y}"' for y in (16, 32) for x in (0, 16)]
    assert '<text x="0" y="11"' in drawn and all(corner in drawn for corner in corners)


def test_panels_wrap_so_that_narrow_screens_show_them() -> None:
    drawn = draw_svg(picture([panel("a", ["." * 15]), panel("b", ["." * 15])], {}))
    assert 'width="240"' in drawn
    assert 'width="320"' in draw_svg(picture([panel("a", ["." * 40])], {}))


# A game of one number: each agent says a part of it


@dataclass(frozen=True)
class NumberTask(Task):
    number: int = field(kw_only=True)


def number_row(rng, most):
    number = int(rng.integers(most))
    return None if number == 13 else {"key": str(number), "number": number}


def number_task(index, row):
    return NumberTask(**task_fields("number", index), number=row["number"])


def half(env, prompts, rng):
    number = 0 if env.episode.turns else env.task.number // 2
    return dict.fromkeys(prompts, f"add {number}")


class Sum(Game):
    """The sum of what all agents add over all turns should be the task's number."""

    agents = ("adder_0", "adder_1")
    strategies: Mapping[str, Strategy] = {
        "optimum": Strategy(half, exact=lambda task: 1.0),
        "alone": Strategy(only("adder_0", half), exact=lambda task: 0.5),
        "empty": Strategy(say("")),
    }

    def prompts(self, task, turns):
        return dict.fromkeys(self.agents, f"number {task.number}")

    def judge(self, task, completions, turns):
        before = turns[-1].verdict.details["sum"] if turns else 0
        found = [read_commands(text, {"add": (int,)}) for text in completions.values()]
        total = before + sum(command[1] for entry in found for command in entry.accepted)
        score = max(0.0, 1 - abs(task.number - total) / task.number)
        details = {"sum": total, "invalid": sum(entry.invalid for entry in found)}
        return score_verdict(score, turns, details)


def make_sum(game=None, **options):
    tasks = partial(generated_tasks, "number", WorldOptions(**options), even_row, number_task, 5000)
    return game_env("sum_v0", tasks, game or Sum(), num_turns=3)


def even_row(rng, most):
    number = 2 + 2 * int(rng.integers(most))
    return {"key": str(number), "number": number}


def test_a_game_is_an_environment() -> None:
    check_env(make_sum)


def test_the_sum_of_the_rewards_is_the_final_score() -> None:
    env = make_sum()
    for texts in (["add 1", "add x"], ["add 5", "no"], ["add -3", "add 2"]):
        env.reset(seed=1) if not env.agents else None
        *_, infos = env.step(dict(zip(env.possible_agents, texts, strict=True)))
    total = sum(turn.verdict.reward for turn in env.episode.turns)
    assert total == pytest.approx(infos["adder_0"]["score"]) and infos["adder_0"]["score"] > 0
    assert [turn.verdict.details["invalid"] for turn in env.episode.turns] == [1, 0, 0]


def test_tasks_are_deterministic_and_their_splits_share_no_key() -> None:
    train, test, every = (make_sum(split=split).tasks.tasks for split in ("train", "test", "all"))
    assert (len(train), len(test)) == (400, 100) and len(every) == 500
    assert not {t.number for t in train} & {t.number for t in test}
    assert {split_of(str(t.number)) for t in test} == {"test"}
    assert make_sum(split="train[:3]").tasks.tasks == train[:3]
    assert make_sum(task_seed=1).tasks.tasks != train
    assert make_sum().tasks.source == "package" and not make_sum().tasks.stand_in


def test_few_possible_tasks_give_fewer_tasks_without_repetition() -> None:
    tasks = generated_tasks("few", WorldOptions(split="all"), number_row, number_task, 20)
    numbers = [task.number for task in tasks.tasks]
    assert sorted(numbers) == [n for n in range(20) if n != 13]


@pytest.mark.parametrize(
    ("option", "value"), [("split", "dev"), ("source", "hub"), ("task_seed", -1), ("num_turns", 0)]
)
def test_wrong_options_are_named(option: str, value) -> None:
    with pytest.raises(ValueError, match=option):
        WorldOptions(**{option: value})


@pytest.fixture
def checked(monkeypatch):
    """The result of `check rewards` for changed strategies of the game, by name."""

    def check(**changes):
        game = Sum()
        game.strategies = {**Sum.strategies, **changes}
        monkeypatch.setattr(checks, "make_family", lambda env_id, **arguments: make_sum(game))
        return {entry.name: entry for entry in checks.check_strategies("sum-v0", {}, tasks=20)}

    return check


def test_known_numbers_are_played(checked) -> None:
    found = checked(**{"repeats the prompt": Strategy(repeat_prompt)})
    assert found["optimum"].score.value == found["optimum"].exact == 1.0
    assert found["alone"].bound == "optimum" and found["empty"].bound == "alone"
    assert [entry.problem for entry in found.values()] == [""] * 4


def test_an_exploit_that_beats_its_bound_is_a_problem(checked) -> None:
    assert "beats alone, which earns" in checked(padding=Strategy(half))["padding"].problem
    assert not checked(padding=Strategy(half, bound="optimum"))["padding"].problem


def test_a_bound_that_is_an_expectation_is_beaten_by_more_than_chance_alone(checked) -> None:
    """A bound that earns 0 or 1 by luck, with the mean 0.5; another team has a little more luck."""

    def lucky(share):
        def act(env, prompts, rng):
            number = env.task.number // 2 if rng.random() < share and not env.episode.turns else 0
            return dict.fromkeys(prompts, f"add {number}")

        return act

    half_time = Strategy(lucky(0.5), exact=lambda task: 0.5)
    found = checked(alone=half_time, other=Strategy(lucky(0.6)), better=Strategy(lucky(0.95)))
    assert found["other"].score.value > found["alone"].score.value
    assert not found["other"].problem
    assert found["better"].problem == "beats alone, which earns 0.5000"


def test_a_score_that_differs_from_its_exact_value_is_a_problem(checked) -> None:
    wrong = replace(Sum.strategies["alone"], exact=lambda task: 0.51)
    assert checked(alone=wrong)["alone"].problem == "the exact value is 0.5100"


def test_a_number_that_is_not_exact_has_a_limit_that_it_must_not_exceed(checked) -> None:
    silent = Strategy(half, limit=lambda task: 1.0)
    entry = checked(silent=silent)["silent"]
    assert (entry.exact, entry.limit, entry.problem) == (None, 1.0, "")
    low = replace(silent, limit=lambda task: 0.1)
    assert checked(silent=low)["silent"].problem == "exceeds its limit, which is 0.1000"
    exact = replace(silent, exact=lambda task: 0.5)
    assert checked(silent=exact)["silent"].limit is None


def test_references_may_differ_from_turn_to_turn() -> None:
    class Counting(Sum):
        def next_reference(self, task, agent, turns):
            return f"add {len(turns) + 1}"

    env = make_sum(Counting())
    env.reset(seed=0)
    for turn in (1, 2):
        assert set(answers(env).references.values()) == {f"add {turn}"}
        env.step(answers(env).references)


def test_an_audit_names_tasks_that_the_optimum_does_not_solve() -> None:
    env = make_sum(split="test[:2]")
    assert list(env.reward.audit(env)) == []
    game = Sum()
    game.strategies = {"optimum": Strategy(say("add 0"))}
    env = make_sum(game, split="test[:2]")
    assert [remark.fault for remark in env.reward.audit(env)] == [True, True]


def test_an_environment_without_strategies_has_no_known_numbers() -> None:
    with pytest.raises(ConfigError, match="declares no strategies"):
        checks.check_strategies("coophumaneval-v0", {"source": "bundled"})
    with pytest.raises(ConfigError, match="probe-halves-v0"):
        checks.check_strategies("probe-halfs-v0", {})


def test_equal_seeds_give_equal_scores_of_random_teams() -> None:
    def guess(env, prompts, rng):
        return {agent: f"add {rng.integers(9)}" for agent in prompts}

    env = make_sum()
    task_id = env.tasks.tasks[0].task_id
    scores = [play(env, task_id, Strategy(guess), seed) for seed in (1, 1, 2)]
    assert scores[0] == scores[1] != scores[2]
