"""Planned calls: calls of a test that do not depend on the program's answers. They are requested together.

This saves messages. If the test makes a call that differs from the plan, the run is discarded. One run is not: the
second run of a test, which hides changed arguments. It continues with single calls, in a process that may already
have answered planned calls.

The plan is known from one run of the test without any program: in place of the function the test gets one that
records its arguments and returns an opaque object. So it depends on the test alone, and the prefetched calls tell
a program nothing about the answers of other programs.
"""

from __future__ import annotations

import _signal
from collections.abc import Callable, Sequence
from typing import Any

from llm_decpomdp.envs.sandbox.worker.evaluator.conversation import Conversation, print_output
from llm_decpomdp.envs.sandbox.worker.evaluator.interpreter import Interpreter, keep
from llm_decpomdp.envs.sandbox.worker.evaluator.proxies import Opaque
from llm_decpomdp.envs.sandbox.worker.evaluator.reports import (
    AssertRecorder,
    NoAnswer,
    StageRecorder,
)
from llm_decpomdp.envs.sandbox.worker.evaluator.session import ProgramSession, ZygoteClient
from llm_decpomdp.envs.sandbox.worker.protocol.codec import Unsendable, pack_call

MAX_PLAN = 200_000  # total size of the calls in a plan, in bytes
# Tests make their calls within milliseconds; a test that waits for an answer never ends.
MAX_SECONDS = 0.2  # processor time limit of a test that runs without a program, as it may never end
# Mismatches between a test's calls and its plan after which its calls are no longer prefetched. A plan that is
# discarded costs a second run of the program.
MAX_MISMATCHES = 3

# The calls that a test is expected to make, and for each stage the number of calls before it.
Plan = tuple[list[bytes], dict[int, int]]
NO_PLAN: Plan = ([], {})


class CallPlans:
    """The plans of the tests that this process has run."""

    def __init__(self, interpreter: Interpreter, zygote: ZygoteClient) -> None:
        self.interpreter = interpreter
        self.zygote = zygote
        self.plans: dict[str, Plan] = {}
        self.mismatches: dict[str, int] = {}

    def choose(
        self, job: dict[str, Any], plain: bool, stages: Sequence[int], slow: bool
    ) -> tuple[list[bytes], int]:
        """Return the planned calls of a run, and the number of those that are made first.

        `stages` are those of the tests that are expected to pass, in a mutant run; `slow` is true if the program
        takes long. For `plain` see `pack_call`.
        """
        tests = job["tests"]
        # The plan depends on the test alone, so all programs of a task share it.
        if tests not in self.plans:
            plan = self._record(job, plain) if job["prefetch"] else NO_PLAN
            self.zygote.discard_used_folder()
            keep(self.plans, tests, plan)
        calls, begins = self.plans[tests]
        if stages and slow:
            return [], 0  # it makes no calls after the first failure
        last = max(job["stages"][: job["shown"]], default=job["num_stages"])
        if stages:
            last = stages[0]  # a mutant run may end at the first failure
        later = [number for stage, number in begins.items() if stage > last]
        return calls, min(later, default=len(calls))

    def note_mismatch(self, tests: str) -> None:
        """Drop the plan of a test if it is seldom right."""
        times = self.mismatches.get(tests, 0) + 1
        keep(self.mismatches, tests, times)
        if times >= MAX_MISMATCHES:
            keep(self.plans, tests, NO_PLAN)

    def _record(self, job: dict[str, Any], plain: bool) -> Plan:
        """Record the calls that a test makes whatever the program answers; see `pack_call` for `plain`."""
        recorder = CallRecorder(plain)
        begins: dict[int, int] = {}

        def note(event: str, number: int, failure: object) -> None:
            # Outcomes mean nothing without a program.
            begins.setdefault(number if event == "stage" else -1, len(recorder.calls))

        def ignore(*report: object) -> None:
            return None

        record, stage = AssertRecorder(ignore, ignore), StageRecorder(note, ignore, set())
        return recorder.record(
            lambda: self.interpreter.check(job, recorder, record, stage, {})
        ), begins


class PlanEnds(BaseException):
    """The calls after this point depend on answers."""


class CallRecorder:
    """Stand-in for the function of a program that records its calls; see `pack_call` for `plain`."""

    def __init__(self, plain: bool) -> None:
        self.plain = plain
        self.calls: list[bytes] = []
        self.room = MAX_PLAN

    def __call__(self, *args: Any, **kwargs: Any) -> Opaque:
        """Record a call."""
        try:
            if self.room > 0:
                call = pack_call(args, kwargs, _refuse_opaque, self.plain)
                self.room -= len(call)
                if self.room > 0:
                    self.calls.append(call)
        except (PlanEnds, Unsendable, RecursionError):
            self.room = 0  # later calls would come too early
        if self.room <= 0:
            raise PlanEnds
        # A test that computes with the result fails there; the calls of its later stages are still recorded.
        return Opaque("unknown")

    def __call_in_place__(self, *args: Any, **kwargs: Any) -> None:
        self(*args, **kwargs)

    def record(self, run: Callable[[], None]) -> list[bytes]:
        """Run a test with this object as its function, and return the arguments of the calls, in order."""
        before = _signal.signal(_signal.SIGVTALRM, self._end)
        _signal.setitimer(_signal.ITIMER_VIRTUAL, MAX_SECONDS, MAX_SECONDS)
        try:
            run()
        # Also PlanEnds, and what tests raise by `sys.exit`.
        except BaseException:
            pass  # most tests fail without a program
        finally:
            _signal.setitimer(_signal.ITIMER_VIRTUAL, 0)
            _signal.signal(_signal.SIGVTALRM, before)
        return self.calls

    def _end(self, number: int, frame: object) -> None:
        self.room = 0
        raise PlanEnds


def _refuse_opaque(value: Any, content: Any) -> Any:
    if content is None:
        raise PlanEnds
    return content


class PlannedConversation(Conversation):
    """The calls of one run of a test, answered from those that were prefetched, or one by one.

    The run is discarded at a call that differs from the plan, as the program got calls that the test does not
    make. Only a run that hides changed arguments continues: there the test may make other calls.

    Args:
        session: As in `Conversation`.
        write_back: As in `Conversation`.
        plain: As in `Conversation`.
        methods: As in `Conversation`.
        plan: Encoded arguments of the calls that the test is expected to make, in order.
        first: Number of them that are answered before the program receives the rest.
        pause: Let the test run on the first answers, before the rest is requested: it may end there.
    """

    def __init__(
        self,
        session: ProgramSession,
        write_back: bool,
        plain: bool,
        methods: frozenset[str],
        plan: list[bytes],
        first: int,
        pause: bool,
    ) -> None:
        super().__init__(session, write_back, plain, methods)
        self.plan = plan
        self.first = first
        self.pause = pause
        self.planned_calls = plan[:first]
        self.calls: list[list[int]] = []  # calls of each helper, for each answer
        self.outputs: list[str] = []  # output of the program before each answer
        self.live_answers: dict[int, int] = {}
        """Index of each answer that holds an object of a process, and the generation of that process."""
        self.asked = 0  # calls of the entry point so far
        self.released = False
        """True if the process was ended early, as all answers of the plan have been received."""

    def load(self) -> list[Any] | None:
        """Load the program and make the calls of the plan; return the failure to load, or None."""
        failure = super().load()
        if failure is None:
            self._receive_answers(self.first if self.pause else len(self.plan))
        return failure

    def _receive_answers(self, number: int) -> None:
        """Receive answers to calls of the plan until there are this many; request those after the first ones."""
        # End of the calls that the current process has received.
        end = max(self.first, len(self.answers))
        seconds = self.session.limits["test_seconds"]
        while len(self.answers) < number:
            try:
                if len(self.answers) == end:
                    end = number
                    rest = self.plan[len(self.answers) : end]
                    if self.session.reader is not None:
                        self.session.send(("prefetch", rest, -1))
                    elif not self._restart(rest):
                        break
                before, self.holds_live_values = self.holds_live_values, False
                answer: Any = self.session.receive(seconds)
                if self.holds_live_values:
                    self.live_answers[len(self.answers)] = self.session.generation
                self.holds_live_values |= before
                self._append(answer)
            except NoAnswer as error:
                self._append(error.with_traceback(None))
                end = self.first if len(self.answers) < self.first else number
                if not self._restart(self.plan[len(self.answers) : end]):
                    break
        if self.write_back and any(index + 1 < len(self.plan) for index in self.live_answers):
            # The use that the test makes of the object may decide the results of later calls.
            self.mismatch = True
        elif len(self.answers) == len(self.plan) and self.write_back and not self.holds_live_values:
            self.released = True
            if not any(map(any, [self.session.loading_calls, *self.calls])):
                # The answers are all here, and no helper was called: the process is not needed any more.
                self.session.stop()  # it is killed and reaped while the test runs

    def _restart(self, calls: list[bytes]) -> bool:
        """Make calls in a new process after one has failed; return False if there are none or it does not load."""
        if not calls:
            return False
        try:
            self._start(calls)
            return True
        except NoAnswer as error:
            reason = error
        while len(self.answers) < len(self.plan):
            self._append(reason)
        return False

    def _append(self, answer: Any) -> None:
        """Keep an answer for the test, with what the program did meanwhile."""
        self.answers.append(answer)
        self.calls.append(self.session.take_helper_calls())
        self.outputs.append(self.session.take_output())

    def _leave_plan(self) -> None:
        """Discard a planned run at an operation on an object: prefetched later calls may have changed it."""
        if self.write_back:
            self.mismatch = True
            raise NoAnswer("not_run", "", "to be asked again without a plan")

    def _answer(self, data: bytes) -> Any:
        """Return the answer to a call of the entry point, prefetched or requested now."""
        index = self.asked
        self.asked += 1
        if self.pause and index == len(self.answers) < len(self.plan):
            self._receive_answers(len(self.plan))
        if index < len(self.plan) and self.plan[index] == data and not self.mismatch:
            answer = self.answers[index]
            self.count(self.calls[index])
            print_output(self.outputs[index])
            if isinstance(answer, NoAnswer):
                self.failure = answer
                raise answer
            # A live answer belongs to a process; if that has ended, the call is made again.
            if index not in self.live_answers or self._is_alive(self.live_answers[index]):
                return answer
            return super()._answer(data)
        if index < len(self.plan) or self.released:
            self.mismatch = True
        if self.mismatch and self.write_back:
            raise NoAnswer("not_run", "", "to be asked again without a plan")
        return super()._answer(data)
