"""Composition: prompts, references, rewards, and attacks on these."""

from __future__ import annotations

import pytest

from llm_decpomdp import answers, check_env, make
from llm_decpomdp.envs.compose.roles import EntryRole
from tools.quality.compose import references_solve

KINDS = {
    "pairs": {},
    "alone": {"num_agents": 1},
    "numbers": {"types": "numbers", "split": "test"},
    "long": {"length": 4},
    "three": {"num_agents": 3, "length": 4},
    "name": {"convention": "name", "types": "text"},
    "names of several": {"convention": "name", "num_agents": 3, "length": 4},
    "encoding": {"convention": "encoding", "split": "test"},
}


@pytest.mark.parametrize("name", ["pairs", "three", "name", "encoding"])
def test_references_earn_full_marks(name):
    kind = KINDS[name]
    solved = references_solve(make("compose-v0", **kind), 12)
    assert len(solved) >= 12 and all(solved)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count"),
    [*((kind, 500) for kind in KINDS.values()), ({}, None), ({"num_agents": 8, "length": 8}, None)],
)
def test_all_references_earn_full_marks(kind, count):
    """Those of a pair, and of eight agents; of other kinds some hundreds."""
    solved = references_solve(make("compose-v0", **{**kind, "split": "all"}), count)
    assert len(solved) >= 500 and all(solved)


@pytest.fixture(scope="module")
def env():
    return make("compose-v0", types="lists", num_turns=2)


def earned(env, aux: str, main: str, task_id: str = "compose/0"):
    env.reset(options={"task_id": task_id})
    return play(env, {"aux_0": aux, "main_0": main})


def play(env, actions):
    """The reward and the points of each component."""
    _, rewards, _, _, infos = env.fork().step(actions)
    points = {k[7:]: v for k, v in infos["main_0"].items() if k.startswith("reward/")}
    return rewards["main_0"], points


def parts(env, task_id: str = "compose/0"):
    env.reset(options={"task_id": task_id})
    gold = answers(env)
    return gold.reference("aux_0"), gold.reference("main_0"), EntryRole(1).reference(env.task)


def test_the_levels_of_the_reward(env):
    aux, main, _ = parts(env)
    assert env.reward.maximum == 4.0
    for helper, entry, reward in (
        (aux, main, 4.0),
        ("no code", "no code", 0.0),
        (aux, "no code", 0.25),
        ("no code", main, 0.25),
        ("def aux(x):\n    return 7", main, 1.0),
        ("def aux(x):\n    return (", main, 0.25),
        (aux, "def main(x):\n    print(aux(x))", 0.25),
    ):
        assert earned(env, helper, entry)[0] == reward, (helper, entry)


def test_a_helper_that_is_mentioned_is_not_called(env):
    aux, main, _ = parts(env)
    for mention in ("aux", "[aux for x in x]", "x if aux else x"):
        _, points = earned(env, aux, f"def main(x):\n    return {mention}")
        assert points["names_aux"] == 0, mention
    assert earned(env, aux, "def main(aux):\n    return aux")[1]["names_aux"] == 0
    assert earned(env, aux, "def main(x):\n    return aux(aux(aux(x)))")[1]["names_aux"] == 0.5
    handed = main.replace("aux(", "(lambda f, *xs: f(*xs))(aux, ")
    assert earned(env, aux, handed)[0] == 4.0  # it is not called by name, but when it runs


def table(env) -> str:
    """All results of the tests, as a function: nobody is told them."""
    lines = [
        line.partition("candidate(")[2].split(") == ") for line in env.task.test.splitlines()[1:]
    ]
    return "{" + ", ".join(f"{argument!r}: {result}" for argument, result in lines) + "}[repr(x)]"


@pytest.mark.parametrize("task_id", ["compose/0", "compose/1", "compose/2", "compose/3"])
def test_whoever_does_without_a_team_mate_earns_half_at_most(env, task_id):
    aux, _, whole = parts(env, task_id)
    results = f"def main(x):\n    return {table(env)}\n"
    called = "def main(x):\n    aux(x)\n    return "
    attacks = {
        "main ignores the helper": (aux, whole),
        "main calls and ignores it": (aux, whole.replace("    return", "    aux(x)\n    return")),
        "main calls it and drops it": (aux, whole.replace("return ", "return aux(x) and 0 or ")),
        "answers by heart": (aux, results),
        "answers by heart beside a call": (aux, called + table(env)),
        "answers by heart in the helper": (results.replace("main", "aux"), "main = aux"),
        "a helper that does all": (whole.replace("main", "aux"), "def main(x):\n    return aux(x)"),
        "and an alibi": (
            whole.replace("main", "aux"),
            "def main(x):\n    y = aux(x)\n    return y[:]",
        ),
        "the helper writes main": (f"{aux}\n{whole}", "def main(x):\n    return main(x)"),
        "the helper writes main, unanswered": (f"{aux}\n{whole}", ""),
    }
    for name, (helper, entry) in attacks.items():
        reward, points = earned(env, helper, entry, task_id)
        assert reward <= 2.0 and points["together"] == 0, name


def test_several_helpers_share_the_points():
    env = make("compose-v0", num_agents=3, length=4)
    env.reset(options={"task_id": "compose/0"})
    gold = dict(answers(env).references)
    assert play(env, gold)[0] == 4.0
    _, points = play(env, {**gold, "aux_1": "def aux_1(x):\n    return None"})
    assert points["together"] == 0 and points["aux_defined"] == 0.25
    _, points = play(env, {**gold, "aux_1": ""})
    assert points["aux_defined"] == points["names_aux"] / 2 == 0.125
    # Two helpers that do everything between them.
    whole = EntryRole(1).reference(env.task).replace("main", "aux_0")
    entry = "def main(x):\n    return aux_1(aux_0(x))"
    lazy = {"aux_0": whole, "aux_1": "def aux_1(x):\n    return x", "main_0": entry}
    _, points = play(env, lazy)
    assert points["tests"] == 1 and points["together"] == 0


# What agents are told


def test_a_prompt_tells_an_agents_own_steps_alone():
    for convention in ("none", "name", "encoding"):
        env = make("compose-v0", convention=convention)
        for seed in range(30):
            prompts, _ = env.reset(seed=seed)
            place = env.task.place % 2
            own, others = env.task.chain[place].statement(), env.task.chain[1 - place].statement()
            assert own in prompts["main_0"] and others in prompts["aux_0"]
            assert others not in prompts["main_0"] and own not in prompts["aux_0"]


def test_both_must_choose_the_same_name():
    env = make("compose-v0", convention="name")
    aux, main, _ = parts(env)
    assert earned(env, aux, main)[0] == 4.0
    name = env.roles[0].drawn_name(env.task)
    aux, main = (text.replace(name, "alpha") for text in (aux, main))
    assert earned(env, aux.replace("alpha", "beta"), main.replace("alpha", "beta"))[0] == 4.0
    for tricks in (
        aux.replace("alpha", "beta"),
        aux + aux.replace("alpha", "beta"),  # two names are none
        aux.replace("alpha", "beta") + "alpha = beta\n",
        "alpha = beta = lambda x: x",
    ):
        assert earned(env, tricks, main)[0] < 1.0, tricks


def test_references_have_all_names_and_prompts_do_not_tell_which():
    env = make("compose-v0", convention="name", types="numbers")
    role, tasks = env.roles[0], env.tasks.tasks[:900]
    drawn = [role.drawn_name(task) for task in tasks]
    assert all(f"def {name}(x)" in role.reference(t) for name, t in zip(drawn, tasks, strict=True))
    for listed in range(3):  # by the place in the prompt's list, which the index decides
        places = [name for name, task in zip(drawn, tasks, strict=True) if task.index % 3 == listed]
        assert all(0.25 < places.count(name) / len(places) < 0.42 for name in role.names)


def test_the_first_name_that_each_is_shown_is_never_the_same():
    env = make("compose-v0", convention="name")
    for seed in range(10):
        prompts, _ = env.reset(seed=seed)
        first = [min(("alpha", "beta", "gamma"), key=text.index) for text in prompts.values()]
        assert first[0] != first[1]


def test_one_side_of_an_encoding_alone_loses():
    env = make("compose-v0", convention="encoding")
    aux, main, _ = parts(env)
    assert earned(env, aux, main)[0] == 4.0
    assert earned(env, aux.rstrip() + "[::-1]\n", main)[0] <= 1.5


def test_feedback_counts_tests_and_shows_none(env):
    _, main, _ = parts(env)
    env.reset(options={"task_id": "compose/0"})
    prompts, *_ = env.step({"aux_0": "def aux(x):\n    return x[99]", "main_0": main})
    assert "- Tests: 0/6 passed" in prompts["aux_0"] and "IndexError" in prompts["aux_0"]
    assert "IndexError" not in prompts["main_0"] and "Use of aux: unknown" in prompts["main_0"]
    assert not any(case in text for case in env.task.tests.cases for text in prompts.values())


@pytest.mark.parametrize("external_mode", ["passed", "level_feedback"])
def test_feedback_takes_no_program_for_good_that_needs_no_helper(external_mode):
    env = make("compose-v0", types="lists", num_turns=2, external_mode=external_mode)
    aux, _, whole = parts(env)
    env.reset(options={"task_id": "compose/0"})
    lazy = f"def main(x):\n    aux(x)\n    return {whole.split('return ')[1]}"
    prompts, *_ = env.step({"aux_0": aux, "main_0": lazy})
    told = (
        "Not all levels passed"
        if external_mode == "passed"
        else "Use of aux: called, but its result does not"
    )
    assert told in prompts["main_0"]


def test_a_split_of_few_tasks_is_told():
    with pytest.warns(UserWarning, match="has only 13 .* few chains fit length=8, types='text'"):
        env = make("compose-v0", num_agents=8, length=8, types="text", task_seed=6)
        env.reset(seed=0)


def test_an_exception_tells_nothing_of_a_team_mates_results(env):
    aux, _, _ = parts(env)
    probes = [
        "raise ValueError(' '.join(str(aux(x)) for x in [x, x]))",
        "raise type('E' + str(len(aux(x))), (Exception,), {})()",
        "assert not aux(x), aux(x)",
    ]
    lines = "".join(
        f"    if aux(x)[0] == {value}:\n        raise ValueError\n" for value in range(-50, 50)
    )
    later = set()
    for probe in (*(f"    {one}\n" for one in probes), lines):
        for helper in (aux, "def aux(x):\n    return [3, 1]"):
            env.reset(options={"task_id": "compose/0"})
            prompts, *_ = env.step(
                {"aux_0": helper, "main_0": f"def main(x):\n{probe}    return x"}
            )
            later.add(prompts["main_0"].partition("Diagnostics:")[2])
        assert len(later) == 1, probe
        later.clear()
    with pytest.raises(TypeError, match="unknown argument 'exception_text'"):
        make("compose-v0", exception_text=True)


# Contracts


@pytest.mark.slow
def test_larger_teams_and_conventions_keep_the_contract():
    check_env(
        "compose-v0",
        num_agents=3,
        length=3,
        types="text",
        convention="name",
        num_turns=2,
        external_mode="level_passed",
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_agents": 3}, "num_agents=3 need a step each, got length=2: take length=3"),
        ({"num_agents": 9}, "num_agents must be a whole number from 1 to 8, got 9"),
        ({"num_agents": 65}, "num_agents must be a whole number from 1 to 8, got 65"),
        ({"types": "list"}, "did you mean 'lists'"),
        ({"convention": "names"}, "did you mean 'name'"),
        ({"convention": "order"}, "unknown convention 'order'"),
        ({"convention": "encoding", "length": 3}, "chains of two steps"),
        ({"source": "hub"}, "these tasks are made here"),
        ({"split": "valid"}, "unknown split 'valid'"),
    ],
)
def test_bad_arguments_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        make("compose-v0", **arguments)
