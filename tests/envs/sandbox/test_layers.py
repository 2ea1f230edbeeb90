"""The filter of system calls at work and number by number, and the single calls to the kernel.

Everything is tried in a process of its own; the test's own process is never confined.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from llm_decpomdp.envs.sandbox.worker.confinement import kernel, seccomp
from llm_decpomdp.envs.sandbox.worker.confinement.seccomp import LEGACY, TABLES
from tests.envs.children import child

linux = pytest.mark.skipif(not kernel.LINUX, reason="the layers are those of Linux")
needs_filter = pytest.mark.skipif(bool(seccomp.missing_support()), reason=seccomp.missing_support())

FILTERED = """
import asyncio, queue, signal, tempfile, threading, time
pair, parent, null = socket.socketpair(), os.getppid(), os.open("/dev/null", os.O_RDONLY)
datagram = socket.socketpair(type=socket.SOCK_DGRAM)[0]
inet, buffer = socket.socket(), ctypes.create_string_buffer(256)
address = ctypes.addressof(buffer)
filter = seccomp.Filter(ROLE, WRITABLE)
kernel.no_new_privileges()
filter.install()

def asynchronous():
    async def main():
        await asyncio.gather(asyncio.sleep(0.001), asyncio.to_thread(time.sleep, 0.001))
    asyncio.run(main())

def threads():
    done = queue.Queue()
    workers = [threading.Thread(target=done.put, args=(number,)) for number in range(4)]
    [worker.start() for worker in workers]
    assert sorted(done.get(timeout=60) for worker in workers) == [0, 1, 2, 3]

def alarm():
    rung = []
    signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    time.sleep(0.01)
    assert rung == [1]

def write_file():
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        with open(folder + "/a", "w+") as file:
            file.write("text")
            file.truncate(2)
        os.rename(folder + "/a", folder + "/b")
        assert open(folder + "/b").read() == "te"
"""
WORKS = {
    "read": "lambda: open(os.__file__).read(10)",
    "list": "lambda: os.listdir('/')",
    "stat": "lambda: (os.stat('/'), os.access('/', os.R_OK), os.readlink('/proc/self'))",
    "threads": "threads",
    "asyncio": "asynchronous",
    "alarm": "alarm",
    "pipe": "lambda: [os.close(end) for end in os.pipe()]",
    "memory": "lambda: bytearray(1 << 26)",
    "random": "lambda: os.urandom(8)",
    "lower a limit": "lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
    "who": "lambda: (os.getpid(), os.getuid(), os.getgroups(), os.getpgrp(), os.uname())",
    "cores": "lambda: os.sched_getaffinity(0)",
    "send": "lambda: (pair[0].sendall(b'x'), pair[1].recv(1), pair[0].setblocking(False))",
    "extension": "lambda: __import__('decimal').Decimal(1).sqrt()",
}
REFUSED = {
    "fork": "os.fork",
    "spawn": "lambda: os.posix_spawn('/bin/true', ['true'], {})",
    "execute": "lambda: os.execv('/bin/true', ['true'])",
    "kill": "lambda: os.kill(parent, 0)",
    "kill itself": "lambda: os.kill(os.getpid(), 0)",
    "kill a group": "lambda: os.killpg(0, 0)",
    "socket": "socket.socket",
    "unix socket": "lambda: socket.socket(socket.AF_UNIX)",
    "connect": "lambda: inet.connect(('127.0.0.1', 9))",
    "bind": "lambda: inet.bind(('127.0.0.1', 0))",
    "send to an address": "lambda: datagram.sendto(b'x', FOLDER + '/none')",
    "socket option": "lambda: inet.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)",
    "chmod": "lambda: os.chmod(FOLDER + '/old', 0o666)",
    "chown": "lambda: os.chown(FOLDER + '/old', -1, os.getgid())",
    "utime": "lambda: os.utime(FOLDER + '/old')",
    "link": "lambda: os.link(FOLDER + '/old', FOLDER + '/none/a')",
    "symlink": "lambda: os.symlink('old', FOLDER + '/none/a')",
    "fifo": "lambda: os.mkfifo(FOLDER + '/none/a')",
    "attribute": "lambda: os.setxattr(FOLDER + '/none', 'user.a', b'')",
    "truncate": "lambda: os.truncate(FOLDER + '/none', 0)",
    "memory file": "lambda: os.memfd_create('a')",
    "nice": "lambda: os.nice(0)",
    "affinity": "lambda: os.sched_setaffinity(0, {0})",
    "session": "os.setsid",
    "group": "lambda: os.setpgid(0, 0)",
    "user": "lambda: os.setuid(os.getuid())",
    "limit another": "lambda: resource.prlimit(parent, resource.RLIMIT_CORE)",
    "pipe size": "lambda: __import__('fcntl').fcntl(pair[0], 1031, 1 << 16)",
    "ptrace": "libc('ptrace', 0, 0, 0, 0)",
    "read another's memory": "libc('process_vm_readv', parent, 0, 0, 0, 0, 0)",
    "unshare": "libc('unshare', 0x10000000)",
    "join": "libc('setns', null, 0)",
    "mount": "libc('mount', b'none', b'/none/there', b'tmpfs', 0, None)",
    "chroot": "lambda: os.chroot('/')",
    "prctl": "lambda: kernel.prctl(4, 1)",
    "lock memory": "libc('mlock', address, 16)",
    "shared memory": "libc('shmget', 12345, 4096, 0)",
    "message queue": "libc('msgget', 12345, 0)",
    "watch files": "libc('inotify_init')",
    "load a module": "libc('delete_module', b'none', 0)",
    "handle of a process": "lambda: os.pidfd_open(parent)",
    "io_uring": "call(425, 1, address)",
    "landlock": "call(444, 0, 0, 1)",
}
NEEDS_WRITING = {"write": "write_file", "remove": "lambda: os.unlink(FOLDER + '/old')"}
EVALUATOR = {
    "receive": "lambda: pair[0].recvmsg(1, 0, socket.MSG_DONTWAIT)",
    "send": "lambda: pair[0].sendmsg([b'x'])",
    "wait": "lambda: os.waitpid(-1, os.WNOHANG)",
}
ABSENT = {"clone3": "call(435, address, 88)", "openat2": "call(437, -100, address, address, 24)"}


def tried(actions: dict[str, str], role: str, writable: bool, folder: Path) -> dict[str, str]:
    (folder / "old").write_text("")
    table = ", ".join(f"{name!r}: {action}" for name, action in actions.items())
    settings = f"ROLE, WRITABLE, FOLDER = {role!r}, {writable}, {str(folder)!r}\n"
    answers = json.loads(child(settings + FILTERED + f"outcomes({{{table}}})"))
    assert answers.keys() == actions.keys()
    return answers


@needs_filter
def test_a_candidate_may_do_what_a_program_needs(tmp_path):
    answers = tried(WORKS, "candidate", False, tmp_path)
    assert answers == dict.fromkeys(WORKS, "ok")


@needs_filter
@pytest.mark.parametrize("role", seccomp.ROLES)
def test_every_other_family_of_calls_is_refused(tmp_path, role):
    answers = tried(REFUSED | NEEDS_WRITING, role, False, tmp_path)
    assert answers == dict.fromkeys(answers, "EPERM")
    assert (tmp_path / "old").exists()


@needs_filter
def test_only_a_writable_candidate_may_write_and_remove_files(tmp_path):
    answers = tried(NEEDS_WRITING | REFUSED, "candidate", True, tmp_path)
    assert answers == dict.fromkeys(REFUSED, "EPERM") | dict.fromkeys(NEEDS_WRITING, "ok")
    assert not (tmp_path / "old").exists()


@needs_filter
def test_only_the_evaluator_may_take_part_in_the_sandboxs_protocol(tmp_path):
    assert tried(EVALUATOR, "candidate", False, tmp_path) == dict.fromkeys(EVALUATOR, "EPERM")
    answers = tried(WORKS | EVALUATOR, "evaluator", False, tmp_path)
    assert answers.pop("wait") == "ECHILD"  # it has no child here
    assert answers.pop("receive") == "EAGAIN"
    assert set(answers.values()) == {"ok"}


@needs_filter
def test_calls_whose_flags_a_filter_cannot_see_are_missing(tmp_path):
    assert tried(ABSENT, "candidate", True, tmp_path) == dict.fromkeys(ABSENT, "ENOSYS")


@needs_filter
def test_a_refused_filter_is_an_error():
    code = """
kernel.drop_capabilities()
try:
    seccomp.Filter("candidate", False).install()  # not without kernel.no_new_privileges()
except OSError as error:
    print(error)
"""
    assert "the seccomp filter was refused: Permission denied" in child(code)


# --- single calls


@linux
def test_only_the_kept_descriptors_stay_open():
    for close in ("kernel.close_descriptors([9, 1, 5])", "kernel._close_listed([1, 5, 9])"):
        code = f"""
for number in range(3, 12):
    os.dup2(1, number)
{close}
opened = lambda number: outcome(lambda: os.fstat(number)) == "ok"
print([number for number in range(100) if opened(number)])
"""
        assert child(code) == "[1, 5, 9]\n"


@linux
def test_a_process_gives_up_its_rights():
    code = """
kernel.no_new_privileges()
kernel.not_dumpable()
kernel.drop_capabilities()
kernel.drop_capabilities()
with open("/proc/thread-self/status") as file:
    print(json.dumps(dict(line.strip().partition(":")[::2] for line in file)))
print(kernel.prctl(3), outcome(lambda: os.chroot("/")))
"""
    status, rest = child(code).splitlines()
    fields = json.loads(status)
    assert fields["NoNewPrivs"] == "\t1"
    sets = ["CapInh", "CapPrm", "CapEff", "CapAmb"] + ["CapBnd"] * (os.getuid() == 0)
    assert {name: int(fields[name], 16) for name in sets} == dict.fromkeys(sets, 0)
    assert rest == "0 EPERM"


@linux
def test_a_child_dies_with_its_parent():
    code = """
import time
ends = os.pipe()
if os.fork() == 0:
    kernel.die_with_parent()
    os.write(ends[1], b"x")
    time.sleep(60)
os.read(ends[0], 1)
"""
    assert child(code) == ""  # would wait for the child, which holds its output open


@linux
def test_a_refused_call_says_which_and_why():
    code = """
try:
    kernel.syscall(9999)
except OSError as error:
    print(error)
"""
    assert child(code) == "[Errno 38] system call 9999: Function not implemented\n"


# --- the filter's program, for both machines


def decide(program, machine: str, number: int, arguments=()) -> int:
    """Run a filter as the kernel would; return its decision without the constant part."""
    data = {seccomp.NUMBER: number, seccomp.ARCHITECTURE: seccomp.ARCHITECTURES[machine]}
    for index, argument in enumerate((*arguments, *[0] * 6)[:6]):
        data[16 + 8 * index] = argument & 0xFFFFFFFF
        data[20 + 8 * index] = argument >> 32 & 0xFFFFFFFF
    position = accumulator = 0
    while True:
        operation, if_true, if_false, constant = program[position]
        position += 1
        if operation == seccomp.RETURN:
            return constant
        if operation == seccomp.LOAD:
            accumulator = data[constant]
        elif operation == seccomp.AND:
            accumulator &= constant
        else:
            holds = {
                seccomp.IF_EQUAL: accumulator == constant,
                seccomp.IF_AT_LEAST: accumulator >= constant,
                seccomp.IF_ANY_BIT: bool(accumulator & constant),
            }[operation]
            position += if_true if holds else if_false


ALLOW, DENY, MISSING, KILL = (
    rule[0][3] for rule in (seccomp.ALLOW, seccomp.DENY, seccomp.MISSING, seccomp.KILL)
)


@pytest.mark.parametrize("machine", TABLES)
@pytest.mark.parametrize(
    ("role", "writable"), [("candidate", False), ("candidate", True), ("evaluator", False)]
)
def test_every_number_gets_its_rule_and_all_others_are_denied(machine, role, writable):
    program = seccomp.program(role, writable, machine)
    rules = seccomp.policy(role, writable, machine)
    plain = {TABLES[machine][name]: rule[0][3] for name, rule in rules.items() if len(rule) == 1}
    limited = {TABLES[machine][name] for name, rule in rules.items() if len(rule) > 1}
    for number in {*range(1000), 0x3FFFFFFF} - limited:
        assert decide(program, machine, number) == plain.get(number, DENY), number
    for number in (0x40000000, 0x40000002, 0xFFFFFFFF):
        assert decide(program, machine, number) == KILL


@pytest.mark.parametrize("machine", TABLES)
def test_another_architecture_is_killed(machine):
    foreign = next(name for name in TABLES if name != machine)
    assert decide(seccomp.program("candidate", False, machine), foreign, 0) == KILL


@pytest.mark.parametrize("machine", TABLES)
@pytest.mark.parametrize(
    ("name", "arguments", "writable", "decision"),
    [
        ("clone", [0x3D0F00], False, ALLOW),  # a thread of glibc
        ("clone", [0x7D0F00], False, ALLOW),  # a thread of musl
        ("clone", [0x1200011], False, DENY),  # fork
        ("clone", [0x3D0F00 | 0x10000000], False, DENY),  # with a user namespace
        ("openat", [-100, 0, os.O_RDONLY | 0o2000000], False, ALLOW),
        ("openat", [-100, 0, os.O_WRONLY], False, DENY),
        ("openat", [-100, 0, os.O_RDWR], False, DENY),
        ("openat", [-100, 0, os.O_CREAT], False, DENY),
        ("openat", [-100, 0, os.O_TRUNC], False, DENY),
        ("openat", [-100, 0, 0o20000000], False, DENY),  # O_TMPFILE
        ("openat", [-100, 0, 0o10000000], False, DENY),  # O_PATH
        ("openat", [-100, 0, os.O_WRONLY | os.O_CREAT | os.O_TRUNC], True, ALLOW),
        ("openat", [-100, 0, os.O_RDWR | os.O_APPEND], True, ALLOW),
        ("openat", [-100, 0, os.O_RDONLY | os.O_TRUNC], True, DENY),
        ("openat", [-100, 0, 0o10000000], True, DENY),
        ("fcntl", [3, 2, 1], False, ALLOW),  # F_SETFD
        ("fcntl", [3, 1030], False, ALLOW),  # F_DUPFD_CLOEXEC
        ("fcntl", [3, 8, 1], False, DENY),  # F_SETOWN
        ("fcntl", [3, 1031, 1 << 20], False, DENY),  # F_SETPIPE_SZ
        ("ioctl", [0, 0x5401], False, ALLOW),  # TCGETS
        ("ioctl", [0, 0x5412], False, DENY),  # TIOCSTI
        ("prlimit64", [0, 7, 1], False, ALLOW),
        ("prlimit64", [1, 7, 1], False, DENY),
        ("socketpair", [1, 1, 0], False, ALLOW),
        ("socketpair", [2, 1, 0], False, DENY),
        ("sendto", [3, 1, 1, 0, 0], False, ALLOW),
        ("sendto", [3, 1, 1, 0, 0x1000], False, DENY),
        ("sendto", [3, 1, 1, 0, 1 << 32], False, DENY),
        ("getsockopt", [3, 1, 3], False, ALLOW),  # SO_TYPE
        ("getsockopt", [3, 1, 17], False, DENY),  # SO_PEERCRED
        ("getsockopt", [3, 6, 3], False, DENY),
    ],
)
def test_arguments_decide(machine, name, arguments, writable, decision):
    program = seccomp.program("candidate", writable, machine)
    assert decide(program, machine, TABLES[machine][name], arguments) == decision


def test_both_machines_have_every_call_but_the_old_ones_of_x86_64():
    for role in seccomp.ROLES:
        names = {*seccomp.policy(role, True, "x86_64")}
        assert names <= {*TABLES["x86_64"]}
        assert names - LEGACY == {*seccomp.policy(role, True, "aarch64")} <= {*TABLES["aarch64"]}
    names_in_use = {n for role in seccomp.ROLES for n in seccomp.policy(role, True, "x86_64")}
    assert names_in_use == {*TABLES["x86_64"]}, "names that no policy uses"


@pytest.mark.parametrize(
    ("machine", "header"),
    [
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        ("aarch64", "/usr/include/asm-generic/unistd.h"),
    ],
)
def test_numbers_are_those_of_the_kernels_headers(machine, header):
    if not Path(header).is_file():
        pytest.skip(f"{header} is not installed")
    text = Path(header).read_text()
    numbers = dict(re.findall(r"#define (__NR(?:3264)?_\w+) (\d+)", text))
    renamed = dict(re.findall(r"#define (__NR_\w+) (__NR3264_\w+)", text))
    for name, number in TABLES[machine].items():
        define = f"__NR_{name}"
        assert int(numbers[renamed.get(define, define)]) == number, name


def test_the_policy_for_an_unknown_role_names_the_roles():
    with pytest.raises(ValueError, match="'judge'; there are candidate, evaluator"):
        seccomp.policy("judge", False, "x86_64")


def test_the_evaluator_may_do_little_more_than_a_candidate():
    candidate = {*seccomp.allowed_calls("candidate", False, "x86_64")}
    evaluator = {*seccomp.allowed_calls("evaluator", False, "x86_64")}
    assert evaluator - candidate == {"recvmsg", "sendmsg", "wait4"}
    assert candidate < evaluator
    assert "clone3" not in candidate and "openat" in candidate
