"""Parsing: threads, forked processes, and bounds on time and memory."""

from __future__ import annotations

import ast
import os
import signal
import threading

import pytest

import llm_decpomdp
from llm_decpomdp.envs.coding.feedback import lost_results
from llm_decpomdp.envs.sandbox import syntax
from llm_decpomdp.envs.source_code import parsing as code
from llm_decpomdp.envs.source_code.completion import read
from llm_decpomdp.envs.source_code.parsing import (
    ATTEMPT,
    CHARACTERS,
    COMPILED,
    MAX_CHARACTERS,
    MAX_READ,
    MAX_TOKENS,
    Attempts,
    end_of_bound,
    explodes,
    parse,
    syntax_tree,
    tokens,
)
from tests.envs.hostile_texts import DEEP, HOSTILE, SQ


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_that_is_forked_while_a_thread_parses_can_parse():
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with syntax._LOCK:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        syntax.parse("x = 1")
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    done.set()
    thread.join()
    assert status == 0


def nested(depth, leaving, statement="x = 1"):
    """A function of this many `finally` blocks in one another, each with ways to leave its `try`."""
    lines = ["def sq(x):"]
    for level in range(1, depth + 1):
        lines += [" " * level + "try:", *[f"{' ' * level} if x: return x"] * leaving]
        lines += [f"{' ' * level} x", " " * level + "finally:"]
    return "\n".join([*lines, f"{' ' * (depth + 1)}{statement}", " return x"])


@pytest.mark.parametrize(
    "code",
    [
        nested(19, 0),
        nested(6, 8),
        nested(1, 1000, "x;" * 1000),
        "def sq(x):\n while x:\n  try:\n"
        + "   if x: break\n   if x: continue\n" * 500
        + "  finally:\n"
        + "   x\n" * 1000
        + " return x",
        "def sq(x):\n try:\n"
        + "  try:\n   if x: return 1\n   if x: return 2\n  finally:\n   if x: return 3\n" * 100
        + " finally:\n"
        + "  x\n" * 1000
        + " return x",
    ],
    ids=["levels", "levels with returns", "returns", "breaks", "returns in finally blocks"],
)
def test_code_whose_finally_blocks_are_compiled_too_often_has_a_problem(code):
    assert "finally" in read(code, "sq").problem.message


@pytest.mark.parametrize("code", [nested(8, 0), nested(3, 5), nested(1, 40, "x;" * 100)])
def test_finally_blocks_of_honest_code_are_no_problem(code):
    assert read(code, "sq").problem is None


FAMILIES = ("mbpp-v0", "classeval-v0", "bugfix-v0", "humanevalfix-v0", "compose-v0")


@pytest.fixture
def parsed(monkeypatch):
    """The number of tokens of each text that is parsed."""
    found: list[int] = []

    def noted(text: str):
        found.append(tokens(text))
        return parse(text)

    monkeypatch.setattr(code, "parse", noted)
    code.syntax_tree.cache_clear()
    return found


def test_tokens_are_words_and_marks_also_in_comments():
    assert tokens("f(a_1)  # two!") == 7


def test_what_is_parsed_of_a_hostile_text_is_bounded(monkeypatch):
    texts: list[str] = []
    monkeypatch.setattr(code, "parse", lambda text: texts.append(text) or parse(text))
    for name, completion in HOSTILE.items():
        del texts[:]
        code.syntax_tree.cache_clear()
        reading = read(completion, "sq")
        spaced = sum(min(len(text), MAX_CHARACTERS) for text in texts)  # white space counts too
        assert spaced <= MAX_READ * CHARACTERS + 4 * MAX_CHARACTERS, name
        lost_results(reading.code, "aux")
        parsed = [tokens(text) for text in texts]
        assert max(parsed, default=0) <= MAX_TOKENS, name
        assert sum(parsed) <= MAX_READ + 4 * MAX_TOKENS, name
        assert len(parsed) <= MAX_READ / ATTEMPT + 4, name
        assert len(reading.code) <= MAX_CHARACTERS + 1, name


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_that_reads_code_keeps_to_the_bounds(family, parsed):
    source = {} if family == "humanevalfix-v0" else {"source": "bundled"}
    env = llm_decpomdp.make(family, **source)
    env.reset(seed=1)
    for text in [*HOSTILE.values()][::9]:
        for role in env.roles:
            del parsed[:]
            role.read(env.task, text.replace("sq", getattr(env.task, "entry_point", "sq")))
            assert max(parsed, default=0) <= MAX_TOKENS
            assert sum(parsed) <= 2 * MAX_READ + 8 * MAX_TOKENS


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_that_reads_code_reads_deep_trees(family):
    env = llm_decpomdp.make(
        family, **({} if family == "humanevalfix-v0" else {"source": "bundled"})
    )
    env.reset(seed=1)
    for role in env.roles:
        owned = getattr(role, "owned_functions", lambda task: ())(env.task)
        names = (*owned, getattr(env.task, "entry_point", "sq"), "aux")
        for text in map(HOSTILE.get, DEEP):
            assert isinstance(parse(text), ast.Module)
            for name in names:
                role.read(env.task, text.replace("sq", name))


def test_what_is_too_long_is_read_as_text():
    longer = f"{SQ}\n" + "x = 1\n" * (MAX_TOKENS // 3)
    reading = read(longer, "sq")
    assert reading.complete and reading.problem is None and len(reading.code) < len(longer)
    line = MAX_TOKENS // 3 + 1
    for text in (
        "a = " * MAX_TOKENS + "1",
        "x;" * MAX_TOKENS,
        "y = '" + "a" * MAX_CHARACTERS + "'",
    ):
        reading = read(f"{SQ}; {text}", "sq")
        assert reading.complete and "more than 8000 tokens" in reading.problem.message
    assert end_of_bound("x = 1\n" * line) == line and not end_of_bound("x = 1\n" * (line - 1))


def test_a_class_that_is_too_long_is_broken():
    env = llm_decpomdp.make("classeval-v0", source="bundled")
    env.reset(seed=1)
    (agent, *_), role = env.possible_agents, env.roles[0]
    method = role.read(env.task, llm_decpomdp.answers(env).reference(agent)).written_methods[0]
    text = f"def {method}(self):\n    return " + "1, " * MAX_TOKENS
    assert list(role.read(env.task, text).broken) == [method]


@pytest.mark.parametrize("name", ["ways out of async with", "nested lambdas", "finally"])
def test_code_that_takes_too_much_to_compile_is_not_compiled(name):
    assert explodes(parse(HOSTILE[name]))
    assert "too many ways" in syntax_tree(HOSTILE[name]).message


@pytest.mark.parametrize(("text", "weight"), [("x = 1", COMPILED), ("x = (", 1)])
def test_tokens_that_are_compiled_cost_more_of_the_budget(text, weight):
    attempts = Attempts()
    attempts(text)
    assert MAX_READ - attempts.room == ATTEMPT + weight * tokens(text)


def test_solutions_are_far_from_the_bounds():
    for family in ("coophumaneval-v0", "humaneval-v0", "mbpp-v0"):
        source = {} if family == "humaneval-v0" else {"source": "bundled"}
        env = llm_decpomdp.make(family, **source)
        for seed in range(30):
            env.reset(seed=seed)
            for text in env.task.references.values():
                assert tokens(text) < MAX_TOKENS / 4 and not explodes(parse(text))
    env = llm_decpomdp.make("classeval-v0", source="bundled")
    for seed in range(30):
        env.reset(seed=seed)
        assert tokens(env.task.solution) < MAX_TOKENS / 4
