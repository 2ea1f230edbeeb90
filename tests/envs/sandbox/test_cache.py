"""Verdicts that are remembered: by what, for whom and for how long."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import pytest

from llm_decpomdp.envs.sandbox import Limits, Sandbox, SandboxError, instrument
from tests.envs.sandboxed import SHORT, TELLS_ITS_RUNS, message_of, program
from tests.support.programs import SQUARE, SQUARES

TESTS = instrument(SQUARES, "sq")


def test_a_verdict_is_remembered_by_all_that_it_depends_on():
    sandbox = Sandbox(SHORT, workers=1)
    code = f"{TELLS_ITS_RUNS}  # {time.monotonic_ns()}"
    first = message_of(sandbox, code)
    assert message_of(sandbox, code) == message_of(Sandbox(SHORT, workers=2), code) == first
    messages = [
        message_of(sandbox, code + " "),
        message_of(sandbox, code, Limits(load_seconds=0.8, test_seconds=0.7)),
        message_of(Sandbox(SHORT, workers=1, seed=1), code),
        message_of(Sandbox(SHORT, workers=1, without=("namespaces",)), code),
        message_of(Sandbox(SHORT, workers=1, cache_size=0), code),
        sandbox.run(program(code), instrument(SQUARES + "\n    assert candidate(1)", "sq")).tests[0].message,
    ]  # fmt: skip
    assert len({first, *messages}) == 7


def test_a_sandbox_that_remembers_nothing_leaves_the_memory_of_others_alone():
    code = f"{TELLS_ITS_RUNS}  # {time.monotonic_ns()}"
    first = message_of(Sandbox(SHORT), code)
    message_of(Sandbox(SHORT, cache_size=0))
    assert message_of(Sandbox(SHORT), code) == first


def test_a_system_without_processes_of_our_kind_is_told_what_to_use(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SandboxError, match="needs Linux or macOS: on Windows, use WSL"):
        Sandbox(cache_size=0).run(program(SQUARE), instrument(SQUARES, "sq"))


def test_the_oldest_verdicts_are_forgotten():
    sandbox = Sandbox(SHORT, workers=1, cache_size=2)
    codes = [f"{TELLS_ITS_RUNS}  # {n} {time.monotonic_ns()}" for n in range(3)]
    first, *_, last = [message_of(sandbox, code) for code in codes]
    assert message_of(sandbox, codes[2]) == last and message_of(sandbox, codes[0]) != first


def test_a_timeout_by_the_clock_is_not_remembered_but_one_by_processor_time_is():
    limits = Limits(load_seconds=2, test_seconds=0.2, max_timeouts=1)
    mark = time.monotonic_ns()
    for body, factor, remembered in (("time.sleep(60)", 3, False), ("while True: pass", 50, True)):
        sandbox = Sandbox(replace(limits, wall_factor=factor), workers=1)
        code = f"import time  # {mark}\ndef sq(x):\n    {body}"
        first, again = (sandbox.run(program(code), TESTS) for _ in range(2))
        assert first.tests[0].status == again.tests[0].status == "timeout"
        assert (first.seconds == again.seconds) == remembered
