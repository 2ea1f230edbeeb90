"""Separate runs: no agent gets `together` for a teammate's work, and honest pairs lose nothing."""

from __future__ import annotations

import inspect
import re

import pytest

from llm_decpomdp import answers, make
from llm_decpomdp.envs.compose.chains import INPUTS, MAX_EQUAL, PAIR, pair_steps, steps, trace
from llm_decpomdp.envs.compose.roles import EntryRole
from llm_decpomdp.envs.compose.separate_runs import (
    _compose_print_results,
    _compose_stub,
    stub_values,
)


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
    return play(env, {"aux_0": aux, "main_0": main})


def play(env, actions):
    """The points for `tests` and `together`, in a branch."""
    infos = env.fork().step(actions)[4]["main_0"]
    return infos["reward/tests"], infos["reward/together"]


def expression(code):
    return code.split("return ")[1].strip()


def is_played(text):
    """Return a `main` that leaves everything to the helper, and finds its own steps with the help of stubs."""
    return f'def main(x):\n    if "_compose_stub" not in globals():\n        return aux(x, True)\n{text}'


@pytest.fixture(scope="module")
def env():
    return make("compose-v0", types="lists", length=4)  # few tasks, soon drawn


@pytest.fixture
def three():
    """A team of three in a task, and its references."""
    return team_of_three()


def team_of_three(**options):
    env = make("compose-v0", num_agents=3, length=4, **options)
    env.reset(options={"task_id": "compose/0"})
    return env, dict(answers(env).references)


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


def test_a_helper_among_several_that_is_not_needed_earns_no_share(three):
    env, gold = three
    before, _, rest = gold["main_0"].partition("aux_1(")
    lazy = f"def own(x):\n    return {expression(gold['aux_1'])}\n{before}own({rest}"
    assert play(env, gold)[1] == 2.0 and play(env, {**gold, "main_0": lazy})[1] == 1.0


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
    env, gold = team_of_three(convention="name")
    name, names = env.roles[1].drawn_name(env.task), env.roles[1].names
    way = f"def f(x):\n    return [globals()[n] for n in {names} if n in globals()][0](x)\n"
    tolerant = {**gold, "main_0": way + gold["main_0"].replace(f"{name}(", "f(")}
    assert play(env, gold)[1] == 2.0
    tests, together = play(env, tolerant)
    assert tests == 1.0 and together < 1.0


def test_a_helper_that_brings_its_team_mates_work_along_earns_nothing_for_it(env):
    for place in (0, 1):
        aux, main = references(env, place)
        rest, inner = expression(main), "aux(x)" if place else expression(main)[4:-1]
        if place:
            extra = f"def rest(x):\n    return {rest.replace('aux(x)', 'x')}\n"
            entry = "rest(aux(x))"
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


def test_a_helper_that_has_its_work_done_by_another_helper_earns_nothing_together(three):
    env, gold = three
    work = f"def work(x):\n    return {expression(gold['aux_1'])}\n"
    lent = {"aux_0": work + gold["aux_0"], "aux_1": "def aux_1(x):\n    return work(x)\n"}
    assert play(env, {**gold, **lent}) == (1.0, 0.0)


def test_a_helper_that_is_called_beside_stubs_alone_earns_nothing(three):
    env, gold = three
    other = f"aux_1(x) if '_compose_stub' in globals() else {expression(gold['aux_1'])}"
    entry = f"def other(x):\n    return {other}\n{gold['main_0'].replace('aux_1(', 'other(')}"
    tests, together = play(env, {**gold, "main_0": entry})
    assert tests == 1.0 and together < 0.5


def test_a_helper_that_is_missing_costs_its_team_mate_nothing(three):
    env, gold = three
    own = f"    except NameError:\n        return {expression(gold['aux_1'])}\n"
    other = f"def other(x):\n    try:\n        return aux_1(x)\n{own}"
    entry = f"{other}{gold['main_0'].replace('aux_1(', 'other(')}"
    assert play(env, {**gold, "main_0": entry, "aux_1": ""}) == (1.0, 1.0)


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


def test_programs_of_separate_runs_need_nothing_of_this_package():
    for function in (_compose_print_results, _compose_stub):
        source = inspect.getsource(function)
        assert "llm_decpomdp" not in source and compile(source, "<code>", "exec")


# Stand-ins of helpers: they tell a `main` that knows the whole family neither its own steps nor anyone else's


@pytest.fixture(scope="module")
def pairs():
    return make("compose-v0", types="lists")


@pytest.mark.parametrize("place", [0, 1])
def test_stubs_tell_nobodys_steps(pairs, place):
    """A `main` that knows the family, all steps and all arguments of tests, and looks into a stand-in."""
    inputs = INPUTS["list"]
    menu = [s.expression("x") for s in steps() if s.source == s.target == "list"]
    known = f"    inputs = {inputs!r}\n    steps = [{', '.join(f'lambda x: {s}' for s in menu)}]\n"
    searches = {
        "which calls are answered": """
    def fits(step):
        try:
            return [aux(step(value)) for value in inputs]
        except LookupError:
            return False
    fitting = [step for step in steps if fits(step)]
    return aux(fitting[len(fitting) // 2](x))
""",
        "which answers differ": """
    def differing(step):
        return len({repr(aux(step(value))) for value in inputs})
    return aux(max(steps, key=differing)(x))
""",
        "which results differ": """
    def differing(step):
        return len({repr(step(aux(value))) for value in inputs})
    return max(steps, key=differing)(aux(x))
""",
        "what it holds": """
    cells = [cell.cell_contents for cell in aux.__closure__]
    (results,) = [cell for cell in cells if type(cell) is list]
    return results[inputs.index(x)]
""",
    }
    for name, search in searches.items():
        earned = []
        for task in [task for task in pairs.tasks.tasks if task.place % 2 == place][:4]:
            pairs.reset(options={"task_id": task.task_id})
            gold = answers(pairs)
            step, own = (expression(gold.reference(agent)) for agent in ("aux_0", "main_0"))
            inner, rest = ("x", own.replace("aux(x)", "y")) if place else (own[4:-1], "y")
            helper = f"def aux(x, whole=False):\n    x = ({inner}) if whole else x\n"
            helper += f"    y = {step}\n    return {rest} if whole else y"
            acts = {"aux_0": helper, "main_0": is_played(known + search)}
            earned.append(play(pairs, acts))
        tests, together = zip(*earned, strict=True)
        assert set(tests) == {1.0} and sum(together) < 1.0, name


def test_a_helper_cannot_hand_over_its_team_mates_steps(pairs):
    aux, main = references(pairs)
    code = expression(main).replace("aux(x)", "y")
    name = "p_" + code.encode().hex()
    work = f"y = {expression(aux)}\n    return {code} if whole else y"
    first = f"def aux({name}, whole=None):\n    x = {name}\n    {work}"
    second = f"def aux(x, {name}=None):\n    whole = {name}\n    {work}"
    read = """
    import inspect
    found = str([c.cell_contents for c in aux.__closure__]) + str(inspect.signature(aux))
    code = found.partition("p_")[2].partition("'")[0]
    return eval(bytes.fromhex(code).decode(), {"y": aux(x)})
"""
    for helper in (first, second):
        assert points(pairs, helper, is_played(read)) == (1.0, 0.0)
    # The name of a parameter says which of all steps `main` has.
    menu = [s.expression("y") for s in steps() if s.source == s.target == "list"]
    number = menu.index(code)
    helper = f"def aux(p{number}):\n    x = p{number}\n    return {expression(aux)}"
    entry = f"""
STEPS = {{{", ".join(f"'p{n}': lambda y: {code}" for n, code in enumerate(menu))}}}
def main(x):
    for name, step in STEPS.items():
        try:
            return step(aux(**{{name: x}}))
        except (TypeError, LookupError):
            pass
"""
    tests, together = points(pairs, helper, entry)
    assert tests == 1.0 and together < 0.5


def test_every_step_takes_every_value_of_a_stub():
    for step in (*steps(), *pair_steps()):
        values = stub_values(step.source)
        assert len(values) == (30 if step.source == PAIR else 64)
        assert all(len(trace([step], value)) == 2 for value in values)


# Encodings of two integers: any form that shows them will do, and none carries the result


@pytest.fixture
def encoding():
    env = make("compose-v0", convention="encoding")
    return env, *references(env)


def test_any_encoding_that_shows_both_numbers_will_do_and_the_result_is_none(encoding):
    env, aux, main = encoding
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


def test_stubs_of_encodings_answer_differently(encoding):
    env, aux, main = encoding
    assert points(env, aux, main) == (1.0, 2.0)
    for task in env.tasks.tasks[:20]:
        env.reset(options={"task_id": task.task_id})
        gold = answers(env)
        same = "def main(x):\n    if '_compose_stub' in globals():\n"
        same += f"        x = {INPUTS['list'][0]}\n    red, blue = aux(x)\n"
        same += f"    return {expression(gold.reference('main_0'))}"
        tests, together = play(env, {"aux_0": gold.reference("aux_0"), "main_0": same})
        assert tests == 1.0 and together <= 2.0 * MAX_EQUAL / 6


@pytest.mark.parametrize("text", ["{[%d]: %d}", "{[%d], %d}", "%d(%d)", "Pair(%d, %d)"])
def test_an_encoding_that_is_no_literal_earns_nothing_together(encoding, text):
    env, aux, main = encoding
    helper = f"""
class Pair:
    def __init__(self, pair): self.pair = pair
    def __iter__(self): return iter(self.pair)
    def __repr__(self): return {text!r} % self.pair
def aux(x):
    return Pair({expression(aux)})
"""
    assert points(env, helper, main) == (1.0, 0.0)


def test_an_encoding_has_no_room_for_the_result(encoding):
    env, aux, main = encoding
    pair, rest = expression(aux), expression(main)
    zeros = f"def aux(x):\n    r, b = {pair}\n    return '0' * (b % 9) + '%d %d' % (r, b)"
    turned = f"def aux(x):\n    r, b = {pair}\n    return [r, b] if b % 2 else [b, r]"
    thai = f"def aux(x):\n    r, b = {pair}\n    return '%d %d %s' % (r, b, chr(0xE50 + b % 9))"
    plain = f"def aux(x):\n    return '%d %d' % {pair}"
    words = "def main(x):\n    red, blue = map(int, aux(x).split()[:2])\n    return " + rest
    assert points(env, plain, words) == (1.0, 2.0)
    assert points(env, zeros, words)[1] < 2.0
    assert points(env, thai, words) == (1.0, 0.0)
    code = re.sub(r"\d+", lambda number: f"len({'x' * int(number[0])!r})", rest)
    carried = f"def aux(x):\n    r, b = {pair}\n    return [r, b, {' ' * 40 + code!r}]"
    reader = "def main(x):\n    red, blue, code = aux(x)\n    return eval(code.strip())"
    assert points(env, carried, reader) == (1.0, 0.0)
    marks = f"""
def aux(x):
    red, blue = {pair}
    cells = ["#"] * 30
    cells[0], cells[2 + blue % 9] = str(red), str(blue)
    return "".join(cells)
"""
    found = "    red, blue = map(int, aux(x).replace('#', ' ').split())\n"
    assert points(env, marks, f"def main(x):\n{found}    return {rest}")[1] < 2.0
    both = f"def main(x):\n    red, blue = aux(x)\n    if red != ({pair})[0]:\n        red, blue = blue, red\n"
    assert points(env, turned, both + f"    return {rest}")[1] < 2.0
