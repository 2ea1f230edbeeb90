"""The family `verified-v0`: its questions and options, and its rules as a game of a solver and a verifier."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from statistics import mode
from typing import Any

import numpy as np

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.worlds.commands import plain_answers
from llm_decpomdp.envs.worlds.game import (
    Completions,
    Draw,
    Game,
    Prompts,
    TaskOptions,
    Turns,
    game_env,
    generated_tasks,
    score_verdict,
    task_fields,
)
from llm_decpomdp.envs.worlds.strategies import OPTIMUM, Act, Strategy, each, exploits, only
from llm_decpomdp.interfaces import Component, Task, TaskSet, Verdict
from llm_decpomdp.options import as_arguments, option
from llm_decpomdp.utils.chat_text import find_answer
from llm_decpomdp.utils.extras import install_command
from llm_decpomdp.utils.reasoning_gym_scores import score_answer
from llm_decpomdp.utils.text import warn
from llm_decpomdp.validation import unknown

# Questions: those of reasoning-gym, or sums of our own where it is not installed


LIBRARY = "reasoning-gym"

POOL = 100_000
"""Questions of a data set of reasoning-gym, of which the tasks are drawn."""

OWN_DATA_SET = "chain_sum"
"""Data set of reasoning-gym that our own sums stand in for."""

SUM_OPTIONS = {"min_terms": 2, "max_terms": 6, "min_digits": 1, "max_digits": 4}
"""Options of our sums with their defaults, which are those of reasoning-gym."""


@dataclass(frozen=True)
class QuestionTask(Task):
    """A question; its text is the prompt."""

    answer: str = field(kw_only=True)
    position: int = field(kw_only=True)
    """Position in the data set of reasoning-gym; -1 for our own sums."""


@dataclass(frozen=True)
class QuestionSet:
    """A data set of questions of reasoning-gym or our own, and its checker."""

    dataset: str
    options: str
    """Fields of its configuration, as JSON."""
    source: str

    def tasks(self, options: TaskOptions) -> TaskSet:
        """Return the tasks of a split. No question stands twice in the data, so none is in both splits."""
        is_own = self.source == "bundled"
        draw: Draw = draw_sum if is_own else draw_question
        kind = (self.options,) if is_own else (self.dataset, self.options)
        name = f"verified-{self.dataset}"
        try:
            tasks = generated_tasks(name, options, draw, question_task, *kind)
        except ValueError as error:
            raise ValueError(
                f"dataset={self.dataset!r} has no tasks in split={options.split!r}: either none of its questions "
                f"has an answer that its checker accepts, or the slice is empty ({error})"
            ) from None
        return replace(tasks, source=self.source, stand_in=self.source == "bundled")

    def is_right(self, task: QuestionTask, answer: str) -> bool:
        """Check an answer, as it is or without markup. Points for parts of it do not count."""
        return any(self._is_accepted(task, text) for text in (answer, *plain_answers(answer)))

    def normalize(self, task: QuestionTask, answer: str) -> str:
        """Return an answer without markup, by which votes are compared."""
        plain = plain_answers(answer)
        # The last reading drops signs that other data sets need, such as * in formulas.
        return remove_commas(plain[-1]) if task.position < 0 else plain[0]

    def _is_accepted(self, task: QuestionTask, answer: str) -> bool:
        if task.position < 0:
            return remove_commas(answer.strip()) == task.answer
        data = _data_set(self.dataset, self.options)
        return _accepts(data, answer, data[task.position])


def remove_commas(number: str) -> str:
    """Return a number without commas between thousands."""
    return re.sub(r"(?<=[0-9]),(?=[0-9]{3})", "", number)


def find_questions(dataset: str, options: Mapping[str, Any], source: str) -> QuestionSet:
    """Return the questions of a data set.

    Args:
        dataset: Name of a data set of reasoning-gym.
        options: Fields of its configuration.
        source: `reasoning-gym`, `bundled`, or `auto`: reasoning-gym where it is installed.

    Raises:
        ImportError: If reasoning-gym is needed and not installed.
        KeyError: If there is no such data set.
        ValueError: If its configuration has no such option, our sums lack it, or its checker accepts any text.
    """
    data_sets = _data_sets() if source != "bundled" else None
    questions = QuestionSet(dataset, json.dumps(dict(options), sort_keys=True), source)
    if source == "bundled" or (source == "auto" and data_sets is None and dataset == OWN_DATA_SET):
        if dataset != OWN_DATA_SET:
            raise ValueError(
                f"source='bundled' has sums in place of {OWN_DATA_SET!r} alone, got dataset={dataset!r}: take "
                f"source={LIBRARY!r}"
            )
        for name in options:
            if name not in SUM_OPTIONS:
                raise ValueError(unknown("option of the bundled sums", name, SUM_OPTIONS))
        if source == "auto":
            warn(
                f"{LIBRARY} is not installed, so verified-v0 asks bundled sums instead: "
                f"{install_command(LIBRARY)}"
            )
        return replace(questions, source="bundled")
    if data_sets is None:
        raise ImportError(f"dataset={dataset!r} needs {LIBRARY}: {install_command(LIBRARY)}")
    if dataset not in data_sets:
        raise KeyError(unknown("data set of reasoning-gym", dataset, data_sets))
    try:
        data = _data_set(dataset, questions.options)
    except (TypeError, AssertionError, ValueError) as error:
        raise ValueError(f"dataset_options of {dataset}: {error}") from None
    if _accepts(data, "no answer", data[0]):
        raise ValueError(f"the checker of dataset={dataset!r} accepts any text: take another one")
    return replace(questions, source=LIBRARY)


def _data_sets() -> Mapping[str, Any] | None:
    """Return the data sets of reasoning-gym by their names; `None` where it is not installed."""
    try:
        from reasoning_gym.factory import DATASETS
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "reasoning_gym":
            raise
        return None
    data_sets: Mapping[str, Any] = DATASETS
    return data_sets


@lru_cache(maxsize=8)
def _data_set(dataset: str, options: str) -> Any:
    import reasoning_gym

    return reasoning_gym.create_dataset(dataset, **{"seed": 0, "size": POOL, **json.loads(options)})


def _accepts(data: Any, answer: str, entry: Mapping[str, Any]) -> bool:
    try:
        return score_answer(data, answer, entry) >= 1.0
    except Exception:  # some checkers fail on texts that are no answers
        return False


def draw_question(rng: np.random.Generator, dataset: str, options: str) -> dict[str, Any] | None:
    """Draw a question of reasoning-gym; `None` for one whose answer is no text or not accepted by its checker."""
    data = _data_set(dataset, options)
    position = int(rng.integers(len(data)))
    entry = data[position]
    answer = entry["answer"]
    if not isinstance(answer, str) or not _accepts(data, answer, entry):
        return None
    texts = dict.fromkeys(("key", "content", "question"), entry["question"])
    return {**texts, "answer": answer, "position": position}


def draw_sum(rng: np.random.Generator, options: str) -> dict[str, Any]:
    """Draw a sum or difference of integers, as `chain_sum` asks them."""
    limits = {**SUM_OPTIONS, **json.loads(options)}
    terms = int(rng.integers(limits["min_terms"], limits["max_terms"] + 1))
    digits = int(rng.integers(limits["min_digits"], limits["max_digits"] + 1))
    low = 0 if digits == 1 else 10 ** (digits - 1)
    numbers = rng.integers(low, 10**digits, size=terms)
    signs = [1, *rng.choice([1, -1], size=terms - 1)]
    text = "".join(
        f" {'+' if sign > 0 else '-'} {number}" for sign, number in zip(signs, numbers, strict=True)
    )
    expression = text.removeprefix(" + ")
    total = sum(int(sign) * int(number) for sign, number in zip(signs, numbers, strict=True))
    question = f"State the final answer to the following arithmetic problem: {expression} ="
    return {"key": question, "question": question, "answer": str(total), "position": -1}


def question_task(index: int, row: Mapping[str, Any]) -> QuestionTask:
    """Return the task of a row."""
    fields = task_fields("question", index, row["question"])
    return QuestionTask(**fields, answer=row["answer"], position=row["position"])


# Rules


SOLVER, VERIFIER = "solver_0", "verifier_0"

VERDICTS = ("accept", "reject", "correct")

READERS = {SOLVER: [VERIFIER]}

COMPONENTS = {"score": Component("1 if the answer of the team is right.")}

MAX_SHOWN = 2000
"""Largest number of characters of an answer in a prompt."""

TAG = re.compile("<(/?)answer>", re.IGNORECASE)

FORM = "Write your final answer between <answer> and </answer>."

JUDGE = """\
Is this answer right? End with a line that begins with one of these words:
accept - the answer is right
reject - it is wrong{again}
correct: followed by the right answer - it is wrong, and you know the right one"""


class VerifiedOptions(TaskOptions):
    """Options of `verified`."""

    dataset: str = "chain_sum"
    """Name of a data set of reasoning-gym."""
    dataset_options: dict[str, Any] = field(default_factory=dict)
    """Fields of its configuration, such as `{max_terms: 3}`."""
    num_agents: int = option(2, ge=1, le=2)
    """2 for `solver_0` and `verifier_0`, 1 for `solver_0` alone, whose answer counts."""
    attempts: int = option(1, ge=1)
    """Answers of the solver at most: a rejection asks for the next one. For two agents."""
    votes: int = option(1, ge=1)
    """Answers of a solver alone to the same prompt, of which the most frequent counts: self-consistency. Markup
    around an answer does not count."""
    brief: bool = False
    """Short prompts without instructions, and verdicts of one letter: `a`, `r`, or `c` and an answer."""
    source: str = option("auto", choices=("auto", LIBRARY, "bundled"))
    """`reasoning-gym`, `bundled` for sums of our own, or `auto`: reasoning-gym where it is installed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.votes > 1 and self.num_agents > 1:
            raise ValueError(
                f"votes={self.votes} are answers of a solver alone, got num_agents={self.num_agents}: take "
                "num_agents=1, or attempts in place of votes"
            )


def read_answer(text: str) -> str:
    """Return the answer of a completion: the text in its last `<answer>` tags, behind an open one, or else all."""
    tagged = _find_tagged(text)
    if tagged is None:
        begin = max((tag.end() for tag in TAG.finditer(text) if not tag[1]), default=0)
        tagged = find_answer(text[begin:]).text
    return tagged.strip()


def _find_tagged(text: str) -> str | None:
    """Return the text in the last `<answer>` tags, in one pass, since hostile texts have many tags."""
    # Also in reasoning, as reasoning-gym itself reads it. Elsewhere `find_answer` removes such tags.
    last = start = None
    for tag in TAG.finditer(text):
        if not tag[1]:
            start = tag.end()
        elif start is not None:
            last, start = text[start : tag.start()], None
    return last


def read_judgement(text: str, brief: bool = False) -> tuple[str, str]:
    """Return the verdict of the last line that begins with one, and its correction; empty where there is none.

    If `brief`, first letters are read in place of words.
    """
    words = "|".join(word[0] if brief else rf"{word}\b" for word in VERDICTS)
    # Before the word may stand marks of lists, or a label.
    before = (
        r"[\W_]*"
        if brief
        else r"(?:[\W_]|[0-9]{1,2}[.)]\s|(?:(?:my|final) )*(?:verdict|decision|judge?ment)\b|\\boxed)*"
    )
    pattern = re.compile(rf"{before}({words})(?:[\s:*_`]|[-\u2013\u2014]\s)*(.*)", re.IGNORECASE)
    word = rest = ""
    for line in find_answer(text).text.splitlines():
        if match := pattern.match(line):
            word, rest = match.groups()
        elif not rest:  # a correction may stand on the next line
            rest = line.strip()
    verdict = next(name for name in ("", *VERDICTS) if name.startswith(word.lower()))
    if verdict != "correct":
        return verdict, ""
    tagged = _find_tagged(text)
    return verdict, (rest if tagged is None else tagged).strip()


@dataclass(frozen=True)
class VerifiedGame(Game):
    """The rules: the solver answers, and the verifier accepts, rejects or corrects."""

    options: VerifiedOptions
    questions: QuestionSet
    agents: tuple[str, ...]

    # Without annotations: they are no fields.
    turn_based = True
    readers = READERS
    components = COMPONENTS
    own_components = ("answer", "verdict")
    info_keys = ("score", "invalid", "right", "accepted", "rejected", "corrected")

    def prompts(self, task: QuestionTask, turns: Turns) -> Prompts:
        """Return the prompt of the agent that acts."""
        if len(self.agents) == 1 or len(turns) % 2 == 0:
            return {SOLVER: self._question(task, turns)}
        answer = turns[-1].verdict.details["answer"][:MAX_SHOWN]
        if self.options.brief:
            return {VERIFIER: f"{_short(task)}{answer}"}
        last = len(turns) + 1 == 2 * self.options.attempts
        judge = JUDGE.format(again="" if last else ", and the solver answers again")
        return {
            VERIFIER: f"A solver was asked:\n\n{task.prompt}\n\nIts answer:\n\n{answer}\n\n{judge}"
        }

    def _question(self, task: QuestionTask, turns: Turns) -> str:
        # A solver alone answers the same prompt for each vote.
        earlier = (
            [turn.verdict.details["answer"] for turn in turns[::2]] if len(self.agents) > 1 else []
        )
        if self.options.brief:
            return _short(task) + "".join(f"{answer[:MAX_SHOWN]}!" for answer in earlier)
        parts = [task.prompt, FORM]
        if earlier:
            listing = "\n".join(f"- {answer[:MAX_SHOWN]}" for answer in earlier)
            parts[1:1] = [f"These answers of yours were rejected:\n{listing}"]
        return "\n\n".join(parts)

    def judge(self, task: QuestionTask, completions: Completions, turns: Turns) -> Verdict:
        """Judge an answer, or a verdict on the last answer."""
        if VERIFIER in completions:
            return self._judge_verifier(task, completions[VERIFIER], turns)
        answer = read_answer(completions[SOLVER])
        right = self.questions.is_right(task, answer)
        details = {"answer": answer, "right": right, "invalid": int(not answer)}
        if len(self.agents) > 1:
            points = {SOLVER: {"answer": float(right) / self.options.attempts}}
            return score_verdict(0.0, turns, details, solved=False, own=points)
        votes = [*(turn.verdict.details for turn in turns), details]
        over = len(votes) == self.options.votes
        values = [self.questions.normalize(task, vote["answer"]) for vote in votes]
        # Of several answers that are equally frequent, `mode` returns the first.
        score = float(over and votes[values.index(mode(values))]["right"])
        return replace(score_verdict(score, turns, details), over=over)

    def _judge_verifier(self, task: QuestionTask, text: str, turns: Turns) -> Verdict:
        word, correction = read_judgement(text, self.options.brief)
        right = bool(turns[-1].verdict.details["right"])
        accepted, corrected = word == "accept", word == "correct"
        # A correction says that the answer is wrong, so its verdict is no better than a rejection's.
        is_correct = bool(word) and accepted == right
        final_right = right if accepted else corrected and self.questions.is_right(task, correction)
        details = {
            "answer": correction,
            "right": right,
            "invalid": int(not word),
            "accepted": int(accepted),
            "rejected": int(not accepted and not corrected),
            "corrected": int(corrected),
        }
        points = {VERIFIER: {"verdict": float(is_correct) / self.options.attempts}}
        verdict = score_verdict(float(final_right), turns, details, own=points)
        return replace(verdict, over=accepted or corrected)

    def reference(self, task: QuestionTask, agent: str) -> str | None:
        """Return the right answer, or the verdict on it."""
        if agent == VERIFIER:
            return "a" if self.options.brief else "accept"
        return task.answer if self.options.brief else f"<answer>{task.answer}</answer>"


def _short(task: QuestionTask) -> str:
    return task.prompt.rpartition(": ")[2].replace(" ", "")


# Scripted teams


def pair(solver: str, verifier: str) -> Act:
    """Return the team whose agents always say a text each."""
    return each(lambda env, agent, rng: (solver, verifier)[agent])


def correct(env: Any, agent: int, rng: Any) -> str:
    """Correct the solver's answer, whatever it is, by the right one."""
    return f"{_words(env)[2]}: {env.task.answer}"


def guess(env: Any, agent: int, rng: Any) -> str:
    """Say the most frequent answer of all tasks, and accept it."""
    return _words(env)[0] if agent else mode([task.answer for task in env.tasks.tasks])


def draw(env: Any, agent: int, rng: np.random.Generator) -> str:
    """Say a random answer of other tasks, and a random verdict."""
    answer = str(rng.choice([task.answer for task in env.tasks.tasks]))
    return f"{rng.choice(_words(env))} {answer}" if agent else answer


def _words(env: Any) -> list[str]:
    brief = env.reward.options.brief
    return [word[0] if brief else word for word in VERDICTS]


GUESS = "most frequent answer"
"""The bound of a team whose solver knows nothing."""

VerifiedGame.strategies = {
    "optimum": OPTIMUM,
    "alone": Strategy(only(VERIFIER, each(correct)), exact=lambda task: 1.0),
    GUESS: Strategy(each(guess), bound="optimum"),
    "random": Strategy(each(draw)),
    **exploits("<answer> and </answer>", GUESS),
    "accepts everything": Strategy(pair("", "accept"), bound=GUESS),
    "rejects everything": Strategy(pair("", "reject"), bound=GUESS),
    "tells the verifier to accept": Strategy(pair("accept", ""), bound=GUESS),
}


@as_arguments(VerifiedOptions)
def verified(options: VerifiedOptions) -> DecPOMDPEnv:
    """Answer a question, and verify the answer: `verified-v0`.

    ## Description
    `solver_0` answers a question of reasoning-gym, whose answers a program can check. `verifier_0` then sees the
    question and the answer. It accepts the answer, rejects it, or corrects it. With several `attempts`, a rejected
    solver answers again.

    An agent that knows all answers needs no other: a solver whose answers are always accepted, or a verifier that
    corrects each answer. So the family measures what a verifier adds to a fallible solver. With an accuracy p of
    the solver, accepting everything earns p, and perfect verdicts earn 1 - (1-p)^n for n attempts.

    ## Observation Space
    `UnicodeText`: the question for the solver, with its rejected answers; the question and the last answer for the
    verifier.

    ## Action Space
    `UnicodeText`: a completion. Any text is legal. The answer is the text in the last `<answer>` tags, or else the
    whole completion. The verdict is the last line that begins with `accept`, `reject` or `correct`. A text without
    one rejects the answer, and the info `invalid` counts it.

    ## Rewards
    1 if the answer of the team is right: the accepted answer, or the correction. Points that a checker gives for
    parts of an answer do not count. Own points are no part of the team's reward. The verifier's, `own/verdict`,
    are 1/attempts for each right verdict, which accepts a right answer, or rejects or corrects a wrong one. The
    solver's, `own/answer`, are 1/attempts for each right answer. Without them a verifier of a beginner learns to
    reject everything, and then nothing teaches the solver.

    ## Starting State
    A question drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`.

    ## Episode End
    Terminates when the verifier accepts or corrects, and at the last verdict. A solver alone answers `votes`
    times.

    Raises:
        ImportError: If reasoning-gym is needed and not installed.
        KeyError: If there is no such data set.
        ValueError: If an argument has a bad value.

    ## Version History
    - v0: first version. Before its release, the reading of answers changed
      (`docs/environments.md#answers-without-code`).
    """
    questions = find_questions(options.dataset, options.dataset_options, options.source)
    agents = (SOLVER, VERIFIER)[: options.num_agents]
    return game_env(
        "verified_v0",
        partial(questions.tasks, options),
        VerifiedGame(options, questions, agents),
        num_turns=options.votes if options.num_agents == 1 else 2 * options.attempts,
        discount=options.discount,
        render_mode=options.render_mode,
    )
