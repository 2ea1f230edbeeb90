"""`build-word-v0` has the rules and the known numbers that it claims."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from llm_decpomdp import answers, make
from llm_decpomdp.benchmarks.evaluation.strategies import check_strategies
from llm_decpomdp.envs.building.blocks import world_after
from llm_decpomdp.envs.building.font import GLYPHS, SIZE
from llm_decpomdp.envs.building.word import MAX_LETTERS, f1, owners, score_alone


def say(env, **texts):
    """Play a turn in which agents that are not named say nothing; return the infos."""
    *_, infos = env.step({agent: texts.get(agent, "") for agent in env.agents})
    return infos["builder_0"]


@pytest.fixture
def env():
    env = make("build-word-v0", num_turns=4, stop_when_solved=False)
    env.reset(seed=3)
    return env


def test_every_letter_is_another_one_with_as_many_even_as_odd_cells() -> None:
    assert len(set(GLYPHS.values())) == len(GLYPHS) == 26
    for letter, rows in GLYPHS.items():
        assert len(rows) == SIZE and {len(row) for row in rows} == {SIZE}
        cells = [(x + y) % 2 for y, row in enumerate(rows) for x in range(SIZE) if row[x] == "#"]
        assert Counter(cells)[0] == Counter(cells)[1] > 0, letter


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_one_of_two_agents_alone_earns_two_thirds(length: int) -> None:
    for task in make("build-word-v0", length=length, split="all").tasks.tasks:
        assert score_alone(task) == pytest.approx(2 / 3)


def test_no_policy_of_an_agent_alone_earns_more(env) -> None:
    # With a of its c cells right and w wrong: 2 a / (a + w + n) is largest for all c and no wrong one.
    n, c = len(env.task.target), len(env.task.share(0))
    scores = {2 * a / (a + w + n) for a, w in product(range(c + 1), range(5))}
    assert max(scores) == score_alone(env.task) == pytest.approx(2 / 3)


@pytest.mark.parametrize("num_agents", [2, 3, 4])
def test_the_bound_is_that_of_the_largest_share(num_agents: int) -> None:
    tasks = make("build-word-v0", num_agents=num_agents, length=3).tasks.tasks
    for task in tasks[:50]:
        shares = [len(task.share(i)) for i in range(num_agents)]
        assert sum(shares) == len(task.target)
        assert score_alone(task) == 2 * max(shares) / (max(shares) + sum(shares))
        assert task.limit >= max(shares)


def test_a_guess_of_the_shift_does_not_pay_without_a_message(env) -> None:
    # By Jensen's inequality; here by playing both shifts.
    task = env.task
    own = answers(env).references
    wrong = "\n".join(f"put {x} {y} {task.colors[1][0]}" for x, y in task.share(0))
    scores = []
    for text in (own["builder_1"], wrong):
        env.reset(seed=3)
        scores.append(say(env, builder_0=own["builder_0"], builder_1=text)["score"])
    assert scores == [1.0, 0.0] and sum(scores) / 2 < 2 / 3


def test_cells_that_two_agents_write_stay_empty_and_are_named(env) -> None:
    a, b = (colors[0] for colors in env.task.colors)
    info = say(env, builder_0=f"put 0 0 {a}\nput 2 0 {a}", builder_1=f"put 0 0 {b}")
    assert (info["conflicts"], info["refused"], info["invalid"]) == (1, 0, 0)
    assert owners(world_after(env.episode.turns)) == {(2, 0): 0}
    prompts = env.episode.prompts.values()
    assert all("stayed empty: 0 0." in prompt for prompt in prompts)


def test_blocks_of_others_cannot_be_replaced_or_taken_away(env) -> None:
    a, b = (colors[0] for colors in env.task.colors)
    say(env, builder_0=f"put 0 0 {a}")
    info = say(env, builder_1=f"put 0 0 {b}\nclear 0 0\nput 1 0 {a}\nput 99 0 {b}\nput 0 -1 {b}")
    assert (info["refused"], info["invalid"], info["conflicts"]) == (5, 0, 0)
    assert owners(world_after(env.episode.turns)) == {(0, 0): 0}
    say(env, builder_0="clear 0 0", builder_1=f"put 1 0 {b}")
    assert owners(world_after(env.episode.turns)) == {(1, 0): 1}


def test_commands_beyond_the_limit_are_invalid(env) -> None:
    color, limit = env.task.colors[0][0], env.task.limit
    lines = [f"put {x} {y} {color}" for y in range(5) for x in range(11)]
    assert say(env, builder_0="\n".join(lines))["invalid"] == len(lines) - limit


def test_the_score_is_f1_of_the_cells_of_their_owners(env) -> None:
    task = env.task
    right, wrong = task.share(0)[:3], task.share(1)[:2]
    assert f1(task, {}) == 0.0 and f1(task, dict(task.target)) == 1.0
    blocks = dict.fromkeys([*right, *wrong], 0)
    assert f1(task, blocks) == 2 * 3 / (5 + len(task.target))


def test_the_rewards_sum_to_the_final_score(env) -> None:
    own = answers(env).references
    rewards = []
    x, y = env.task.share(0)[0]
    for text in (own["builder_0"], f"clear {x} {y}", own["builder_0"], ""):
        say(env, builder_0=text)
        rewards.append(env.episode.turns[-1].verdict.reward)
    assert min(rewards) < 0
    assert sum(rewards) == pytest.approx(env.episode.turns[-1].verdict.details["score"])


def test_only_the_first_agent_is_told_the_shift() -> None:
    env = make("build-word-v0", num_agents=3, plan="cells")
    by_shift = {}
    for task in env.tasks.tasks:
        first, *others = env.mode.first(task).values()
        assert f"s is {task.shift}, and you alone" in first
        # What the others see must be the same for every shift, but for their colors.
        texts = [prompt.partition("Your blocks")[0] for prompt in others]
        by_shift.setdefault((task.word, task.limit), set()).add(tuple(texts))
    assert all(len(texts) == 1 for texts in by_shift.values())
    everyone = make("build-word-v0", knowledge="all")
    prompts = everyone.reset(seed=0)[0].values()
    assert all(f"s is {everyone.task.shift}." in prompt for prompt in prompts)


def test_the_cells_of_a_plan_are_those_of_its_grid() -> None:
    env = make("build-word-v0", plan="cells", length=1)
    prompt = env.reset(seed=0)[0]["builder_1"]
    listed = [line.partition(": ")[2] for line in prompt.splitlines() if line.startswith("Cells")]
    cells = {tuple(map(int, c.split())) for line in listed for c in line.rstrip(".").split(", ")}
    assert cells == set(env.task.target)


def test_bare_words_are_answered_by_the_letters_of_their_cells() -> None:
    options = {"length": 1, "num_turns": 1, "wording": "bare"}
    env = make("build-word-v0", **options)
    prompts, _ = env.reset(seed=0)
    task = env.task
    assert prompts == {"builder_0": f"{task.word}{task.shift}", "builder_1": task.word}
    texts = answers(env).references
    assert [len(text) for text in texts.values()] == [len(task.share(i)) for i in (0, 1)]
    assert say(env, **texts)["score"] == 1.0
    env.reset(seed=0)
    assert say(env, builder_0="a" * 20, builder_1="B1 z")["invalid"] == 20 - task.limit
    env.reset(seed=0)
    assert say(env, builder_0="ab" * 50_000, builder_1="")["invalid"] == MAX_LETTERS - task.limit
    found = check_strategies("build-word-v0", {**options, "knowledge": "all"}, tasks=10)
    assert not [entry for entry in found if entry.problem]
    with pytest.raises(ValueError, match="length=1 and num_turns=1, got length=2"):
        make("build-word-v0", wording="bare")
