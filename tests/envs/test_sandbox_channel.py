"""Programs that tamper with how their tests are reported: nothing raises in us or hangs us."""

from __future__ import annotations

import time

import pytest

from llm_decpomdp.envs.sandbox import Limits, Program, Sandbox, instrument

TEST = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\n"


def run(code: str):
    sandbox = Sandbox(Limits(load_seconds=0.7, test_seconds=0.7))
    return sandbox.run(Program((("main_0", code),), "sq"), instrument(TEST, "sq"))


def statuses(code: str) -> set[str]:
    return {outcome.status for outcome in run(code).tests}


FORGERIES = [
    b"garbage\n",
    b"\xff\xfe\n",
    b"[]\n",
    b'{"event": {}}\n{"event": "stage"}\n',
    b'{"event": "stage", "stage": "x"}\n',
    b'{"event": "stage", "stage": 99}\n',
    b'{"event": "test", "test": [1], "error": null}\n',
    b'{"event": "test", "test": 0, "error": {"type": 1, "text": 2, "origin": 3, "line": "x"}}\n',
    b'{"event": "loaded", "error": "x"}\n',
    b'{"event": "ready"}\n' * 9,
    b"[" * 5000 + b"\n",
    b"x" * 2**20,
]
WRITE = """
import os
def forge(text):
    for fd in range(3, 20):
        try:
            os.write(fd, text)
        except OSError:
            pass
"""


@pytest.mark.parametrize("text", FORGERIES, ids=[repr(text[:50]) for text in FORGERIES])
@pytest.mark.parametrize("at_load", [True, False], ids=["while loading", "in a test"])
def test_nonsense_in_the_channel_of_results_neither_raises_nor_hangs(text, at_load):
    call = f"forge({text!r})" if at_load else "pass"
    body = "pass" if at_load else f"forge({text!r})"
    outcomes = run(f"{WRITE}{call}\ndef sq(x):\n    {body}\n    return 0").tests
    assert not any(o.passed for o in outcomes)
    assert all(isinstance(o.line, int) for o in outcomes)


def test_a_program_cannot_buy_time_with_reports_of_its_own():
    code = (
        WRITE + "import time\ndef sq(x):\n    while True:\n        time.sleep(0.2)\n"
        '        forge(b\'{"event": "stage", "stage": 0}\\n{"event": "ready"}\\n\')'
    )
    begin = time.monotonic()
    run(code)
    assert time.monotonic() - begin < 8


@pytest.mark.parametrize("at_load", [True, False], ids=["while loading", "in a test"])
def test_closing_the_channel_of_results_does_not_hang_us(at_load):
    close = "os.closerange(3, 50)\n{0}time.sleep(100)"
    code = "import os, time\n" + (
        close.format("") if at_load else "def sq(x):\n    " + close.format("    ")
    )
    begin = time.monotonic()
    assert statuses(code) == {"timeout"}
    assert time.monotonic() - begin < 8


@pytest.mark.parametrize(
    "error",
    [
        "class E(Exception):\n    def __str__(self):\n        raise SystemExit",
        "class S(str):\n    def __getitem__(self, i):\n        return object()\n"
        "class E(Exception):\n    def __str__(self):\n        return S('a')",
        "class M(type):\n    @property\n    def __name__(cls):\n        raise KeyError\n"
        "class E(Exception, metaclass=M):\n    pass",
        "class E(Exception):\n    __traceback__ = property(lambda self: 1 / 0)",
        "class E(Exception):\n    __traceback__ = 5",
        "class E(BaseException):\n    pass",
    ],
)
@pytest.mark.parametrize("at_load", [True, False], ids=["while loading", "in a test"])
def test_hostile_exceptions_are_failures_like_others(error, at_load):
    code = f"{error}\nraise E()" if at_load else f"{error}\ndef sq(x):\n    raise E()"
    assert statuses(code) <= {"error", "crashed"}
