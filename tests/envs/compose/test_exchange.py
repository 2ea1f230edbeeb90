"""The exchange: nobody earns `together` by a team-mate's work, and honest pairs lose nothing."""

from __future__ import annotations

import inspect

import pytest

from llm_decpomdp import answers, make
from llm_decpomdp.envs.compose.roles import EntryRole
from llm_decpomdp.envs.compose.separate_runs import _compose_print_results, _compose_stub
from tests.envs.compose.played import expression, points, references, reset


@pytest.fixture(scope="module")
def env():
    return make("compose-v0", types="lists", length=4)  # few tasks, soon drawn


@pytest.mark.parametrize("place", [0, 1])
def test_whoever_does_everything_and_only_asks_for_a_sign_earns_nothing_together(env, place):
    aux, _ = references(env, place)
    whole, step = expression(EntryRole(1).reference(env.task)), expression(aux)
    memory = f"calls = []\ndef aux(x):\n    calls.append(x)\n    return {step} if len(calls) % 2 else {whole}"
    attacks = {
        "a flag": (
            f"def aux(x, go=False):\n    return {whole} if go else {step}",
            "def main(x):\n    return aux(x, True)",
        ),
        "a flag by name": (
            f"def aux(x, go=False):\n    return {whole} if go else {step}",
            "def main(x):\n    return aux(x, go=True)",
        ),
        "a list around it": (
            f"def aux(x):\n    return [{whole}]",
            "def main(x):\n    return aux(x)[0]",
        ),
        "a constant": (
            "def aux(x):\n    return 7",
            f"def main(x):\n    return {whole} if aux(x) == 7 else None",
        ),
        "a second call": (memory, "def main(x):\n    aux(x)\n    return aux(x)"),
        "a hidden attribute": (
            f"class L(list):\n    pass\ndef aux(x):\n    y = L({step})\n    y.all = {whole}\n    return y",
            "def main(x):\n    return aux(x).all",
        ),
    }
    for name, (helper, entry) in attacks.items():
        assert points(env, helper, entry, place) == (1.0, 0.0), name


def test_an_entry_function_that_checks_the_helpers_work_does_it_itself(env):
    aux, _ = references(env)
    whole = expression(EntryRole(1).reference(env.task))
    entry = f"def main(x):\n    return {whole} if aux(x) == {expression(aux)} else None"
    assert points(env, aux, entry) == (1.0, 0.0)


@pytest.mark.parametrize("failure", ["return []", "raise ValueError", "raise SystemExit"])
def test_work_that_is_partly_right_earns_a_part(env, failure):
    aux, main = references(env)
    half = f"def aux(x):\n    if len(x) <= 6:\n        {failure}\n    return {expression(aux)}"
    tests, together = points(env, half, main)
    assert 0 < tests < 1 and together == 2 * tests


def test_honest_code_of_other_forms_earns_full_marks(env):
    aux, main = references(env)
    for helper, entry in (
        (aux.replace("(x)", "(x, *rest)", 1), main),
        (aux, main.replace("aux(x)", "aux(x=x)")),
        (aux, main.replace("return", "y = aux(x)\n    y = aux(x)\n    return")),
        (aux, main.replace("return", "aux([])\n    return")),
        (aux, main.replace("aux(x)", "aux(**{'x': x})")),
        (
            aux,
            f"{main}\n# Example usage\nprint(main([1, 2, 3]))\nassert main([5, 4, 7, 9]) is not None\n",
        ),
        (f"{aux}\nrepr = sorted = len = 'a'\ndef print(*given):\n    pass\n", main),
        (aux.replace("return", "print('.' * 10**5)\n    return"), main),
        (
            aux.replace("return", "x = x[:]\n    return"),
            main.replace("aux(x)", "(lambda f: f(x))(aux)"),
        ),
    ):
        assert points(env, helper, entry) == (1.0, 2.0), (helper, entry)


def test_a_helper_among_several_that_is_not_needed_earns_no_share():
    env = make("compose-v0", num_agents=3, length=4)
    env.reset(options={"task_id": "compose/0"})
    gold = dict(answers(env).references)
    step = expression(gold["aux_1"])
    name = "aux_1("
    inner = gold["main_0"].partition(name)[2]
    assert env.fork().step(gold)[4]["main_0"]["reward/together"] == 2.0
    lazy = f"def own(x):\n    return {step}\n" + gold["main_0"].replace(
        name + inner, "own(" + inner
    )
    assert env.fork().step({**gold, "main_0": lazy})[4]["main_0"]["reward/together"] == 1.0


NAMES = ("alpha", "beta", "gamma")


def named(env, text, name):
    """Give the helper's function of a reference another name."""
    return text.replace(env.roles[0].drawn_name(env.task), name)


@pytest.fixture(scope="module")
def names():
    env = make("compose-v0", convention="name", types="text", length=4)
    reset(env, 1)
    return env


@pytest.mark.parametrize("name", NAMES)
def test_both_earn_full_marks_with_any_name(names, name):
    aux, main = (named(names, text, name) for text in references(names))
    other = next(n for n in NAMES if n != name)
    for helper, entry in (
        (aux, main),
        (f"{name} = lambda x: {expression(aux)}", main),
        (aux, f"f = {name}\ndef main(x):\n    return {expression(main).replace(name, 'f')}"),
        (aux, main.replace("return", f"{other} = x  # not {other}(x)\n    return")),
        (aux, f"def same({other}):\n    return {other}\n{main}"),
    ):
        assert points(names, helper, entry) == (1.0, 2.0), entry


TOLERANT = {
    "the first one": "f = next(globals()[n] for n in NAMES if n in globals())",
    "the rarest result": """
def f(x):
    results = [globals()[n](x) for n in NAMES if n in globals()]
    return min(results, key=results.count)
""",
    "the most frequent result": """
def f(x):
    results = [globals()[n](x) for n in NAMES if n in globals()]
    return max(results, key=results.count)
""",
    "a name after another": """
def f(x):
    try:
        return alpha(x)
    except NameError:
        pass
    try:
        return beta(x)
    except NameError:
        return gamma(x)
""",
    "text": "f = eval([n for n in NAMES if n in globals()][0])",
    "a name that it binds": """
f = None
for n in NAMES:
    if f is None and n in globals():
        alpha = beta = gamma = f = globals()[n]
def f(x):
    return alpha(x)
""",
}


@pytest.mark.parametrize("way", TOLERANT)
def test_a_main_that_takes_every_name_has_agreed_on_none(names, way):
    aux, main = references(names)
    entry = f"def main(x):\n    return {expression(named(names, main, 'f'))}"
    tolerant = f"NAMES = {NAMES}\n{TOLERANT[way]}\n{entry}"
    for name in NAMES:
        assert points(names, named(names, aux, name), tolerant) == (1.0, 0.0), name


def test_a_name_that_is_mentioned_and_not_taken_earns_with_that_name_alone(names):
    aux, main = references(names)
    entry = f"def main(x):\n    return {expression(named(names, main, 'f'))}"
    decoy = (
        f"f = next(globals()[n] for n in {NAMES} if n in globals())\n{entry}\ndef g():\n    beta(1)"
    )
    earned = [points(names, named(names, aux, name), decoy)[1] for name in NAMES]
    assert earned == [0.0, 2.0, 0.0]


def test_the_clock_tells_no_name(names):
    """The helper ends at a time that tells its name, and `main` reads the clock beside stand-ins."""
    aux, main = references(names)
    for number, name in enumerate(NAMES):
        wait = f"while not {number} <= time.time() % 3 < {number}.1:\n    time.sleep(0.005)\n"
        entry = f"""
import time
there = [n for n in {NAMES} if n in globals()]
f = globals()[there[0] if len(there) == 1 else {NAMES}[int(time.time() % 3)]]
def main(x):
    return {expression(named(names, main, "f"))}
"""
        helper = f"import time\n{wait}{named(names, aux, name)}"
        assert points(names, helper, entry) == (1.0, 0.0)


def test_of_several_helpers_those_whose_names_are_met_earn():
    env = make("compose-v0", convention="name", num_agents=3, length=4)
    env.reset(options={"task_id": "compose/0"})
    gold = dict(answers(env).references)
    assert env.fork().step(gold)[4]["main_0"]["reward/together"] == 2.0
    name = env.roles[1].drawn_name(env.task)
    way = f"def f(x):\n    return [globals()[n] for n in {env.roles[1].names} if n in globals()][0](x)\n"
    tolerant = {**gold, "main_0": way + gold["main_0"].replace(f"{name}(", "f(")}
    found = env.fork().step(tolerant)[4]["main_0"]
    assert found["reward/tests"] == 1.0 and found["reward/together"] < 1.0


def test_a_helper_that_brings_its_team_mates_work_along_earns_nothing_for_it(env):
    for place in (0, 1):
        aux, main = references(env, place)
        rest, inner = expression(main), "aux(x)" if place else expression(main)[4:-1]
        if place:
            extra, entry = (
                f"def rest(x):\n    return {rest.replace('aux(x)', 'x')}\n",
                "rest(aux(x))",
            )
        else:
            extra, entry = f"def rest(x):\n    return {inner}\n", "aux(rest(x))"
        for kept, call in (
            (extra, entry),
            (
                extra + "import math\nmath.rest = rest\n",
                entry.replace("rest(", "__import__('math').rest("),
            ),
            (extra + "import builtins\nbuiltins.other = rest\n", entry.replace("rest(", "other(")),
        ):
            assert points(env, kept + aux, f"def main(x):\n    return {call}", place) == (1.0, 0.0)
        assert points(env, extra + aux, main, place) == (1.0, 2.0)


def test_a_helper_that_has_its_work_done_by_another_helper_earns_nothing_together():
    env = make("compose-v0", num_agents=3, length=4)
    env.reset(options={"task_id": "compose/0"})
    gold = dict(answers(env).references)
    work = f"def work(x):\n    return {expression(gold['aux_1'])}\n"
    lent = {"aux_0": work + gold["aux_0"], "aux_1": "def aux_1(x):\n    return work(x)\n"}
    infos = env.step({**gold, **lent})[4]["main_0"]
    assert (infos["reward/tests"], infos["reward/together"]) == (1.0, 0.0)


def test_a_helper_that_is_called_beside_stand_ins_alone_earns_nothing():
    env = make("compose-v0", num_agents=3, length=4)
    env.reset(options={"task_id": "compose/0"})
    gold = dict(answers(env).references)
    other = f"aux_1(x) if '_compose_stub' in globals() else {expression(gold['aux_1'])}"
    entry = f"def other(x):\n    return {other}\n{gold['main_0'].replace('aux_1(', 'other(')}"
    infos = env.step({**gold, "main_0": entry})[4]["main_0"]
    assert infos["reward/tests"] == 1.0 and infos["reward/together"] < 0.5


def test_a_main_that_replaces_what_grades_it_earns_nothing(env):
    aux, main = references(env)
    whole = expression(EntryRole(1).reference(env.task))
    own = expression(main).replace("aux(x)", "y")
    entry = f"""
def main(x):
    return ({whole}) if aux(x) == 7 else None
def exchange(*given):
    y = {expression(aux).replace("x", "given[-1]")}
    return [{own}, [y]]
"""
    assert points(env, "def aux(x):\n    return 7", entry) == (1.0, 0.0)


def test_what_is_equal_and_looks_different_carries_nothing(env):
    aux, main = references(env)
    for disguise in ("float(v)", "complex(v)"):
        helper = f"def aux(x):\n    return [{disguise} for v in {expression(aux)}]"
        assert points(env, helper, main) == (1.0, 0.0), disguise


def test_a_helper_that_is_missing_costs_its_team_mate_nothing():
    env = make("compose-v0", num_agents=3, length=4)
    env.reset(options={"task_id": "compose/0"})
    gold = dict(answers(env).references)
    own = f"    except NameError:\n        return {expression(gold['aux_1'])}\n"
    other = f"def other(x):\n    try:\n        return aux_1(x)\n{own}"
    entry = f"{other}{gold['main_0'].replace('aux_1(', 'other(')}"
    infos = env.step({**gold, "main_0": entry, "aux_1": ""})[4]["main_0"]
    assert (infos["reward/tests"], infos["reward/together"]) == (1.0, 1.0)


def test_names_of_a_helpers_own_are_left_alone(env):
    aux, main = references(env)
    step = expression(aux)
    for name in ("results", "exchange", "table", "text"):
        inner = f"def {name}(x):\n    return {step}\ndef aux(x):\n    return {name}(x)"
        assert points(env, inner, main) == (1.0, 2.0), name


def test_helpers_that_print_or_lie_about_their_results_harm_themselves_alone(env):
    aux, main = references(env)
    for line in ("print('hi' * 9)", "print('\\nresults: [[], []]')", "print('\\nresults: 7')"):
        assert points(env, aux.replace("return", f"{line}\n    return"), main) == (1.0, 2.0), line
    late = "import atexit\natexit.register(print, '\\nresults: {}')\n"
    for lie in ("[[], [0]]", "{}", "[" * 5000, "[[1], [2]]", '"text"', "[[], 7]"):
        helper = f"import json\njson.dumps = lambda value: {lie!r}\n" + late + aux
        assert points(env, helper, main) == (1.0, 0.0), lie


def test_programs_of_the_exchange_need_nothing_of_this_package():
    for function in (_compose_print_results, _compose_stub):
        source = inspect.getsource(function)
        assert "llm_decpomdp" not in source and compile(source, "<exchange>", "exec")
