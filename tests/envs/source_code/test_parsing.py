"""Parsing by threads and forked processes, and code that must not be compiled."""

from __future__ import annotations

import importlib
import os
import signal
import threading

import pytest

from llm_decpomdp.envs.source_code.completion import read

syntax = importlib.import_module(
    "llm_decpomdp.envs.sandbox.instrument"
)  # the package has a function of that name


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_that_is_forked_while_a_thread_parses_can_parse():
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with syntax._LOCK:
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(20)
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
