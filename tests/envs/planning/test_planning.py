"""The families with a caller and a planner: rules, tasks, known numbers and exploits."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import product
from statistics import fmean

import numpy as np
import pytest

from llm_decpomdp import answers, make
from llm_decpomdp.envs.planning.hints import CALLER, PLANNER, read_hint
from llm_decpomdp.envs.planning.levels import PathGame, SokobanGame, least_pushes, pushes_to
from llm_decpomdp.envs.planning.sudoku import (
    EXAMPLE,
    best_guesses,
    candidates,
    fits,
    likelihoods,
    read_grid,
    relabeled,
    solutions,
)
from llm_decpomdp.envs.planning.walk import (
    STEPS,
    WalkTask,
    drawn_rows,
    find_plan,
    is_floor,
    read_moves,
)
from llm_decpomdp.envs.planning.walk_strategies import BeliefSearch, first_view, possible_maps
from llm_decpomdp.envs.worlds.game import game_env
from llm_decpomdp.envs.worlds.grid import canonical, distances
from llm_decpomdp.envs.worlds.strategies import NUMBERS, play
from llm_decpomdp.interfaces import TaskSet
from llm_decpomdp.picture import draw_svg, draw_text

FAMILIES = ("path-v1", "sokoban-v1", "sudoku-v1")

LEVELS = {
    "path-v1": [{"size": 4}, {"size": 7}, {"size": 10}],
    "sokoban-v1": [{"size": 4}, {"size": 6}, {"size": 5, "boxes": 2}],
    "sudoku-v1": [{"clues": 12}, {"clues": 8}, {"clues": 5}],
}
"""Three difficulties of each family."""


def steps(env, answers_of_planner, hint=""):
    """Play hints and answers; yield the reward and the planner's infos of each answer."""
    for answer in answers_of_planner:
        if env.agents:
            env.step({CALLER: hint})
            _, rewards, _, _, infos = env.step({PLANNER: answer})
            yield rewards[PLANNER], infos[PLANNER]


def walk_task(rows, start, goals, boxes=()):
    fields = {"task_id": "t", "index": 0, "prompt": "", "solution": ""}
    return WalkTask(**fields, rows=tuple(rows), start=start, goals=goals, boxes=boxes)


# Rules


def test_a_plan_is_as_long_as_the_distance():
    rng = np.random.default_rng(0)
    for _ in range(50):
        rows = ["".join(rng.choice(list("..#"), size=6)) for _ in range(6)]
        floor = [(x, y) for x in range(6) for y in range(6) if rows[y][x] == "."]
        start, goal = floor[0], floor[-1]
        far = distances(start, partial(is_floor, rows)).get(goal)
        plan = find_plan(rows, (start, ()), lambda state, goal=goal: state[0] == goal)
        assert (plan is None) == (far is None) and (plan is None or len(plan) == far)


def test_a_box_is_pushed_around_a_corner():
    # Two pushes to the right, around the box, and two pushes down.
    rows = [".....", ".....", ".....", "....."]
    plan = find_plan(rows, ((0, 1), ((1, 1),)), lambda state: state[1] == ((3, 3),))
    assert plan == "RRURDD"
    assert least_pushes(rows, ((1, 1),), ((3, 3),)) == 4


@pytest.mark.parametrize(
    ("answer", "walker", "boxes", "refused"),
    [
        ("RR", [2, 0], [[3, 0]], 0),
        ("RRR", [2, 0], [[3, 0]], 1),  # the edge is behind the box
        ("UUU", [0, 0], [[1, 0]], 3),
        ("DRRRRU", [3, 1], [[1, 0]], 2),  # the edge, then a wall
    ],
)
def test_walls_edges_and_stuck_boxes_refuse_moves(answer, walker, boxes, refused):
    task = walk_task(["....", "....", "...."], (0, 0), ((3, 2),), ((1, 0),))
    if answer.endswith("U") and answer != "UUU":
        task = walk_task(["...#", "....", "...."], (0, 0), ((3, 2),), ((1, 0),))
    game = SokobanGame()
    world, invalid = game.advance(task, game.begin(task), answer)
    assert (world["walker"], world["boxes"]) == (walker, boxes)
    assert (world["refused"], world["moves"], invalid) == (refused, len(answer), 0)


def test_a_box_in_a_corner_is_worth_nothing():
    rows = ("....", "....", "....", "....")
    table = pushes_to(rows, (2, 2))
    assert table[2, 2] == 0 and table[1, 1] == 2
    assert not {(0, 0), (3, 0), (0, 3), (3, 3)} & table.keys()
    task = walk_task(rows, (1, 1), ((2, 2),), ((1, 2),))
    game = SokobanGame()
    world, _ = game.advance(task, game.begin(task), "LDR")
    assert (world["progress"], world["solved"]) == (1.0, True)
    # Below, then to the left into the corner.
    world, _ = game.advance(task, game.begin(task), "DRDLL")
    assert world["boxes"] == [[0, 3]] and world["progress"] == 0.0


def test_progress_of_a_path_is_the_share_of_the_way():
    task = walk_task(["..#.", "....", "####"], (0, 0), ((3, 0),))
    game = PathGame()
    assert find_plan(task.rows, (task.start, ()), lambda s: s[0] == (3, 0)) == "RDRRU"
    shares = [game.progress(task, (cell, ())) for cell in ((0, 0), (1, 0), (1, 1), (3, 1), (0, 1))]
    assert shares == pytest.approx([0, 1 / 5, 2 / 5, 4 / 5, 1 / 5])


@pytest.mark.parametrize(
    ("text", "limit", "moves"),
    [
        ("UURD", 9, ("UURD", 0)),
        ("I go around the wall.\n```\nu r, d\n```", 9, ("URD", 0)),
        ("Moves: up up left", 9, ("UUL", 0)),
        ("- R\n- R", 9, ("RR", 0)),
        ("U" * 200, 5, ("UUUUU", 195)),
        ("<think>UUUU</think>RR", 9, ("RR", 0)),
        ("the walker should go up", 9, ("", 1)),
        ("", 9, ("", 1)),
    ],
)
def test_moves_are_lines_of_letters_or_words(text, limit, moves):
    assert read_moves(text, limit) == moves


def test_a_hint_is_without_reasoning():
    env = make("path-v1", split="test")
    env.reset(seed=0)
    hint = f"<think>\n{'The walker is there. ' * 20}\n</think>\n\nGo up,\nthen right.<|im_end|>"
    prompts, *_ = env.step({"caller_0": hint})
    assert prompts["planner_0"].endswith("The caller's hint: Go up, then right.")


@pytest.mark.parametrize(
    ("text", "grid"),
    [
        (EXAMPLE, "1234341221434321"),
        ("The grid:\n1 2 3 4 | 3 4 1 2\n2,1,4,3\n. . 0 _", "123434122143...."),
        ("1234 3412 2143 4321", "1234341221434321"),
        (EXAMPLE + "\n\nNo, better:\n" + "1.\n" + "2143\n" * 4, "2143" * 4),
        ("1234\n3412\n2143", None),
        ("5678\n" * 4, None),
        ("", None),
    ],
)
def test_a_grid_is_the_last_sixteen_cells(text, grid):
    assert read_grid(text) == grid


def test_all_grids_of_four_by_four_are_known():
    assert len(set(solutions())) == 288
    assert candidates("." * 16) == list(solutions())
    assert len(candidates("1234" + "." * 12)) == 288 // 24


def test_rotations_and_reflections_are_one_map():
    rows = ["..#.", "#...", "...#", "...."]
    turned = ["".join(column) for column in zip(*reversed(rows), strict=True)]
    assert canonical(rows) == canonical(turned) == canonical([row[::-1] for row in rows])
    assert canonical(rows) != canonical(["..#.", "#...", "...#", "...#"])


# Tasks


@pytest.mark.parametrize("family", FAMILIES)
def test_tasks_are_many_and_repeatable_and_splits_share_nothing(family):
    tasks = {split: make(family, split=split).tasks.tasks for split in ("train", "test")}
    assert [len(of) for of in tasks.values()] == [400, 100]
    assert not make(family).tasks.stand_in  # of no other data
    again = make(family, split="test[:5]").tasks.tasks
    assert again == tasks["test"][:5]
    assert make(family, task_seed=1, split="test[:5]").tasks.tasks != again

    def key(task):
        if family == "sudoku-v1":
            return relabeled(task.solution)
        goals, nobody = task.goals if task.boxes else (), (-1, -1)
        return canonical(drawn_rows(task.rows, (nobody, task.boxes), goals))

    keys = {split: {key(task) for task in of} for split, of in tasks.items()}
    assert not keys["train"] & keys["test"]
    texts = [task for of in tasks.values() for task in of]
    assert len({repr((t.solution, vars(t).get("rows"), vars(t).get("clues"))) for t in texts}) > 450


@pytest.mark.parametrize("family", FAMILIES[:2])
def test_stored_solutions_are_shortest_plans_that_win(family):
    env = make(family, split="test[:30]")
    game = env.reward
    for task in env.tasks.tasks:
        world, invalid = game.advance(task, game.begin(task), task.solution)
        assert world["solved"] and (world["refused"], invalid) == (0, 0)
        assert len(game.plan(task, game.begin(task))) == len(task.solution) <= game.max_moves
        assert (
            len(task.solution)
            >= sum(abs(a - b) for a, b in zip(task.start, task.goals[0], strict=True))
            or task.boxes
        )


def test_a_puzzle_has_one_solution_and_contradicts_the_example():
    for task in make("sudoku-v1", split="all").tasks.tasks:
        assert candidates(task.clues) == [task.solution]
        assert fits(task.solution, task.part) and fits(task.clues.replace(".", "1"), task.part)
        assert not fits("".join(EXAMPLE.split()), task.part)
        assert sum(cell != "." for cell in task.part) == 2


# Known numbers and exploits


@pytest.mark.parametrize(("family", "level"), [(f, level) for f in LEVELS for level in LEVELS[f]])
def test_references_earn_full_marks_at_each_difficulty(family, level):
    env = make(family, split="test[:3]", **level)
    for task in env.tasks.tasks:
        env.reset(options={"task_id": task.task_id})
        gold = answers(env).references
        assert set(gold) == {CALLER, PLANNER}
        ((reward, infos),) = steps(env, [gold[PLANNER]], gold[CALLER])
        assert (reward, infos["solved"], env.agents) == (pytest.approx(1.0), True, [])


@pytest.mark.parametrize("family", FAMILIES)
def test_no_strategy_beats_its_bound(family):
    env = make(family, split="test[:30]")
    found = {
        name: fmean(play(env, task.task_id, strategy) for task in env.tasks.tasks)
        for name, strategy in env.reward.strategies.items()
    }
    assert set(NUMBERS) <= set(found)
    assert found["optimum"] == found["padding"] == pytest.approx(1.0)
    assert 0.25 < found["alone"] == found["silent"] < 0.8
    assert found["random"] < 0.3
    for name in found.keys() - set(NUMBERS) - {"padding"}:
        assert found[name] < found["alone"] / 2, name
    for name in ("empty answer", "repeats the prompt", "caller does everything"):
        assert found[name] == 0.0
    if family == "sudoku-v1":
        assert found["copied example"] == found["one digit"] == 0.0


@pytest.mark.parametrize("family", FAMILIES)
def test_a_planner_that_sees_everything_needs_no_hint(family):
    env = make(family, split="test[:10]", sight="full")
    silent = env.reward.strategies["silent"]
    assert [play(env, task.task_id, silent) for task in env.tasks.tasks] == pytest.approx(
        [1.0] * 10
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_rewards_sum_to_the_score_whatever_is_answered(family):
    env = make(family, split="test[:15]")
    rng = np.random.default_rng(0)
    for task in env.tasks.tasks:
        env.reset(options={"task_id": task.task_id})
        texts = ["".join(rng.choice(list(STEPS), size=6)) for _ in range(5)]
        if family == "sudoku-v1":
            texts = ["".join(rng.choice(list("1234.."), size=16)) for _ in range(5)]
        played = list(steps(env, texts))
        total = sum(reward for reward, _ in played)
        assert total == pytest.approx(played[-1][1]["score"]) and 0.0 <= total <= 1.0


def test_two_hundred_moves_up_win_nothing():
    env = make("sokoban-v1", split="test")
    for task in env.tasks.tasks[:40]:
        env.reset(options={"task_id": task.task_id})
        played = list(steps(env, ["U" * 200] * 5))
        assert not any(infos["solved"] for _, infos in played)
        assert sum(reward for reward, _ in played) < 1.0
        assert played[0][1]["invalid"] == 170


def test_a_refused_move_costs_a_hundredth_and_never_pays():
    env = make("path-v1", split="test")
    task = next(t for t in env.tasks.tasks if len(t.solution) >= 6 and t.start[1] == 0)
    for bumps in range(3):
        env.reset(options={"task_id": task.task_id})
        ((reward, infos),) = steps(env, ["U" * bumps + task.solution])
        assert reward == pytest.approx(1 - 0.01 * bumps) and infos["refused"] == bumps
        assert infos["solved"]  # at the goal, however it got there
    env.reset(options={"task_id": task.task_id})
    assert [reward for reward, _ in steps(env, ["UU", "UU"])] == [0.0, 0.0]


def test_moves_run_out():
    env = make("path-v1", split="test", max_moves=10)
    env.reset(seed=0)
    played = list(steps(env, ["LR" * 4, "LR" * 4, "LR"]))
    assert [infos["invalid"] for _, infos in played] == [0, 6, 2]


@pytest.mark.parametrize("family", FAMILIES)
def test_invalid_answers_are_counted_and_change_nothing(family):
    env = make(family)
    env.reset(seed=0)
    (played,) = steps(env, ["I do not know."])
    assert played[0] == 0.0 and (played[1]["invalid"], played[1]["refused"]) == (1, 0)
    assert env.episode.turns[0].verdict.details["invalid"] == 0  # the caller cannot err


def test_a_contradicted_clue_refuses_the_grid_and_a_hidden_one_only_makes_it_wrong():
    env = make("sudoku-v1", split="test")
    task = env.tasks.tasks[0]
    env.reset(options={"task_id": task.task_id})
    swap = str.maketrans("1234", "2143")
    shown = "".join(
        c.translate(swap) if p != "." else c for c, p in zip(task.solution, task.part, strict=True)
    )
    hidden = next(n for n in range(16) if task.clues[n] != "." == task.part[n])
    wrong = task.solution[hidden].translate(swap)
    near = task.solution[:hidden] + wrong + task.solution[hidden + 1 :]
    played = list(steps(env, [near, shown, task.solution]))
    scores = [infos["score"] for _, infos in played]
    assert scores == pytest.approx([(13 - 1 / 3) / 14, (13 - 1 / 3) / 14 - 0.01, 0.99])
    assert [infos["solved"] for _, infos in played] == [False, False, True]


# What agents see


@pytest.mark.parametrize("family", FAMILIES)
def test_agents_act_in_turn_and_only_the_planner_reads(family):
    env = make(family)
    prompts, _ = env.reset(seed=0)
    assert env.acting == (CALLER,) and prompts[PLANNER] == ""
    assert "write a hint of at most 200 characters and nothing else." in prompts[CALLER]
    prompts, *_ = env.step({CALLER: "a long\nway to zqx " + "z" * 300})
    assert env.acting == (PLANNER,) and prompts[CALLER] == ""
    assert prompts[PLANNER].endswith("The caller's hint: a long way to zqx " + "z" * 182)
    prompts, *_ = env.step({PLANNER: "nothing qqq"})
    assert "qqq" not in prompts[CALLER] and prompts[PLANNER] == ""
    assert env.readers == {CALLER: [PLANNER]}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_planner_alone_acts_on_every_turn_without_hints(family):
    env = make(family, num_agents=1, split="test[:1]")
    prompts, _ = env.reset(seed=0)
    assert env.possible_agents == [PLANNER] and "caller" not in prompts[PLANNER]
    env.step({PLANNER: "nothing"})
    assert env.acting == (PLANNER,)
    _, rewards, *_ = env.step({PLANNER: answers(env).references[PLANNER]})
    assert rewards[PLANNER] == pytest.approx(1.0) and not env.agents
    assert not env.reward.strategies


def test_the_planner_sees_only_what_is_next_to_its_way():
    rows = ["....", "....", "....", "#..."]
    game = PathGame()
    task = walk_task(rows, (0, 0), ((3, 3),))
    other = walk_task(["....", "....", "....", "...#"], (0, 0), ((3, 2),))
    assert game.prompts(task, ())[CALLER] != game.prompts(other, ())[CALLER]
    world, _ = game.advance(task, game.begin(task), "D")
    views = [game.view(t, world, PLANNER) for t in (task, other)]
    assert views[0] == views[1] == ["..??", "W.??", "..??", "????"]
    assert game.view(task, world, CALLER) == ["....", "W...", "....", "#..G"]
    full = PathGame(sight="full")
    assert full.view(task, world, PLANNER) == full.view(task, world, CALLER)


def test_bare_prompts_are_the_hint_and_the_world():
    env = make("path-v1", size=3, wording="bare", split="test")
    prompts, _ = env.reset(seed=0)
    assert len(prompts[CALLER]) == 11 and set(prompts[CALLER]) <= set(".#WG\n")
    prompts, *_ = env.step({CALLER: "RR\nD"})
    assert prompts[PLANNER].startswith("RR D\n") and len(prompts[PLANNER]) == 4 + 1 + 11
    assert read_hint(" a \n b ", 2) == "a "


@pytest.mark.parametrize("family", FAMILIES)
def test_pictures_can_be_stored_and_drawn(family):
    env = make(family)
    env.reset(seed=0)
    ((_, _),) = steps(env, ["UD"])
    details = env.episode.turns[-1].verdict.details
    assert json.loads(json.dumps(details)) == details
    assert draw_svg(details["picture"]).startswith("<svg")
    assert "world" in draw_text(details["picture"]) or family == "sudoku-v1"


def test_after_a_win_nothing_changes():
    env = make("path-v1", stop_when_solved=False)
    env.reset(seed=0)
    played = list(steps(env, [env.task.solution, "U", "L"]))
    assert [reward for reward, _ in played] == pytest.approx([1.0, 0.0, 0.0])
    assert all(infos["solved"] for _, infos in played)


@pytest.mark.parametrize(("moves", "value"), [(1, 0.25), (2, 0.5), (3, 0.75), (4, 1.0)])
def test_the_best_planner_without_hints_by_hand(moves, value):
    """The goal is at either end of a corridor, and the first step towards one end shows whether it is there."""
    maps = [walk_task(["....."], (2, 0), ((x, 0),)) for x in (0, 4)]
    search = BeliefSearch(PathGame(), maps)
    cases, seen = ((0, ((2, 0), ())), (1, ((2, 0), ()))), frozenset((x, 0) for x in (1, 2, 3))
    assert search.best(cases, seen, moves, 0)[0] == pytest.approx(value)


def test_a_push_may_be_refused_by_what_is_not_seen():
    """Behind the box is a wall in one of two levels, and only the push shows in which."""
    levels = [walk_task([row], (0, 0), ((2, 0),), ((1, 0),)) for row in ("...", "..#")]
    search = BeliefSearch(SokobanGame(), levels)
    cases = tuple((n, ((0, 0), ((1, 0),))) for n in range(2))
    groups = search.outcomes(cases, frozenset({(0, 0), (1, 0)}), "R")
    assert sorted((refused, len(group)) for refused, _, group in groups) == [(False, 1), (True, 1)]


SMALL_GAMES = [
    (PathGame(size=3, max_moves=4, num_turns=8), ["#..", "...", "..#"], (0, 1), (2, 0), ()),
    (
        SokobanGame(size=4, max_moves=4, num_turns=8, boxes=1),
        ["....", "...#", "#...", "...."],
        (1, 1),
        (1, 3),
        ((1, 2),),
    ),
]


@pytest.mark.parametrize(("game", "rows", "start", "goal", "boxes"), SMALL_GAMES)
def test_the_best_planner_without_hints_earns_its_value(game, rows, start, goal, boxes):
    """Mean over all maps that fit a first view, with an answer for each move."""
    task = walk_task(rows, start, (goal,), boxes)
    view, walls = first_view(game, task)
    maps = possible_maps(game, view, walls)
    assert len(maps) > 2 and any(found.rows == task.rows for found in maps)
    env = game_env("maps", TaskSet(tuple(maps), "maps", "test", "all"), game, num_turns=8)
    silent = game.strategies["silent"]
    scores = [play(env, found.task_id, silent) for found in maps]
    assert fmean(scores) == pytest.approx(silent.exact(task))
    few = replace(game, num_turns=4).strategies["silent"]
    assert few.exact is None and few.limit(task) == silent.exact(task)
    assert replace(game, sight="full").strategies["silent"].exact(task) == 1.0


def test_the_best_guesses_are_those_of_all_sets_of_grids():
    """The points of the last grid are a maximum over sets of solutions, and of the others the best are tried."""
    task = next(t for t in make("sudoku-v1", clues=12).tasks.tasks if len(candidates(t.part)) == 9)
    grids, chances = likelihoods(task.part, 12)
    assert sum(chances) == pytest.approx(1.0) and task.solution in grids
    places = [n for n, clue in enumerate(task.part) if clue == "."]
    best = 0.0
    for chosen in product([True, False], repeat=9):
        inside = [(g, p) for g, p, c in zip(grids, chances, chosen, strict=True) if c]
        outside = sorted((p for p, c in zip(chances, chosen, strict=True) if not c), reverse=True)
        mass = sum(p for _, p in inside)
        most = [max(sum(p for g, p in inside if g[n] == d) for d in "1234") for n in places]
        points = sum((4 * right - mass) / 3 for right in most) / len(places)
        best = max(best, points + sum(outside[:2]))
    value, tries = best_guesses(task.part, 12, 3)
    assert value == pytest.approx(best) and len(tries) == 3
