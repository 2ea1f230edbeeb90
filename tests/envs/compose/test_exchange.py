"""The exchange of results: nobody earns `together` by a team-mate's work, and honest pairs lose nothing."""

from __future__ import annotations

import pytest

from llm_decpomdp import answers, make
from llm_decpomdp.envs.compose.exchange import TABLES
from llm_decpomdp.envs.compose.roles import EntryRole


@pytest.fixture(scope="module")
def env():
    return make("compose-v0", types="lists", length=4)  # few tasks, soon drawn


def reset(env, place):
    """Choose the first task in which `main` comes first (0) or last (1)."""
    tasks = (task for task in env.tasks.tasks if task.place % 2 == place)
    env.reset(options={"task_id": next(tasks).task_id})


def references(env, place=1):
    reset(env, place)
    gold = answers(env)
    return gold.reference("aux_0"), gold.reference("main_0")


def points(env, aux, main, place=1):
    reset(env, place)
    *_, infos = env.step({"aux_0": aux, "main_0": main})
    found = infos["main_0"]
    return found["reward/tests"], found["reward/together"]


def expression(code):
    return code.split("return ")[1].strip()


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


def test_work_that_is_partly_right_earns_a_part(env):
    aux, main = references(env)
    half = f"def aux(x):\n    return {expression(aux)} if len(x) > 6 else []"
    tests, together = points(env, half, main)
    assert 0 < tests < 1 and together == 2 * tests


def test_honest_code_of_other_forms_earns_full_marks(env):
    aux, main = references(env)
    for helper, entry in (
        (aux.replace("(x)", "(x, *rest)", 1), main),
        (aux, main.replace("aux(x)", "aux(x=x)")),
        (aux, main.replace("return", "y = aux(x)\n    y = aux(x)\n    return")),
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


def test_an_entry_function_that_takes_every_name_has_agreed_on_none():
    env = make("compose-v0", convention="name", types="text", length=4)
    aux, main = references(env)
    name = env.roles[0].drawn_name(env.task)
    tolerant = (
        "def main(x):\n    for name in ('alpha', 'beta', 'gamma'):\n        if name in globals():\n"
    )
    tolerant += "            f = globals()[name]\n            break\n"
    tolerant += f"    return {expression(main).replace(name, 'f')}"
    for other in ("alpha", "beta", "gamma"):
        helper, entry = aux.replace(name, other), main.replace(name, other)
        assert points(env, helper, entry) == (1.0, 2.0)
        if other != "alpha":
            assert points(env, helper, tolerant) == (1.0, 0.0)


def test_an_order_is_no_flag():
    env = make("compose-v0", convention="order", types="lists", length=4)
    aux, main = references(env)
    swapped = aux.replace("(x, n)", "(n, x)"), "def main(x):\n    return " + expression(main)
    reset(env, 1)
    constant = env.roles[0].share(env.task)[0].constant
    call = main[main.index("aux(") :]
    turned = f"aux({constant}, {call[4 : call.index(f', {constant})')]})"
    rest = call[call.index(f", {constant})") + len(f", {constant})") :]
    other = main[: main.index("aux(")] + turned + rest
    assert points(env, aux, main) == points(env, swapped[0], other) == (1.0, 2.0)
    assert points(env, swapped[0], main)[0] < 1
    whole = expression(EntryRole(1).reference(env.task))
    flag = f"def aux(a, b):\n    if isinstance(b, list):\n        x = b\n        return {whole}\n"
    flag += f"    x, n = a, b\n    return {expression(aux)}"
    assert points(env, flag, f"def main(x):\n    return aux({constant}, x)") == (1.0, 0.0)


def test_any_encoding_that_shows_both_numbers_will_do_and_the_result_is_none():
    env = make("compose-v0", convention="encoding")
    aux, main = references(env)
    pair, rest = expression(aux), expression(main)
    whole = f"[(lambda red, blue: {rest})(*p) for p in [{pair}]][0]"
    honest = {
        pair: "aux(x)",
        f"list({pair})[::-1]": "aux(x)[::-1]",
        f"dict(zip(['red', 'blue'], {pair}))": "aux(x).values()",
        f"'%d-%d' % {pair}": "map(int, __import__('re').fullmatch('(-?.+)-(-?.+?)', aux(x)).groups())",
    }
    for code, read in honest.items():
        entry = f"def main(x):\n    red, blue = {read}\n    return {rest}"
        assert points(env, f"def aux(x):\n    return {code}", entry) == (1.0, 2.0), code
    for code, read in {
        f"[{whole}]": "aux(x)[0]",
        f"(*{pair}, {whole})": "aux(x)[2]",
        f"(*{pair}, chr(1000 + {whole}))": "ord(aux(x)[2]) - 1000",
    }.items():
        helper, entry = f"def aux(x):\n    return {code}", f"def main(x):\n    return {read}"
        assert points(env, helper, entry) == (1.0, 0.0), code


def test_tables_need_nothing_of_this_package():
    assert "llm_decpomdp" not in TABLES and compile(TABLES, "<tables>", "exec")
