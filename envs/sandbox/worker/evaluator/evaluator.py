"""Grades one program: runs its test in this process, which holds the expected values, on the program's answers.

A test passes by what this process computes from builtin values that it has decoded itself. No message of the
program means "passed". Tests with `split` false run inside the program's process and report from there. Such
reports can be forged, see `docs/security.md`.
"""

from __future__ import annotations

import _signal
import functools
import gc
import time
from collections.abc import Callable, Sequence, Set
from typing import Any

from llm_decpomdp.envs.sandbox.worker.evaluator import reports
from llm_decpomdp.envs.sandbox.worker.evaluator.call_plan import CallPlans, PlannedConversation
from llm_decpomdp.envs.sandbox.worker.evaluator.conversation import Conversation
from llm_decpomdp.envs.sandbox.worker.evaluator.division_checks import DivisionChecks
from llm_decpomdp.envs.sandbox.worker.evaluator.helpers import HelperChecks, calls_in_passing
from llm_decpomdp.envs.sandbox.worker.evaluator.interpreter import Interpreter, limit_time
from llm_decpomdp.envs.sandbox.worker.evaluator.session import ProgramSession, ZygoteClient

SLACK_SECONDS = 5.0  # wall time that a test may take beyond the program
MUTANT_SLACK_SECONDS = 1.0  # the same in a mutant run, with which the job's time may end
# Names in a test or a prompt of types that `marshal` would turn into bytes, and of modules with such types.
BUFFERS = ("bytearray", "array", "memoryview", "numpy")
COLLECT_AFTER = 2**20  # bytes of answers of one program after which garbage is collected


class Evaluator:
    """Grades one job after another, for the caller at the other end of a socket."""

    def __init__(self, zygote: ZygoteClient, caller: int, seed: int) -> None:
        self.seed = seed
        self.zygote = zygote
        self.caller = caller
        self.interpreter = Interpreter()
        self.plans = CallPlans(self.interpreter, zygote)

    def grade(
        self, job: dict[str, Any], send: Callable[[dict[str, Any], bool], None]
    ) -> dict[str, Any]:
        """Run a program against its tests, and again to check its helpers.

        Args:
            job: The message of `sandbox._job`: `segments`, `preamble`, `entry_point`, `helpers`, `check_helpers`
                (true to mutate their results), `substitute` (true to replace them, and to put them in place of the
                entry point), `divide` (true to do so test by test), `tests` (an instrumented module), `limits`,
                `tests_seconds`, and fields of `Tests`: `split`, `prefetch`, `shown`, `stages`, `num_stages`,
                `stage_reads`, `stage_writes`, `judges_result`, `minimum`, `methods` and `guards`.
            send: Sends the caller the result of a slow program before its helpers are checked, with False: values
                of a mutant run may end this process.

        Returns:
            The fields of `WorkerResult` (`envs/sandbox/program.py`).

        Raises:
            Broken: If there can be no result, and this process has to end.
        """
        begin = time.monotonic()
        limits = {**job["limits"], "stage_seconds": job["limits"]["test_seconds"]}
        # What a program's process receives; it has no tests.
        request = {
            **{name: job[name] for name in ("segments", "entry_point", "helpers")},
            **{name: limits[name] for name in ("memory_bytes", "file_bytes", "output_bytes")},
            "cpu_seconds": int(limits["program_seconds"]) + 1,
            "mutation": [],
            "tests": not job["split"],
            "seed": self.seed,
        }
        session = ProgramSession(self.zygote, self.caller, request, limits, job["tests_seconds"])
        try:
            findings = self._findings(session, job)
            tests = findings.outcomes()
            calls = calls_in_passing(findings, tests, len(job["helpers"]))
            result: dict[str, Any] = {
                "tests": tests,
                "error": findings.error and reports.failed_outcome(findings.error),
                "output": session.output.encode("utf-8", "replace").decode(),
                "helper_calls": calls,
                "helpers_used": [times > 0 for times in calls],
                "helpers_suffice": [False] * len(calls),
                "main_adds": [],
                "helpers_add": [],
                "reached": [findings.reached.get(test, 0) for test in range(len(job["stages"]))],
                "wall_decided": session.wall_decided,
                "seconds": time.monotonic() - begin,
            }
            if job["check_helpers"]:
                deadline = begin + job["limits"]["job_seconds"]
                run = functools.partial(self._findings, session, job)
                kind = DivisionChecks if job["divide"] else HelperChecks
                checks = kind(session, findings, result["seconds"], deadline, run)
                if session.needs_fresh_process:  # else the job is soon done again
                    send(result, False)
                if job["substitute"]:
                    result["helpers_suffice"] = checks.find_sufficient()
                if isinstance(checks, DivisionChecks):
                    result |= checks.find_parts()
                else:
                    result["helpers_used"] = checks.find_used(job["substitute"])
                result["wall_decided"] = session.wall_decided
        finally:
            session.stop()
            self.zygote.discard_used_folder()
            limit_time(0, 0)
            # Without them the answers are freed now, and no collection has to find them.
            session.decode = session.answer_callback = None  # reference cycles with the answers
            # Large answers would add up over programs; after small ones a collection costs more than it frees.
            if session.received > COLLECT_AFTER:
                gc.collect()
        return {**result, "seconds": time.monotonic() - begin}

    def _findings(
        self,
        session: ProgramSession,
        job: dict[str, Any],
        expected: Sequence[bool] = (),
        skipped: Set[int] = frozenset(),
    ) -> reports.Findings:
        """Run the tests, without the stages `skipped`, until a test fails that is `expected` to pass."""
        if not job["split"]:
            return _run_in_program(session, job, expected, skipped)
        tests = job["tests"]
        plain = not any(name in tests or name in job["preamble"] for name in BUFFERS)
        stages = [s for s, passes in zip(job["stages"], expected, strict=False) if passes]
        plan, first = self.plans.choose(job, plain, stages, session.needs_fresh_process)
        methods = frozenset(job["methods"])

        def run(plan: list[bytes], write_back: bool) -> tuple[Conversation, reports.Findings]:
            conversation = (
                PlannedConversation(
                    session, write_back, plain, methods, plan, first, pause=bool(stages)
                )
                if plan
                else Conversation(session, write_back, plain, methods)
            )
            findings = reports.Findings(job, expected)
            self._run(conversation, job, findings, skipped)
            return conversation, findings

        conversation, findings = run(plan, write_back=True)
        # Calls were made that the test does not make, and may have changed the program: run it again without a
        # plan.
        if conversation.mismatch and findings.error is None:
            if not session.request["mutation"]:
                self.plans.note_mismatch(tests)
            plan = []
            conversation, findings = run(plan, write_back=True)
        # See `Conversation.call`: changed arguments are hidden from the test in a second run.
        if (
            conversation.arguments_changed
            and findings.error is None
            and not findings.has_unexpected_failure()
        ):
            findings.add_veto(run(plan, write_back=False)[1])
        return findings

    def _run(
        self,
        conversation: Conversation,
        job: dict[str, Any],
        findings: reports.Findings,
        skipped: Set[int],
    ) -> None:
        """Run the tests once, and add to the findings."""
        conversation.count = findings.count
        session = conversation.session
        if session.received > COLLECT_AFTER:
            gc.collect()  # answers of a run before
        session.reset()
        slack = MUTANT_SLACK_SECONDS if session.request["mutation"] else SLACK_SECONDS
        seconds = max(session.deadline - time.monotonic(), 0.0)
        limit_time(session.limits["program_seconds"], seconds + slack)
        findings.error = conversation.load()
        if findings.error is not None or conversation.mismatch:
            return
        record = reports.AssertRecorder(findings.note, reports.describe_any)
        stage = _StrictStage(findings, conversation, skipped)
        try:
            self.interpreter.check(
                job, conversation.objects.function, record, stage, conversation.exceptions
            )
        except BaseException as error:
            findings.note("ended", stage.number, reports.describe_any(error))
        if self.zygote.failure is not None:
            raise self.zygote.failure
        findings.done(record.reached)
        conversation.answers.clear()


class _StrictStage(reports.StageRecorder):
    """A stage that fails if the program failed to answer in it, even if the test swallows the exception.

    No further stage runs after the first failure of a test that is expected to pass.
    """

    def __init__(
        self, findings: reports.Findings, conversation: Conversation, skipped: Set[int]
    ) -> None:
        super().__init__(findings.note, reports.describe_any, skipped)
        self.findings = findings
        self.conversation = conversation
        self.last_failure: reports.NoAnswer | None = None

    def runs(self, number: int) -> bool:
        """Begin a stage, with its own share of this process's time."""
        if self.findings.has_unexpected_failure() and not self.conversation.mismatch:
            return False
        seconds = self.conversation.session.limits["stage_seconds"]
        _signal.setitimer(_signal.ITIMER_PROF, seconds)
        return super().runs(number)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        failure = self.conversation.failure
        if failure is not None and failure is not self.last_failure:
            self.last_failure = failure
            self.send("swallowed", self.number, failure.remote)
        return super().__exit__(kind, error, traceback)


def _run_in_program(
    session: ProgramSession, job: dict[str, Any], expected: Sequence[bool], skipped_stages: Set[int]
) -> reports.Findings:
    """Run the tests in the program's process; one that hangs or dies in a stage is restarted without the stage."""
    findings = reports.Findings(job, expected)
    # A stage in which the process died is skipped in the next attempt, so each stage costs one process at most.
    skipped = sorted(skipped_stages)
    session.reset()
    session.stop()
    while not findings.has_unexpected_failure():
        findings.stage = None
        try:
            findings.error = session.failure(session.start([]))
            if findings.error is None:
                session.send([job["tests"], skipped])
                _follow(session, findings)
            return findings
        except reports.NoAnswer as error:
            if findings.stage is None:
                findings.error = None if skipped else error.remote
                return findings
            skipped.append(findings.stage)
            findings.note("ended", findings.stage, error.remote)
    return findings


def _follow(session: ProgramSession, findings: reports.Findings) -> None:
    """Record the reports that the program's process sends; raises `NoAnswer` when one cannot be true."""
    while not findings.has_unexpected_failure():
        event, content, _ = session.receive(session.limits["test_seconds"])
        findings.count(session.take_helper_calls())
        session.expect(isinstance(content, list))
        if event == "done":
            pairs = [pair for pair in content if isinstance(pair, list) and len(pair) == 2]
            findings.done({k: n for k, n in pairs if reports.is_count(k) and reports.is_count(n)})
            return
        session.expect(len(content) == 2 and type(content[0]) is int)
        number, failure = content[0], session.failure(content[1])
        end = {"test": len(findings.stages), "ended": findings.num_stages}.get(event, 0)
        if event == "stage":
            last = -1 if findings.stage is None else findings.stage
            # A forged report cannot go back to an earlier stage.
            session.expect(last < number < findings.num_stages)
        else:
            session.expect(-1 <= number < end)
        findings.note(event, number, failure)
