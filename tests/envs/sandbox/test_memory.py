"""Memory that a worker takes for a program's answers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from llm_decpomdp.envs.sandbox import Limits, Sandbox, instrument
from tests.envs.sandboxed import program, workers_of
from tests.support.programs import check

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
LIMITS = Limits(load_seconds=5, test_seconds=5)


def peak_of(code: str, test: str, passed: bool = True) -> int:
    """The most memory that a new worker's evaluator takes to grade a program, in MB."""
    before = workers_of(os.getpid())
    sandbox = Sandbox(LIMITS, workers=1, cache_size=0, seed=98)
    assert sandbox.run(program(code), instrument(test, "sq")).tests[-1].passed == passed
    (worker,) = workers_of(os.getpid()) - before
    status = Path(f"/proc/{worker}/status").read_text()
    sandbox.close()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def test_answers_that_swell_while_they_are_read_are_refused():
    code = """
import os
TEXT = b'["value",[' + b",".join([b"[]"] * 2_600_000) + b'],null,[],""]'
def sq(x):
    for descriptor in range(3, 20):
        data = (len(TEXT).to_bytes(4, "big") + TEXT) * 4
        try:
            while data:
                data = data[os.write(descriptor, data):]
        except OSError:
            pass
"""
    test = check(*["assert candidate(0) == 0"] * 4)
    assert peak_of(code, test, passed=False) < 600


def test_the_answers_of_a_run_are_forgotten_before_the_next_one():
    test = check("for i in range(4):", "    assert candidate([i])")
    large = "def sq(xs):\n    {}\n    return 'x' * 7_000_000"
    once = peak_of(large.format("pass"), test)
    twice = peak_of(large.format("xs[0] += 1"), test)
    assert twice < once + 14
