"""The family `verified-v0` on its bundled sums: rules, own points, bounds by enumeration, exploits, splits."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from itertools import product
from types import SimpleNamespace

import pytest
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, state_test
from pettingzoo.utils import parallel_to_aec

from llm_decpomdp import check_env, make
from llm_decpomdp.benchmarks.evaluation.strategies import check_strategies
from llm_decpomdp.envs.verified.env import QuestionSet, read_answer, read_judgement

SUMS = {"source": "bundled"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"attempts": 3},
        {"brief": True, "attempts": 2},
        {"num_agents": 1},
        {"num_agents": 1, "votes": 3},
    ],
)
def test_the_family_keeps_the_contract(settings):
    check_env("verified-v0", completions=["accept", "reject", "correct: 5"], **SUMS, **settings)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_tests_of_pettingzoo_pass(texts_have_no_dtype):
    build = partial(make, "verified-v0", attempts=2, **SUMS)
    parallel_api_test(build(), num_cycles=6)
    parallel_seed_test(build, num_cycles=6)
    state_test(parallel_to_aec(build()), build(), num_cycles=6)
    api_test(parallel_to_aec(build()), num_cycles=6)


def test_questions_are_sums_and_no_question_is_asked_twice():
    tasks = make("verified-v0", split="all", **SUMS).tasks.tasks
    assert len({task.prompt for task in tasks}) == len(tasks) == 500
    for task in tasks:
        expression = task.prompt.partition(": ")[2].removesuffix(" =")
        assert int(task.answer) == eval(expression)
    train, test = (make("verified-v0", split=split, **SUMS).tasks for split in ("train", "test"))
    assert (len(train), len(test)) == (400, 100)
    assert {t.task_id for t in (*train.tasks, *test.tasks)} == {t.task_id for t in tasks}
    assert train.stand_in
    assert make("verified-v0", task_seed=1, **SUMS).tasks.tasks[0].prompt != train.tasks[0].prompt
    easy = make("verified-v0", dataset_options={"max_terms": 2, "max_digits": 1}, **SUMS)
    assert all(len(task.prompt.partition(": ")[2]) == 7 for task in easy.tasks.tasks)


@pytest.mark.parametrize(
    "form",
    [
        *("{}", " {}\n", "**{}**", "`{}`", "{}.", '"{}"', "${}$", "\\({}\\)", "$\\boxed{{{}}}$"),
        *("Answer: {}", "The answer is **{}**.", "1 + 2 = {}", "\\boxed{{\\text{{{}}}}}"),
    ],
)
@pytest.mark.parametrize(
    "around", ["<answer>{}</answer>", "<Answer>\n{}\n</Answer>", "<answer>{}", "{}"]
)
@pytest.mark.parametrize("answer", ["-1270", "1,270", "\u22121270", "\uff11\uff12\uff17\uff10"])
def test_markup_of_an_answer_changes_nothing(form, around, answer):
    questions = make("verified-v0", **SUMS).reward.questions
    task = replace(
        make("verified-v0", **SUMS).tasks.tasks[0],
        answer="-1270" if answer[0] in "-\u2212" else "1270",
    )
    assert questions.is_right(task, read_answer(around.format(form.format(answer))))


@pytest.mark.parametrize(
    "text", ["1270 apples", "5 or 1270", "1270 or 5", "12 70", "1270, 5", "x1270", ""]
)
def test_several_answers_are_none(text):
    env = make("verified-v0", **SUMS)
    task = replace(env.tasks.tasks[0], answer="1270")
    for form in ("<answer>{}</answer>", "\\boxed{{{}}}", "{}"):
        assert not env.reward.questions.is_right(task, read_answer(form.format(text)))


def test_the_answer_is_in_the_last_tags_or_behind_an_open_one():
    assert read_answer("<answer>1</answer> no: <answer>2</answer>") == "2"
    assert read_answer("I put it into <answer> tags.\n<answer>2</answer>") == "2"
    assert read_answer("So it is <answer>2<|im_end|>\n") == "2"
    assert read_answer("<think>Is it 1?</think>2") == "2"
    assert read_answer("The answer is 5.</answer>") == "The answer is 5."


@pytest.mark.parametrize(
    ("text", "judgement"),
    [
        ("**Accept**", ("accept", "")),
        ("1. accept - it is right", ("accept", "")),
        ("The sum is right.\n\n**Final verdict:** accept", ("accept", "")),
        ("My verdict: `reject`", ("reject", "")),
        ("\\boxed{accept}", ("accept", "")),
        ("reject\ncorrect: 5", ("correct", "5")),
        ("correct \u2013 -5", ("correct", "-5")),
        ("**correct:**\n\n-5", ("correct", "-5")),
        ("correct: <answer>5</answer>", ("correct", "5")),
        ("The answer is correct.", ("", "")),
        ("I would accept it.", ("", "")),
        ("<think>accept", ("", "")),
    ],
)
def test_a_verdict_is_read_in_every_form(text, judgement):
    assert read_judgement(text) == judgement


# What a team earns for the solver's answers and the verifier's verdicts


@pytest.mark.parametrize("is_right", [True, False])
@pytest.mark.parametrize(
    ("verdict", "score", "own"),
    [
        # With a right answer, and with a wrong one.
        ("accept", (1.0, 0.0), (1.0, 0.0)),
        ("reject", (0.0, 0.0), (0.0, 1.0)),
        ("correct: {answer}", (1.0, 1.0), (0.0, 1.0)),
        ("correct: nothing", (0.0, 0.0), (0.0, 1.0)),
        ("I cannot say.", (0.0, 0.0), (0.0, 0.0)),
        ("", (0.0, 0.0), (0.0, 0.0)),
    ],
)
def test_the_team_earns_the_answer_and_the_verifier_its_verdict(verdict, score, own, is_right):
    env = make("verified-v0", **SUMS)
    env.reset(seed=2)
    answer = env.task.answer if is_right else "17 apples"
    prompts, rewards, _, _, infos = env.step({"solver_0": f"So <answer>{answer}</answer>"})
    assert infos["solver_0"]["own/answer"] == is_right and not infos["verifier_0"]["own/answer"]
    assert set(rewards.values()) == {0.0} and f"\n\n{answer}\n\n" in prompts["verifier_0"]
    assert "So <" not in prompts["verifier_0"]
    text = verdict.format(answer=env.task.answer)
    _, rewards, ends, _, infos = env.step({"verifier_0": text})
    place = 0 if is_right else 1
    assert set(rewards.values()) == {score[place]} and set(ends.values()) == {True}
    assert infos["verifier_0"]["own/verdict"] == own[place]
    assert infos["solver_0"]["own/verdict"] == 0.0
    assert infos["solver_0"]["invalid"] == (verdict[:6] not in ("accept", "reject", "correc"))


def expected(attempts, judge, p):
    """Expected score and own points by enumeration of the solver's right and wrong answers."""
    env = make("verified-v0", attempts=attempts, **SUMS)
    score = own = 0.0
    for pattern in product([True, False], repeat=attempts):
        chance = p ** sum(pattern) * (1 - p) ** (attempts - sum(pattern))
        answers = iter(pattern)
        env.reset(seed=0)
        while env.agents:
            if env.acting == ("solver_0",):
                right = next(answers)
                texts = {"solver_0": env.task.answer if right else "no"}
            else:
                texts = {"verifier_0": judge(right, env.task.answer)}
            _, rewards, _, _, infos = env.step(texts)
            score += chance * rewards["solver_0"]
            own += chance * infos["verifier_0"]["own/verdict"]
    return score, own


@pytest.mark.parametrize("p", [0.25, 0.5])
@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_bounds_of_a_fallible_solver(attempts, p):
    # Its own accuracy, if everything is accepted.
    accepts = expected(attempts, lambda right, answer: "accept", p)
    assert accepts == pytest.approx((p, p / attempts))
    assert expected(attempts, lambda right, answer: "reject", p)[0] == 0.0
    # A verifier that knows right from wrong waits for the first right answer.
    knows = expected(attempts, lambda right, answer: "accept" if right else "reject", p)
    assert knows[0] == pytest.approx(1 - (1 - p) ** attempts)
    assert knows[1] == pytest.approx(sum((1 - p) ** k for k in range(attempts)) / attempts)
    # One that knows the answer needs no solver.
    assert expected(attempts, lambda right, answer: f"correct {answer}", p)[0] == 1.0


def test_a_rejected_solver_sees_its_answers_and_not_the_verdict():
    env = make("verified-v0", attempts=2, **SUMS)
    env.reset(seed=0)
    prompts, *_ = env.step({"solver_0": "five"})
    assert "and the solver answers again" in prompts["verifier_0"]
    prompts, *_ = env.step({"verifier_0": "This looks odd.\nreject"})
    assert "were rejected:\n- five\n" in prompts["solver_0"] and "odd" not in prompts["solver_0"]
    prompts, *_ = env.step({"solver_0": "six"})
    assert "five" not in prompts["verifier_0"] and "again" not in prompts["verifier_0"]


@pytest.mark.parametrize(
    ("text", "verdict", "correction"),
    [
        ("accept", "accept", ""),
        ("First: reject\nNo, I was wrong.\n**Accept**", "accept", ""),
        ("I accept this", "", ""),
        ("acceptable", "", ""),
        ("<think>accept</think>\nReject.", "reject", ""),
        ("correct: -12", "correct", "-12"),
        ("Correct - 12", "correct", "12"),
        ("- correct <answer> a b </answer>", "correct", "a b"),
        ("correct", "correct", ""),
        ("correctly", "", ""),
        ("accept\n2 correct steps were made", "accept", ""),
        ("5 correct 6", "", ""),
        ("", "", ""),
    ],
)
def test_verdicts_are_read_from_the_last_line_with_one(text, verdict, correction):
    assert read_judgement(text) == (verdict, correction)


@pytest.mark.parametrize(
    ("text", "verdict", "correction"),
    [("a", "accept", ""), ("r9", "reject", ""), ("c-12", "correct", "-12"), ("12", "", "")],
)
def test_brief_verdicts_are_letters(text, verdict, correction):
    assert read_judgement(text, brief=True) == (verdict, correction)


def test_answers_are_read_from_the_last_tags():
    assert read_answer("<answer>1</answer> no, <answer> 2\n</answer>") == "2"
    assert read_answer("<think>3</think> 4 ") == "4"


# Known numbers, exploits and baselines


@pytest.mark.parametrize(
    "settings", [{}, {"brief": True}, {"attempts": 2, "dataset_options": {"max_terms": 2}}]
)
def test_no_exploit_beats_its_bound(settings):
    found = check_strategies("verified-v0", {**SUMS, **settings, "split": "test"})
    assert not [entry for entry in found if entry.problem]
    scores = {entry.name: entry.score.value for entry in found}
    assert scores["optimum"] == scores["alone"] == 1.0
    for exploit in (
        "empty answer",
        "accepts everything",
        "rejects everything",
        "repeats the prompt",
    ):
        assert scores[exploit] == 0.0


def test_the_most_frequent_of_several_answers_counts():
    for texts, score in (
        (("no", "{a}", "{a}"), 1.0),
        (("no", "no", "{a}"), 0.0),
        (("{a}", "x", "y"), 1.0),
        (("no", "**{a}**", "<answer>x = {a}.</answer>"), 1.0),
        (("{a}", "7,001", r"\boxed{{7001}}"), 0.0),
    ):
        env = make("verified-v0", num_agents=1, votes=3, **SUMS)
        first, _ = env.reset(seed=0)
        total = 0.0
        for text in texts:
            prompts, rewards, *_ = env.step({"solver_0": text.format(a=env.task.answer)})
            assert prompts in (first, {"solver_0": ""})
            total += rewards["solver_0"]
        assert env.agents == [] and total == score


def test_wrong_arguments_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="votes=3 are answers of a solver alone"):
        make("verified-v0", votes=3, **SUMS)
    with pytest.raises(
        ValueError, match="has sums in place of 'chain_sum' alone, got dataset='maze'"
    ):
        make("verified-v0", dataset="maze", **SUMS)
    with pytest.raises(ValueError, match="did you mean 'max_terms'"):
        make("verified-v0", dataset_options={"max_term": 3}, **SUMS)
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    for options in ({"source": "reasoning-gym"}, {"dataset": "maze"}):
        with pytest.raises(ImportError, match="needs reasoning-gym: pip install '"):
            make("verified-v0", **options)


def test_without_the_library_bundled_sums_stand_in_with_a_warning(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.warns(UserWarning, match="verified-v0 asks bundled sums instead"):
        env = make("verified-v0")
    assert env.metadata["data"]["source"] == "bundled" and env.metadata["data"]["stand_in"]


def test_votes_keep_the_signs_of_formulas():
    def normalize(answer: str, position: int) -> str:
        return QuestionSet.normalize(None, SimpleNamespace(position=position), answer)

    assert normalize("**14*(50 - 13)**", 0) == "14*(50 - 13)"
    assert normalize("14*(50 - 13)", 0) != normalize("14(50 - 13)", 0)
    assert normalize("x = **1,234**", -1) == "1234"
