"""Runs programs of the corpus, each judged before the next one runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from llm_decpomdp.envs.sandbox import Execution, Limits, Program, Sandbox
from tests.attacks.canaries import Canaries
from tests.attacks.corpus import ENTRIES, Judgement, judge
from tests.attacks.entry import Attack
from tests.attacks.parts import SQUARE

LAYERS = ("namespaces", "landlock", "seccomp")

MODES: dict[str, tuple[str, ...]] = {
    "full": (),
    "without namespaces": ("namespaces",),
    "without namespaces, landlock": ("namespaces", "landlock"),
    "without namespaces, seccomp": ("namespaces", "seccomp"),
    "bare": LAYERS,
}
"""The layers that each mode leaves off, as on systems that do not offer them."""

PATIENCE = 40.0
"""How long one execution may take until it counts as hung, in seconds."""

HONEST = Attack("honest", "benign", SQUARE, "pass")


@dataclass(frozen=True)
class Result:
    """What became of one program in one mode."""

    attack: str
    """Category and name."""
    category: str
    judgement: Judgement
    known: bool
    """Whether it succeeds because this mode lacks every layer that stops it."""
    detail: str
    seconds: float


def open_sandbox(without: tuple[str, ...], seconds: float) -> Sandbox:
    """A sandbox with all layers but these, its worker started; `seconds` for loading and for each call."""
    limits = Limits(load_seconds=seconds, test_seconds=seconds, max_timeouts=1)
    sandbox = Sandbox(limits, workers=1, without=without, cache_size=0)
    _execute(sandbox, HONEST, HONEST.code)
    return sandbox


def lacking(without: tuple[str, ...]) -> str:
    """Why this machine does not offer a mode; empty if it does."""
    sandbox = Sandbox(workers=1, without=without)
    reasons = sandbox.layers()
    sandbox.close()
    return "; ".join(
        f"{name}: {reasons[name]}" for name in LAYERS if reasons[name] and name not in without
    )


def run(names: Sequence[str], without: tuple[str, ...], seconds: float) -> list[Result]:
    """Run programs one after the other, in this process; see `open_sandbox`."""
    results = []
    with Canaries() as canaries:
        sandbox = open_sandbox(without, seconds)
        canaries.settle()
        for name in names:
            attack = ENTRIES[name]
            begin = time.monotonic()
            execution, harm = _run_one(sandbox, attack, canaries)
            elapsed = execution.seconds if execution else time.monotonic() - begin
            judgement = judge(attack, execution, harm)
            open_to_it = bool(attack.stopped_by) and attack.stopped_by <= set(without)
            known = open_to_it and judgement not in ("ok", "hung")
            detail = "; ".join(harm) or _summary(execution)
            results.append(Result(name, attack.category, judgement, known, detail, elapsed))
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


def _execute(sandbox: Sandbox, attack: Attack, code: str) -> Execution:
    program = Program((("main_0", code),), attack.entry_point)
    return sandbox.run(program, attack.tests)


def _run_one(
    sandbox: Sandbox, attack: Attack, canaries: Canaries
) -> tuple[Execution | None, list[str]]:
    """Run one program, and honest ones in the two processes after it; its execution, and the harm that it did.

    Where the clock made one of them fail, the machine may have paused, and both have a second chance.
    """
    for _ in range(2):
        outcome = _attempt(sandbox, attack, canaries.fill(attack.code))
        if outcome is None:
            return None, []
        after = _attempt(sandbox, HONEST, HONEST.code, PATIENCE / 4)
        if (
            isinstance(after, Execution) and judge(HONEST, after, []) == "ok"
        ):  # that one was waiting before
            after = _attempt(sandbox, HONEST, HONEST.code, PATIENCE / 4)
        if not (_by_clock(after) or (attack.honest in ("pass", "some") and _by_clock(outcome))):
            break
    harm = [] if isinstance(outcome, Execution) else [outcome]
    if not isinstance(after, Execution) or judge(HONEST, after, []) != "ok":
        harm.append(f"an honest program does not pass afterwards: {after or 'no answer'}")
    execution = outcome if isinstance(outcome, Execution) else None
    return execution, harm + canaries.harm(execution)


def _attempt(
    sandbox: Sandbox, attack: Attack, code: str, patience: float = PATIENCE
) -> Execution | str | None:
    """An execution, what the sandbox raised instead, or None if it has not returned in time."""
    found: list[Execution | str] = []

    def work() -> None:
        try:
            found.append(_execute(sandbox, attack, code))
        except (
            Exception
        ) as error:  # whatever a program makes the sandbox raise is to be in the table
            found.append(f"the sandbox raised {type(error).__name__}: {str(error)[:300]}")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(patience)
    return found[0] if found else None


def _by_clock(outcome: Execution | str | None) -> bool:
    return isinstance(outcome, Execution) and outcome.wall_decided


def _summary(execution: Execution | None) -> str:
    if execution is None:
        return "no answer"
    outcomes = [execution.error] if execution.error else execution.tests
    return "; ".join(f"{o.status} {o.message[:80]}" if o else "" for o in outcomes)
