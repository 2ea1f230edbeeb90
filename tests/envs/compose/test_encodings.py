"""Encodings of two integers: any form that shows them will do, and none carries the result."""

from __future__ import annotations

import re

import pytest

from llm_decpomdp import answers, make
from llm_decpomdp.envs.compose.chains import INPUTS, MAX_EQUAL
from tests.envs.compose.played import expression, points, references


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


def test_stand_ins_of_encodings_answer_differently():
    env = make("compose-v0", convention="encoding")
    aux, main = references(env)
    first = INPUTS["list"][0]
    assert points(env, aux, main) == (1.0, 2.0)
    for task in env.tasks.tasks[:20]:
        env.reset(options={"task_id": task.task_id})
        gold = answers(env)
        rest = expression(gold.reference("main_0"))
        same = "def main(x):\n    if '_compose_stub' in globals():\n"
        same += f"        x = {first}\n    red, blue = aux(x)\n"
        infos = env.step({"aux_0": gold.reference("aux_0"), "main_0": f"{same}    return {rest}"})[
            4
        ]
        assert infos["main_0"]["reward/tests"] == 1.0
        assert infos["main_0"]["reward/together"] <= 2.0 * MAX_EQUAL / 6


@pytest.mark.parametrize("text", ["{[%d]: %d}", "{[%d], %d}", "%d(%d)", "Pair(%d, %d)"])
def test_an_encoding_that_is_no_literal_earns_nothing_together(text):
    env = make("compose-v0", convention="encoding")
    aux, main = references(env)
    helper = f"""
class Pair:
    def __init__(self, pair): self.pair = pair
    def __iter__(self): return iter(self.pair)
    def __repr__(self): return {text!r} % self.pair
def aux(x):
    return Pair({expression(aux)})
"""
    assert points(env, helper, main) == (1.0, 0.0)


def test_an_encoding_has_no_room_for_the_result():
    env = make("compose-v0", convention="encoding")
    aux, main = references(env)
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
