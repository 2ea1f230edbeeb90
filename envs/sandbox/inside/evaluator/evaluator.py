"""Grades one program: runs the test here, where the expected values are, against answers from there.

A test passes by what this process computes from builtin values that it has read itself. No message of the
program means "passed". Tests that cannot be run this way (`split` false) run inside the program's process and
report from there; that mode can be forged, see `docs/security.md`.
"""

from __future__ import annotations

import _signal
import functools
import gc
import time

from llm_decpomdp.envs.sandbox.inside.evaluator.call_plan import Foresight
from llm_decpomdp.envs.sandbox.inside.evaluator.conversation import Conversation
from llm_decpomdp.envs.sandbox.inside.evaluator.failures import Gone, describe_any
from llm_decpomdp.envs.sandbox.inside.evaluator.helpers import calls_in_passing, used
from llm_decpomdp.envs.sandbox.inside.evaluator.interpreter_state import OwnState, limit_own_time
from llm_decpomdp.envs.sandbox.inside.evaluator.reports import (
    Findings,
    Record,
    Stage,
    is_count,
    verdict,
)
from llm_decpomdp.envs.sandbox.inside.evaluator.session import Session
from llm_decpomdp.envs.sandbox.inside.evaluator.zygote_client import Children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

MAX_REMEMBERED = 1000
"""Tests whose code and calls are remembered."""

MAX_MISMATCHES = 3
"""How often the calls of a test may turn out to be others before they are no longer made ahead."""

BUFFERS = ("bytearray", "array", "memoryview")
"""Words in a test for values that `marshal` would take for bytes."""

COLLECT_AFTER = 2**20
"""Bytes of answers of one program after which what is left of them is looked for."""

Plan = tuple[list[bytes], dict[int, int]]
"""The calls that a test is expected to make, and for each stage how many come before it."""

NO_PLAN: Plan = ([], {})

PLAIN_LIMITS = ("memory_bytes", "file_bytes", "output_bytes")


class Evaluator:
    """Grades one job after another.

    Args:
        children: Where programs run.
        trainer: Descriptor of whoever waits.
        seed: Of the programs' random numbers.
    """

    def __init__(self, children: Children, trainer: int, seed: int) -> None:
        self.seed = seed
        self.children = children
        self.trainer = trainer
        self.codes: dict[str, CodeType] = {}
        self.plans: dict[str, Plan] = {}
        self.mismatches: dict[str, int] = {}
        self.state = OwnState()

    def grade(self, job: dict[str, Any]) -> dict[str, Any]:
        """Run a program against its tests, and again with other results of its helpers.

        Args:
            job: `segments`, `preamble`, `entry_point`, `helpers`, `change` (whether to change their results),
                `tests` (an instrumented module), `split`, `ahead`, `shown`, `stages`, `guards`, `minimum`, and
                `limits`.

        Returns:
            `tests` (a list of [passed, status, message, origin, line]), `error`, `output`, `helper_calls`,
            `helpers_used`, `reached`, `wall_decided`, and `seconds` on the clock.

        Raises:
            Broken: If there can be no verdict, and this process has to end.
        """
        begin = time.monotonic()
        session = Session(self.children, self.trainer, _request(job, self.seed), job["limits"])
        try:
            findings = self._findings(session, job)
            tests, output = findings.outcomes(), session.output
            calls = calls_in_passing(findings, tests, len(job["helpers"]))
            helpers_used = [times > 0 for times in calls]
            if job["change"]:
                seconds = time.monotonic() - begin
                run = functools.partial(self._findings, session, job)
                helpers_used = used(session, tests, calls, seconds, run)
        finally:
            session.stop()
            self.children.tidy()
            limit_own_time(0, 0)
            session.decode = session.answer_callback = None  # they hold the answers in a circle
            if session.received > COLLECT_AFTER:
                gc.collect()
        return {
            "seconds": time.monotonic() - begin,
            "tests": tests,
            "error": findings.error and verdict(findings.error),
            "output": output.encode("utf-8", "replace").decode(),
            "helper_calls": calls,
            "helpers_used": helpers_used,
            "reached": [findings.reached.get(test, 0) for test in range(len(job["stages"]))],
            "wall_decided": session.wall_decided,
        }

    def _findings(self, session: Session, job: dict[str, Any]) -> Findings:
        return self._beside(session, job) if job["split"] else _inside(session, job)

    def _beside(self, session: Session, job: dict[str, Any]) -> Findings:
        """Run the tests in this process."""
        tests = job["tests"]
        plain = not any(name in tests for name in BUFFERS)
        if tests not in self.plans:
            foreseen = self._foreseen(job, plain) if job["ahead"] else NO_PLAN
            self.children.tidy()
            self._remember(self.plans, tests, foreseen)
        plan, begins = self.plans[tests]
        first = _first_calls(job, begins, len(plan))
        converse = functools.partial(Conversation, session, plain=plain, own=frozenset(job["own"]))
        conversation = converse(plan, first, strict=True, write_back=True)
        findings = self._run(conversation, job)
        if conversation.mismatch and findings.error is None:
            if not session.request["change"]:
                self._mismatch(tests)
            plan = []
            conversation = converse(plan, 0, strict=False, write_back=True)
            findings = self._run(conversation, job)
        if conversation.changed and findings.error is None:
            again = converse(plan, first, strict=False, write_back=False)
            findings = findings.both(self._run(again, job))
        return findings

    def _mismatch(self, tests: str) -> None:
        """The calls of a test turned out to be others: what is seldom right is not made ahead any more."""
        times = self.mismatches.get(tests, 0) + 1
        self._remember(self.mismatches, tests, times)
        if times >= MAX_MISMATCHES:
            self._remember(self.plans, tests, NO_PLAN)

    def _foreseen(self, job: dict[str, Any], plain: bool) -> Plan:
        """The calls that a test makes whatever the program answers."""
        foresight = Foresight(plain)
        begins: dict[int, int] = {}

        def note(event: str, number: int, failure: object) -> None:
            """Nobody wants to know how the test fares, but where it is."""
            begins.setdefault(number if event == "stage" else -1, len(foresight.calls))

        def ignore(*report: object) -> None:
            """What an assert says without a program means nothing."""

        record, stage = Record(ignore, ignore), Stage(note, ignore, set())
        return foresight.watch(lambda: self._check(job, foresight, record, stage)), begins

    def _check(self, job: dict[str, Any], function: Any, record: Record, stage: Stage) -> None:
        """Run a test with something in the place of the program's function."""
        scope: dict[str, Any] = {"__name__": "__test__"}
        try:
            exec(self._compiled(job["preamble"], "<prompt>"), scope)
            scope |= {job["entry_point"]: function, "__record__": record, "__stage__": stage}
            exec(self._compiled(job["tests"], "<tests>"), scope)
            scope["__check__"](function, record, stage)
        finally:
            self.state.restore()

    def _run(self, conversation: Conversation, job: dict[str, Any]) -> Findings:
        """Run the tests once, with a fresh process of the program."""
        findings = Findings(job)
        conversation.count = findings.count
        limits = conversation.session.limits
        if conversation.session.received > COLLECT_AFTER:
            gc.collect()  # what a run before has left of its answers
        conversation.session.begin_again()
        limit_own_time(limits["program_seconds"], limits["program_seconds"] * limits["wall_factor"])
        findings.error = conversation.ask_ahead()
        if findings.error is not None or conversation.mismatch:
            return findings
        record = Record(findings.note, describe_any)
        stage = _LatchedStage(findings.note, conversation)
        try:
            self._check(job, conversation.objects.function, record, stage)
        except BaseException as error:
            findings.note("ended", stage.number, describe_any(error))
        if self.children.failure is not None:
            raise self.children.failure
        findings.done(record.reached)
        conversation.answers.clear()
        return findings

    def _compiled(self, source: str, name: str) -> CodeType:
        if "random" in source:
            import random

            random.seed(0)
        code = self.codes.get(source)
        if code is None:
            code = compile(source, name, "exec", dont_inherit=True)
            self._remember(self.codes, source, code)
        return code

    @staticmethod
    def _remember(memory: dict[str, Any], key: str, value: Any) -> None:
        """Keep a value, and forget the oldest ones."""
        memory[key] = value
        while len(memory) > MAX_REMEMBERED:
            del memory[next(iter(memory))]


class _LatchedStage(Stage):
    """A stage in which the program once failed to answer does not pass, whatever the test made of it."""

    def __init__(self, send: Any, conversation: Conversation) -> None:
        super().__init__(send, describe_any, set())
        self.conversation = conversation
        self.seen: Gone | None = None

    def runs(self, number: int) -> bool:
        """Begin a stage, with its own share of this process's time."""
        seconds = self.conversation.session.limits["test_seconds"]
        _signal.setitimer(_signal.ITIMER_PROF, seconds)
        return super().runs(number)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        gone = self.conversation.gone
        if gone is not None and gone is not self.seen:
            self.seen = gone
            self.send("swallowed", self.number, gone.remote)
        return super().__exit__(kind, error, traceback)


def _first_calls(job: dict[str, Any], begins: dict[int, int], number: int) -> int:
    """How many of a number of calls come no later than those of the tests that may be shown."""
    last = max(job["stages"][: job["shown"]], default=job["num_stages"])
    return min((before for stage, before in begins.items() if stage > last), default=number)


def _request(job: dict[str, Any], seed: int) -> dict[str, Any]:
    """What the program's process is told: not the tests."""
    limits = job["limits"]
    return {
        "segments": job["segments"],
        "entry_point": job["entry_point"],
        "helpers": job["helpers"],
        "change": [],
        "tests": not job["split"],
        "seed": seed,
        "cpu_seconds": int(limits["program_seconds"]) + 1,
        **{name: limits[name] for name in PLAIN_LIMITS},
    }


def _inside(session: Session, job: dict[str, Any]) -> Findings:
    """Have the program's process run the tests; one that hangs or dies in a stage is started again without it."""
    findings = Findings(job)
    skipped: list[int] = []
    session.stop()
    while True:
        findings.stage = None
        try:
            findings.error = session.failure(session.start([]))
            if findings.error is None:
                session.send([job["tests"], skipped])
                _follow(session, findings)
            return findings
        except Gone as gone:
            if findings.stage is None:
                findings.error = None if skipped else gone.remote
                return findings
            skipped.append(findings.stage)
            findings.note("ended", findings.stage, gone.remote)


def _follow(session: Session, findings: Findings) -> None:
    """Take the reports in that the program's process sends. Raises `Gone` when one cannot be true."""
    while True:
        event, content, _ = session.receive(session.limits["test_seconds"])
        findings.count(session.take_calls())
        session.expect(isinstance(content, list))
        if event == "done":
            pairs = [pair for pair in content if isinstance(pair, list) and len(pair) == 2]
            findings.done(
                {test: times for test, times in pairs if is_count(test) and is_count(times)}
            )
            return
        session.expect(len(content) == 2 and type(content[0]) is int)
        number, failure = content[0], session.failure(content[1])
        known = {"test": len(findings.stages), "ended": findings.num_stages}.get(event, 0)
        if event == "stage":
            last = -1 if findings.stage is None else findings.stage
            session.expect(last < number < findings.num_stages)
        else:
            session.expect(-1 <= number < known)
        findings.note(event, number, failure)
