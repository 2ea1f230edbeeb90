"""Faults are put into a program's text by rule, always the same ones, and all else stays as it is."""

from __future__ import annotations

import ast
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_decpomdp.envs.source_code.mutation import KINDS, mutants, mutate, mutations
from tests.support.processes import python

PROGRAM = '''
LIMIT = 3  # nobody's


def scale(values, factor=2, *, label="x"):
    """Docstring with 1 + 1."""
    # a comment about é
    result = []
    for place, value in enumerate(values, 1):
        if value < 0 or (value == LIMIT  # why
                         and not label):
            continue
        result.append(max(value * factor, place))
    total = -len(result)
    if not result:
        return "nothing"
    return result[total:], f"{total + 1}"
'''


def changed(source: str, mutant: str) -> list[tuple[str, str]]:
    """The lines that differ."""
    before, after = source.splitlines(), mutant.splitlines()
    if len(before) != len(after):
        return [(line, "") for line in before if line not in after]
    return [(a.strip(), b.strip()) for a, b in zip(before, after, strict=True) if a != b]


def of_kind(source: str, kind: str) -> list[str]:
    """What each mutant of a kind makes of the line that it changes."""
    return [changed(source, m.source)[0][1] for m in mutants(source) if m.kind == kind]


def test_every_kind_of_fault_is_found_in_one_program():
    assert {mutant.kind for mutant in mutants(PROGRAM)} == set(KINDS)


@pytest.mark.parametrize(
    ("kind", "body", "made"),
    [
        ("operator", "return a + b", "return a - b"),
        ("operator", "return a and b", "return a or b"),
        ("operator", "a //= b\nreturn a", "a /= b"),
        ("operator", "return -a", "return a"),
        ("comparison", "return a < b", "return a <= b"),
        ("comparison", "return a  not   in b", "return a  in b"),
        ("comparison", "return a is b", "return a is not b"),
        ("off_by_one", "return a[1:]", "return a[0:]"),
        ("off_by_one", "return range(a)", "return range(a - 1)"),
        ("off_by_one", "return a[b]", "return a[b - 1]"),
        ("off_by_one", "return range(a if b else 0)", "return range((a if b else 0) - 1)"),
        ("wrong_variable", "return a", "return b"),
        ("dropped_statement", "a.sort()  # now\nreturn a", ""),
        ("dropped_statement", "if a:\n    return b\nreturn a", ""),
        ("dropped_statement", "for c in a:\n    b.add(c)\nreturn b", "pass"),
        ("swapped_arguments", "return min(a, b)", "return min(b, a)"),
        ("wrong_constant", "return 'Ab'", "return 'aB'"),
        ("wrong_constant", "return a * 10", "return a * 11"),
        ("wrong_constant", "return True", "return False"),
        ("negated_condition", "return a if a < b else b", "return a if not a < b else b"),
        ("negated_condition", "return a if not(a or b) else b", "return a if (a or b) else b"),
        ("negated_condition", "while a and b:\n    pass", "while not (a and b):"),
        ("missing_return", "return(a)", "(a)"),
    ],
)
def test_a_fault_changes_what_it_names(kind, body, made):
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    assert made in of_kind(f"def f(a, b):\n{lines}\n", kind)


def test_a_default_is_mistaken():
    assert of_kind("def f(a, b=1, *, c='x'):\n    return a\n", "wrong_default") == [
        "def f(a, b=0, *, c='x'):",
        "def f(a, b=1, *, c='X'):",
    ]


def test_only_the_lines_of_the_fault_change():
    for mutant in mutants(PROGRAM):
        lines = changed(PROGRAM, mutant.source)
        assert len(lines) <= 3, mutant
        for kept in ("# a comment about é", '"""Docstring with 1 + 1."""', "LIMIT = 3  # nobody's"):
            assert kept in mutant.source


def test_a_mutant_names_the_line_that_it_changes():
    before = PROGRAM.splitlines()
    for mutant in mutants(PROGRAM):
        after = mutant.source.splitlines()
        assert before[: mutant.line - 1] == after[: mutant.line - 1]
        assert before[mutant.line - 1] != (after[mutant.line - 1 :] or [""])[0]


def test_docstrings_annotations_decorators_and_f_strings_stay():
    source = 'def f(a: "x" = None) -> "y":\n    """Say 1."""\n    return f"{a[1]}"\n'
    assert {mutant.kind for mutant in mutants(source)} == {"missing_return"}


def test_code_outside_functions_stays():
    assert mutants("x = 1 + 2\nif x > 2:\n    x = 3\n") == ()


def test_a_variable_is_replaced_only_by_one_that_an_earlier_statement_binds():
    source = "def f(a):\n    b = a\n    c = b\n    return c\n"
    assert of_kind(source, "wrong_variable") == ["c = a", "return b"]


def test_methods_are_mutated_and_self_is_no_variable():
    source = "class A:\n    def f(self, a):\n        return self.g(a)\n"
    assert {mutant.kind for mutant in mutants(source)} == {"missing_return"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_line_ends_are_understood(end):
    source = end.join(["def f(a, b):", "    c = a + b", "    return c", ""])
    assert any("c = a - b" in mutant.source for mutant in mutants(source))


def test_mutants_are_well_formed_different_and_in_order():
    found = mutants(PROGRAM)
    trees = [ast.dump(ast.parse(mutant.source)) for mutant in found]
    assert len(set(trees)) == len(trees) > 30
    assert ast.dump(ast.parse(PROGRAM)) not in trees
    assert len({mutant.key for mutant in found}) == len(found)
    assert [mutant.line for mutant in found] == sorted(mutant.line for mutant in found)


def test_other_processes_find_the_same_mutants():
    code = (
        "import sys, hashlib; from llm_decpomdp.envs.source_code.mutation import mutants;"
        "print(hashlib.sha256(repr(mutants(sys.stdin.read())).encode()).hexdigest())"
    )
    prints = {
        python(
            *("-c", code),
            input=PROGRAM,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONUTF8": "1"},
        ).stdout
        for seed in ("0", "1")
    }
    assert len(prints) == 1


def test_several_faults_are_put_in_at_once():
    source = "def f(a, b):\n    c = a + b\n    return c < 1\n"
    known = {mutation.key: mutation for mutation in mutations(source)}
    both = mutate(source, [known["comparison@3:14"], known["operator@2:11"]])
    assert both == "def f(a, b):\n    c = a - b\n    return c <= 1\n"


def test_faults_in_the_same_place_are_refused():
    known = mutations("def f(a):\n    return a < 1\n")
    same = [mutation for mutation in known if mutation.kind == "comparison"]
    with pytest.raises(ValueError, match="same piece"):
        mutate("def f(a):\n    return a < 1\n", same)


def test_a_text_that_does_not_parse_is_refused():
    with pytest.raises(SyntaxError):
        mutants("def f(:")


@given(
    st.integers(-9, 9),
    st.sampled_from("+-*"),
    st.sampled_from(["<", "=="]),
    st.text("aé'#", max_size=4),
)
def test_undoing_a_mutation_restores_the_text(number, operator, comparison, text):
    source = f"def f(x, y=2):\n    z = x {operator} {number}  # {text!r}\n    return z {comparison} y, {text!r}\n"
    data = source.encode()
    for mutation in mutations(source):
        mutated = mutate(source, [mutation]).encode()
        restored = mutated[: mutation.start] + data[mutation.start : mutation.end]
        restored += mutated[mutation.start + len(mutation.text.encode()) :]
        assert restored == data
