"""Run of the corpus: each program is judged before the next one starts."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Literal

from llm_decpomdp.envs.sandbox import Execution, Limits, Sandbox
from tests.attacks.canaries import Canaries
from tests.attacks.entries import ENTRIES, Entry
from tests.support.programs import SQUARE

LAYERS = ("namespaces", "landlock", "seccomp")

MODES: dict[str, tuple[str, ...]] = {
    "full": (),
    "without namespaces": ("namespaces",),
    "without namespaces, landlock": ("namespaces", "landlock"),
    "without namespaces, seccomp": ("namespaces", "seccomp"),
    "bare": LAYERS,
}
"""Layers that each mode leaves off, as on systems that do not offer them."""

SLOW = "denial_of_service"  # category in which most programs use up their time limits
PATIENCE = 90.0  # seconds until an execution that does not return counts as hung
# An execution that takes longer ignores its limits. These are at most two seconds in these runs, several of them
# one after the other, and some machines are three times as slow as others.
HUNG_SECONDS = 45.0
HONEST = Entry("benign", "honest", {"main": SQUARE}, "pass")

Judgement = Literal["ok", "fooled", "harmed", "hung", "wrong"]


@dataclass(frozen=True)
class Result:
    """Judgement of one program in one mode."""

    entry: str  # category and name
    category: str
    judgement: Judgement
    known: bool  # True if it succeeds because this mode lacks every layer that stops it
    detail: str
    seconds: float


def judge(entry: Entry, execution: Execution | None, harm: list[str]) -> Judgement:
    """Judge the sandbox's result of a program, and the state of its host.

    Args:
        entry: The program.
        execution: The sandbox's answer; None if it has not returned, or raised: then `harm` is not empty.
        harm: Findings of `Canaries.harm` afterwards.

    Returns:
        `fooled`: the program got more than it deserves. `harmed`: the host was. `hung`: it took too long.
        `wrong`: it got less than it deserves. `ok`: none of these.
    """
    if execution is None:
        return "harmed" if harm else "hung"
    passed = [test.passed for test in execution.tests]
    solved = bool(passed) and all(passed)
    if (entry.honest == "fail" and any(passed)) or (entry.honest == "some" and solved):
        return "fooled"
    if harm:
        return "harmed"
    if execution.seconds > HUNG_SECONDS:
        return "hung"
    if (entry.honest == "pass" and not solved) or (entry.honest == "some" and not any(passed)):
        return "wrong"
    return "ok"


def open_sandbox(without: tuple[str, ...], seconds: float) -> Sandbox:
    """Start a sandbox with all layers but these, and its worker; `seconds` for loading and for each call."""
    limits = Limits(load_seconds=seconds, test_seconds=seconds, max_timeouts=1)
    sandbox = Sandbox(limits, workers=1, without=without, cache_size=0)
    sandbox.run(HONEST.program(SQUARE), HONEST.tests)
    return sandbox


def lacking(without: tuple[str, ...]) -> str:
    """Return the reasons why this machine does not offer a mode; empty if it does."""
    sandbox = Sandbox(workers=1, without=without)
    reasons = sandbox.layers()
    sandbox.close()
    missing = [name for name in LAYERS if reasons[name] and name not in without]
    return "; ".join(f"{name}: {reasons[name]}" for name in missing)


def run(names: Sequence[str], without: tuple[str, ...], seconds: float) -> list[Result]:
    """Run programs one after the other, in this process; see `open_sandbox`."""
    results = []
    with Canaries() as canaries:
        sandbox = open_sandbox(without, seconds)
        canaries.settle()
        for name in names:
            entry = ENTRIES[name]
            begin = time.monotonic()
            execution, harm = _run_one(sandbox, entry, canaries)
            elapsed = execution.seconds if execution else time.monotonic() - begin
            judgement = judge(entry, execution, harm)
            open_to_it = bool(entry.stopped_by) and entry.stopped_by <= set(without)
            excused = open_to_it and judgement not in ("ok", "hung")
            detail = "; ".join(harm) or _summary(execution)
            results.append(Result(name, entry.category, judgement, excused, detail, elapsed))
            if harm or execution is None:
                sandbox.close()
                canaries.reset()
                sandbox = open_sandbox(without, seconds)
                canaries.settle()
        sandbox.close()
    return results


def run_all(
    names: Sequence[str], without: tuple[str, ...], seconds: float, jobs: int
) -> list[Result]:
    """Run programs spread over processes of their own; see `run`."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        parts = [pool.submit(run, names[start::jobs], without, seconds) for start in range(jobs)]
        return [result for part in parts for result in part.result()]


def _run_one(
    sandbox: Sandbox, entry: Entry, canaries: Canaries
) -> tuple[Execution | None, list[str]]:
    """Run one program, and honest ones in the two processes after it; its execution, and the harm that it did.

    Where the clock made one of them fail, the machine may have paused, and both have a second chance.
    """
    for _ in range(2):
        outcome = _attempt(sandbox, entry, canaries.fill(entry.completions["main"]))
        if outcome is None:
            return None, []
        after = _attempt(sandbox, HONEST, SQUARE, PATIENCE / 4)
        if _passes(after):  # this process was waiting before
            after = _attempt(sandbox, HONEST, SQUARE, PATIENCE / 4)
        if not (_by_clock(after) or (entry.honest in ("pass", "some") and _by_clock(outcome))):
            break
    harm = [] if isinstance(outcome, Execution) else [outcome]
    if not _passes(after):
        harm.append(f"an honest program does not pass afterwards: {after or 'no answer'}")
    execution = outcome if isinstance(outcome, Execution) else None
    return execution, harm + canaries.harm(execution)


def _attempt(
    sandbox: Sandbox, entry: Entry, code: str, patience: float = PATIENCE
) -> Execution | str | None:
    """Execution, text of the error that the sandbox raised instead, or None if it has not returned in time."""
    answers: list[Execution | str] = []

    def work() -> None:
        try:
            answers.append(sandbox.run(entry.program(code), entry.tests))
        # All that a program makes the sandbox raise is to be in the table.
        except Exception as error:
            answers.append(f"the sandbox raised {type(error).__name__}: {str(error)[:300]}")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(patience)
    return answers[0] if answers else None


def _passes(outcome: Execution | str | None) -> bool:
    return isinstance(outcome, Execution) and judge(HONEST, outcome, []) == "ok"


def _by_clock(outcome: Execution | str | None) -> bool:
    return isinstance(outcome, Execution) and outcome.wall_decided


def _summary(execution: Execution | None) -> str:
    if execution is None:
        return "no answer"
    outcomes = [execution.error] if execution.error else execution.tests
    return "; ".join(f"{o.status} {o.message[:80]}" if o else "" for o in outcomes)
