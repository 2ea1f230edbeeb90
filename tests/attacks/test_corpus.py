"""The corpus against the sandbox, in every isolation mode that this machine offers."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Container, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache
from multiprocessing import get_context

import pytest

from llm_decpomdp.envs.sandbox import Execution, Outcome
from tests.attacks.canaries import overhear, provoke
from tests.attacks.entries import (
    ALL,
    CORPUS,
    ENTRIES,
    QUICK_ENTRIES,
    TEAM_ENTRIES,
    Entry,
    load,
)
from tests.attacks.running import MODES, Result, judge, lacking, run_all
from tests.attacks.targets import adopt_orphans, descendants, end
from tests.support.processes import python

JOBS = 2
SECONDS = 0.3  # limit on loading and on a call; few programs need more than some hundredths
HONEST_SECONDS = 5.0  # the same for programs that deserve to pass: they end, also on a slow machine
NOBODY = 65534
CATEGORIES = frozenset(entry.category for entry in ENTRIES.values())
WITHOUT_ALL = tuple(mode for mode in MODES if mode != "full")
GRADING = frozenset(
    {"benign", "comparison_tricks", "interpreter_tampering", "result_forging", "test_reading"}
)
"""Categories that are about the result; in the others, it is the lack of layers that decides."""


@cache
def results_of(mode: str, every: bool, categories: Container[str] = CATEGORIES) -> list[Result]:
    """Return the results of the programs of some categories, or of a fourth of each kind."""
    reason = lacking(MODES[mode])
    if reason:
        pytest.skip(f"this machine does not offer the mode {mode!r}: {reason}")
    names = [
        name
        for name in (ENTRIES if every else QUICK_ENTRIES)
        if ENTRIES[name].category in categories
    ]
    honest = [name for name in names if ENTRIES[name].honest == "pass"]
    rest = [name for name in names if ENTRIES[name].honest != "pass"]
    results = run_all(rest, MODES[mode], SECONDS, JOBS)
    return results + run_all(honest, MODES[mode], HONEST_SECONDS, JOBS)


def lines(results: list[Result]) -> str:
    return "\n".join(f"{r.judgement} {r.entry}: {r.detail}" for r in results)


def test_the_corpus_is_large_and_its_labels_are_of_those_that_the_readme_names() -> None:
    labels = Counter(entry.honest for entry in ENTRIES.values())
    assert labels.keys() == {"pass", "fail", "some", "any"}
    assert len(ENTRIES) >= 550 and len(TEAM_ENTRIES) >= 630
    assert sum(entry.category == "benign" for entry in ENTRIES.values()) >= 115
    layers = frozenset[str]().union(*(entry.stopped_by for entry in ENTRIES.values()))
    assert layers == {"namespaces", "landlock", "seccomp"}
    assert all(entry.completions.keys() == {"main"} for entry in ENTRIES.values())
    assert all(entry.completions.keys() == {"aux", "main"} for entry in TEAM_ENTRIES.values())
    readme = (CORPUS / "README.md").read_text()
    assert all(f"`{entry.category}" in readme for entry in ENTRIES.values())


def test_a_file_holds_its_programs_to_the_byte() -> None:
    paths = list(CORPUS.rglob("*.txt"))
    assert len(ALL) == sum(len(load(path)) for path in paths)  # every name occurs once
    assert ALL["benign/no_newline_at_the_end"].completions["main"] == "def sq(x): return x*x"
    spaces = ALL["benign/form_feed_and_trailing_spaces"].completions["main"]
    assert spaces.endswith("\n\n") and any(line.endswith(" ") for line in spaces.split("\n"))
    assert ALL["denial_of_service/a_million_lines"].completions["main"].count("x = 0\n") == 10**6
    assert "\0" in ALL["denial_of_service/null_bytes"].completions["main"]


@pytest.mark.parametrize(
    ("mode", "every"),
    [
        ("full", False),
        pytest.param("full", True, marks=pytest.mark.slow),
        pytest.param("without namespaces", True, marks=pytest.mark.slow),
    ],
)
def test_nothing_is_fooled_harmed_hung_or_wrong(mode: str, every: bool) -> None:
    results = results_of(mode, every)
    bad = [result for result in results if result.judgement != "ok" and not result.known]
    assert results and not bad, lines(bad)


@pytest.mark.parametrize(
    ("mode", "every"),
    [
        ("bare", False),
        *(pytest.param(mode, True, marks=pytest.mark.slow) for mode in WITHOUT_ALL),
    ],
)
def test_fewer_layers_leave_the_results_honest(mode: str, every: bool) -> None:
    results = [result for result in results_of(mode, every, GRADING) if not result.known]
    bad = [result for result in results if result.judgement in ("fooled", "hung")]
    assert results and not bad, lines(bad)


@pytest.mark.parametrize(
    "options", [["--quick", "--fourth"], pytest.param([], marks=pytest.mark.slow)]
)
def test_the_corpus_comes_to_nothing_for_an_unprivileged_user(options: list[str]) -> None:
    if os.geteuid() != 0:
        pytest.skip("the tests run as one already")
    with tempfile.TemporaryDirectory(prefix="nobody-") as home:
        os.chown(home, NOBODY, NOBODY)
        unprivileged = {
            "env": {"HOME": home, "TMPDIR": home, "PATH": os.defpath},
            **{"user": NOBODY, "group": NOBODY, "extra_groups": []},
        }
        try:
            load = python("-B", "-c", "import tests.attacks.running", check=False, **unprivileged)
        except PermissionError as error:
            pytest.skip(f"an unprivileged user cannot read the interpreter: {error}")
        if load.returncode:
            reason = (load.stderr.splitlines() or ["no reason"])[-1]
            pytest.skip(f"an unprivileged user cannot read the checkout: {reason}")
        limits = ["--seconds", str(SECONDS), "--jobs", str(JOBS)]
        command = ("-B", "-m", "tests.attacks", "--without", *limits, *options)
        run = python(*command, check=False, **unprivileged)
    assert run.returncode == 0, run.stdout + run.stderr


# The harness itself: what it says of a sandbox that fails.


@pytest.mark.parametrize(
    ("honest", "passed", "harm", "judgement"),
    [
        ("fail", (False, False), [], "ok"),
        ("fail", (False, True), [], "fooled"),
        ("some", (True, False), [], "ok"),
        ("some", (True, True), [], "fooled"),
        ("some", (False, False), [], "wrong"),
        ("pass", (True, True), [], "ok"),
        ("pass", (True, False), [], "wrong"),
        ("pass", (), [], "wrong"),
        ("any", (True, False), [], "ok"),
        ("any", (), ["marker exists"], "harmed"),
        ("fail", (True, True), ["marker exists"], "fooled"),
        ("any", None, [], "hung"),
        ("any", None, ["the sandbox raised SandboxError"], "harmed"),
    ],
)
def test_judgements(
    honest: str, passed: tuple[bool, ...] | None, harm: list[str], judgement: str
) -> None:
    outcomes = tuple(Outcome("", ok) for ok in passed or ())
    execution = None if passed is None else Execution(outcomes, None, "", 0.1)
    assert judge(Entry("category", "name", {}, honest), execution, harm) == judgement


def test_slow_executions_hang() -> None:
    entry = Entry("category", "name", {}, "any")
    assert judge(entry, Execution((), None, "", 100.0), []) == "hung"


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ProcessPoolExecutor]:
    """Another process, which canaries may adopt orphans in and clear of children."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.mark.skipif(sys.platform != "linux", reason="some deeds are seen on Linux only")
@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("open('@MARKER@', 'w').close()", "marker"),
        ("open('@HOME@/.bashrc', 'a').write('x')", "contents"),
        ("import os; os.chmod('@HOME@/notes.txt', 0o777)", "mode"),
        ("import os; os.utime('@HOME@/notes.txt', (0, 0))", "times"),
        ("import os; os.remove('@HOME@/notes.txt')", "is gone"),
        ("import os; os.symlink('/', '@HOME@/link')", "appeared"),
        ("import socket; socket.create_connection(('127.0.0.1', @TCP_PORT@)).close()", "TCP"),
        ("import socket as s; s.socket(2, 2).sendto(b'x', ('127.0.0.1', @UDP_PORT@))", "UDP"),
        ("import socket as s; s.socket(1, 1).connect('@UNIX_SOCKET@')", "unix socket"),
        ("import socket as s; s.socket(1, 2).sendto(b'x', '@UNIX_SOCKET@.datagram')", "datagram"),
        ("import os; os.kill(@PID@, 9)", "died"),
        ("import os; os.kill(@PID@, 19)", "stopped"),
        ("import os; os.kill(@PID@, 10)", "signal 10"),
        ("import os; os.setpriority(os.PRIO_PROCESS, @PID@, 19)", "priority"),
        ("import tempfile; tempfile.mkdtemp()", "temporary files"),
        ("import subprocess; subprocess.Popen(['sleep', '30'])", "processes"),
        ("import os; os.fork() or (os.fork() or os.execlp('sleep', 'sleep', '9')) and os._exit(0)", "processes"),
    ],
)  # fmt: skip
def test_canaries_notice(elsewhere: ProcessPoolExecutor, deed: str, words: str) -> None:
    before, after, mended = elsewhere.submit(provoke, deed).result(300)
    assert before == [] and mended == []
    assert any(words in line for line in after), after


def slipped_away(times: int) -> int:
    """Count looks that overlooked a process whose parent ended meanwhile."""
    adopt_orphans()
    overlooked = 0
    for _ in range(times):
        if os.fork() == 0:
            if os.fork() == 0:
                time.sleep(60)
            os._exit(0)
        overlooked += not all(descendants() for _ in range(20))
        end(descendants())
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
    return overlooked


@pytest.mark.skipif(sys.platform != "linux", reason="processes are seen on Linux only")
def test_no_process_slips_away_between_two_looks(elsewhere: ProcessPoolExecutor) -> None:
    assert elsewhere.submit(slipped_away, 50).result(300) == 0


def test_canaries_notice_secrets_and_boasts(elsewhere: ProcessPoolExecutor) -> None:
    outcome = Outcome("case", False, "error", "ValueError: @SECRET_FILE@")
    assert not elsewhere.submit(overhear, Execution((outcome,), None, "hello", 0.1)).result(300)
    for execution in (
        Execution((replace(outcome, message="ValueError: @SECRET@"),), None, "", 0.1),
        Execution((), Outcome("", False, "error", "@SECRET@"), "", 0.1),
        Execution((), None, "the secret: @SECRET@", 0.1),
        Execution((), None, "escaped: far away", 0.1),
    ):
        assert elsewhere.submit(overhear, execution).result(300), execution
