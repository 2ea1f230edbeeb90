"""Checkers of reasoning-gym evaluate no answer that is code, too large a number, or NaN."""

from __future__ import annotations

import pytest

from llm_decpomdp.utils.reasoning_gym_scores import evaluates, is_safe, score_answer

FORMULAS = [
    "(3 + 4) * 2 - 10/5",
    "x**4*sin(x)/2 + C",
    "-5*X**9 - 2*X**6/3 + C1",
    "exp(x) + C_1",
    "0.5*x**2*exp(2*x) + C",
    "x**(-3/2) + log(cos(x))",
    "[[1, 2], [3, 4]]",
    "['A', 'B']",
    "1 2 3 4",
    "_ Q _ _\nQ _ _ _",
    "DACEDDCDCEBEBCBAE",
    "x**2 +",
    "no answer",
]

CODE = {
    "call": "__import__('os').system('x')",
    "call of a builtin function": "open('x')",
    "call before blanks": "print (1)",
    "factorial of a call": "__import__('os').system('x')!",
    "call in a list": "[open('x')]",
    "attribute": "().__class__",
    "comprehension": "[x for x in y]",
    "lambda": "lambda: 0",
    "condition": "x if y else z",
    "assignment": "(a := 1)",
    "f-string": "f'{x}'",
    "wide text": "'%999999999d' % 1",
    "long list": "[0]*10**10",
    "long text": "'a'*10**10",
    "power of a power": "9**9**9",
    "powers of powers": "((9**99)**99)**99",
    "large exponent": "2**100",
    "product as exponent": "9**(99*99)",
    "function as exponent": "9**exp(99)",
    "functions of functions": "exp(exp(exp(x)))",
    "factorial": "99999999!",
    "long number": "1" * 30,
    "many signs": "-" * 300 + "1",
    "long formula": "1+" * 1000 + "1",
}


class Evaluating:
    def score_answer(self, answer, entry):
        return float(eval(answer) == eval(entry["answer"]))


class Comparing:
    def score_answer(self, answer, entry):
        return float(answer == entry["answer"]) or 0.1


@pytest.mark.parametrize("answer", FORMULAS)
def test_formulas_lists_and_texts_that_are_no_code_are_safe(answer):
    assert is_safe(answer)


@pytest.mark.parametrize("answer", CODE.values(), ids=CODE)
def test_code_and_large_numbers_are_not_evaluated(answer):
    assert not is_safe(answer)
    assert score_answer(Evaluating(), answer, {"answer": "1"}) == 0.0


def test_only_checkers_that_evaluate_answers_need_formulas():
    assert [evaluates(kind) for kind in (Evaluating, Comparing, int)] == [True, False, True]
    assert score_answer(Evaluating(), "1 + 1", {"answer": "2"}) == 1.0
    assert score_answer(Evaluating(), "max(1, 2)", {"answer": "2"}) == 0.0
    assert score_answer(Evaluating(), "max(1, 2)", {"answer": "max(1, 2)"}) == 1.0
    assert score_answer(Comparing(), "open (the door)", {"answer": "2"}) == 0.1


class Inherited(Evaluating):
    pass


class Composite:
    def __init__(self):
        self.datasets = {"code": Evaluating(), "text": Comparing()}

    def score_answer(self, answer, entry):
        member = self.datasets[entry["metadata"]["source_dataset"]]
        return member.score_answer(answer, entry)


def test_inherited_checkers_and_those_of_members_evaluate_no_code():
    assert score_answer(Inherited(), "max(1, 2)", {"answer": "2"}) == 0.0
    for name, score in {"code": 0.0, "text": 0.1}.items():
        entry = {"answer": "2", "metadata": {"source_dataset": name}}
        assert score_answer(Composite(), "max(1, 2)", entry) == score
    assert score_answer(Composite(), "max(1, 2)", {"answer": "2"}) == 0.0


@pytest.mark.parametrize("answer", ["1e99999999", "it is 0.1E-9999 or so", "nan", "1+NaN*i"])
def test_numbers_that_take_gigabytes_or_are_within_every_tolerance_are_no_answers(answer):
    assert score_answer(Comparing(), answer, {"answer": "2"}) == 0.0
    assert score_answer(Comparing(), answer, {"answer": answer}) == 1.0
