"""Other-play: symmetries that leave rewards as they are, and conventions that survive renaming."""

from __future__ import annotations

import re
from functools import partial
from itertools import permutations

import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from llm_decpomdp import answers, check_env, make
from llm_decpomdp.branching import branch, record
from llm_decpomdp.wrappers.other_play import exchange_words

NAMES = ("alpha", "beta", "gamma")
AUX, MAIN = "aux_0", "main_0"

plain = partial(make, "compose-v0", convention="name", types="numbers", split="train[:60]")
renamed = partial(plain, other_play=True)


def test_it_keeps_the_contract():
    check_env(renamed)
    parallel_seed_test(renamed, num_cycles=5)
    parallel_api_test(renamed(), num_cycles=5)


@pytest.mark.parametrize("names", [("alpha", "alpha"), ("alpha", "beta"), ("gamma", "alpha")])
def test_declared_words_are_a_symmetry_of_the_reward(names: tuple[str, str]):
    env = plain()
    assert env.mode.interchangeable == (NAMES,)
    for task in env.tasks.tasks[:2]:
        env.reset(options={"task_id": task.task_id})
        own = env.roles[0].drawn_name(task)
        texts = {
            agent: exchange_words(text, {own: name})
            for (agent, text), name in zip(answers(env).references.items(), names, strict=True)
        }
        rewards = set()
        for order in permutations(NAMES):
            words = dict(zip(NAMES, order, strict=True))
            actions = {agent: exchange_words(text, words) for agent, text in texts.items()}
            rewards.add(branch(env).step(actions)[1][MAIN])
        assert len(rewards) == 1, "each exchange of names by both agents earns the same"
        assert (rewards == {4.0}) == (names[0] == names[1])


def test_agents_see_renamings_of_their_own_and_references_still_earn_everything():
    env, inner = renamed(), plain()
    seen = set()
    for task in env.tasks.tasks[:12]:
        prompts, _ = env.reset(options={"task_id": task.task_id})
        original, _ = inner.reset(options={"task_id": task.task_id})
        assert env.original(prompts) == original and env.renamed(original) == prompts
        words = {agent: tuple(env.renaming(agent).values()) for agent in (AUX, MAIN)}
        seen.add((words[AUX], words[MAIN]))
        _, rewards, *_ = env.step(answers(env).references)
        assert rewards == {AUX: 4.0, MAIN: 4.0}
        assert set(record(env)["turns"][0]["completions"]) == {AUX, MAIN}
    assert len(seen) > 8 and any(aux != main for aux, main in seen)


def use(text: str, name: str) -> str:
    return re.sub("|".join(NAMES), name, text)


def solved_share(choose: dict[str, int | str], env) -> float:
    """The share of tasks that a team solves whose agents take a name, or the listed name at a place."""
    solved = []
    for task in env.tasks.tasks:
        prompts, _ = env.reset(options={"task_id": task.task_id})
        names = {
            agent: choice
            if isinstance(choice, str)
            else re.findall(r"`(alpha|beta|gamma)`", prompts[agent])[choice]
            for agent, choice in choose.items()
        }
        references = answers(env).references
        actions = {agent: use(references[agent], names[agent]) for agent in names}
        solved.append(env.step(actions)[4][MAIN]["solved"])
    return sum(solved) / len(solved)


def test_a_fixed_name_agrees_by_chance_and_a_place_in_the_lists_always():
    fixed: dict[str, int | str] = {AUX: "beta", MAIN: "beta"}
    # `main_0` lists the names from the second one on, so the first of `aux_0` is its last.
    place: dict[str, int | str] = {AUX: 0, MAIN: 2}
    assert solved_share(fixed, plain()) == 1.0
    assert solved_share(fixed, renamed()) == pytest.approx(1 / 3, abs=0.17)
    assert solved_share(place, plain()) == solved_share(place, renamed()) == 1.0


def test_a_family_without_interchangeable_words_is_refused():
    with pytest.raises(ValueError, match="declares none: leave out other_play"):
        make("compose-v0", other_play=True)
    assert make("compose-v0", other_play=False).name == "compose_v0"


def test_messages_and_earlier_answers_are_renamed_for_their_reader():
    env = renamed(order=[AUX, MAIN])
    task = next(
        task.task_id
        for task in env.tasks.tasks
        if env.reset(options={"task_id": task.task_id})
        and env.renaming(AUX)["alpha"] != env.renaming(MAIN)["alpha"]
    )
    env.reset(options={"task_id": task})
    prompts, *_ = env.step({AUX: f"def {env.renaming(AUX)['alpha']}(x): ..."})
    assert f"def {env.renaming(MAIN)['alpha']}(x): ..." in prompts[MAIN]
