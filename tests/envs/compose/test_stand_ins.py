"""Stand-ins of helpers: they tell a `main` that knows the whole family neither its own steps nor anyone else's."""

from __future__ import annotations

import pytest

from llm_decpomdp import answers, make
from llm_decpomdp.envs.compose.chains import INPUTS, PAIR, pair_steps, steps, trace
from llm_decpomdp.envs.compose.separate_runs import stub_values
from tests.envs.compose.played import expression, is_played, points, references


@pytest.fixture(scope="module")
def pairs():
    return make("compose-v0", types="lists")


@pytest.mark.parametrize("place", [0, 1])
def test_stand_ins_tell_nobodys_steps(pairs, place):
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
            earned.append(pairs.step(acts)[4]["main_0"])
        assert all(points["reward/tests"] == 1.0 for points in earned), name
        assert sum(points["reward/together"] for points in earned) < 1.0, name
        assert all(points["reward/together"] < 2.0 for points in earned), name


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


def test_every_step_takes_every_value_of_a_stand_in():
    for step in (*steps(), *pair_steps()):
        values = stub_values(step.source)
        assert len(values) == (30 if step.source == PAIR else 64)
        assert all(len(trace([step], value)) == 2 for value in values)
