"""Allow-list of the system calls of a sandboxed process; the kernel refuses all others.

Every refused call fails with EPERM, also dangerous ones such as ptrace and bpf: the program then sees a
PermissionError and gets the ordinary status `forbidden`, where killing it would look like a crash. It gains
nothing by continuing. Only a call of another architecture kills, since its numbers mean other calls.

The filter is a binary search over the numbers, because the kernel runs it for every number when it installs
it. It checks numbers and flags only, never paths, which Landlock restricts.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

from llm_decpomdp.envs.sandbox.worker.confinement import kernel

# Operation, instructions to skip if true and if false, and a constant.
Instruction = tuple[int, int, int, int]
Rule = tuple[Instruction, ...]  # instructions for one system call; the last one is a return

ROLES = ("candidate", "evaluator")
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32 = 0x40000000  # the bit of x86_64's other set of system calls
SECCOMP_MODE_FILTER = 2
LOAD, AND, RETURN = 0x20, 0x54, 0x06
IF_EQUAL, IF_AT_LEAST, IF_ANY_BIT = 0x15, 0x35, 0x45
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in the kernel's struct seccomp_data
UPPER = 0.5  # added to an argument's index: its upper half; flags are in the lower one
ALLOW: Rule = ((RETURN, 0, 0, 0x7FFF0000),)
KILL: Rule = ((RETURN, 0, 0, 0x80000000),)
DENY: Rule = ((RETURN, 0, 0, 0x00050000 | errno.EPERM),)
# Not EPERM: libc takes that for a refusal and gives up.
MISSING: Rule = ((RETURN, 0, 0, 0x00050000 | 38),)  # ENOSYS: libc then takes the older call

PLAIN = """
    read write readv writev pread64 pwrite64 preadv pwritev close close_range lseek dup dup2 dup3 pipe pipe2
    fstat newfstatat stat lstat statx access faccessat faccessat2 readlink readlinkat getdents64
    getcwd chdir fchdir fsync fdatasync
    mmap mprotect munmap mremap brk madvise membarrier
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack pause
    select poll ppoll pselect6 epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd2
    nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times
    setitimer getitimer alarm restart_syscall
    getpid gettid getppid getpgrp getpgid getsid getuid geteuid getgid getegid getresuid getresgid getgroups
    uname sysinfo getrusage getrlimit setrlimit getrandom getcpu sched_yield sched_getaffinity
    futex set_tid_address set_robust_list rseq exit exit_group
    recvfrom shutdown getsockname
"""
"""Calls of all roles. Limits can only be lowered without capabilities. The calls on sockets are for asyncio's pair
of connected ones, which no call here can name or connect to anything else."""

# Calls of a candidate with a private folder. Not truncate: Landlock does not cover it before ABI 3.
WRITING = "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 ftruncate"
# Calls of the evaluator: it receives each candidate's channel over a socket, and reaps its zygote.
EVALUATING = "recvmsg sendmsg wait4"
# Python and libc fall back to `clone` and `openat`, whose flags the filter can check.
ABSENT = "clone3 openat2"  # calls whose flags lie in memory, which a filter cannot read
O_ACCMODE, O_CREAT, O_TRUNC, O_APPEND = 0o3, 0o100, 0o1000, 0o2000  # of the first, 0 is reading
O_PATH, O_TMPFILE = 0o10000000, 0o20000000  # of O_TMPFILE, the bit that O_DIRECTORY lacks
CLONE_THREAD = 0x10000
NOT_OF_THREADS = 0xFFFFFFFF ^ 0x7D0F00  # all but the flags of pthread_create, in glibc and in musl
FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 1030)  # F_DUPFD to F_SETLKW and F_DUPFD_CLOEXEC
IOCTL = (0x5401, 0x5421, 0x5450, 0x5451)  # TCGETS (is it a terminal?), FIONBIO, FIONCLEX, FIOCLEX
AF_UNIX = 1
SOL_SOCKET, SOCKET_OPTIONS = 1, (3, 4, 38, 39)  # SO_TYPE, SO_ERROR, SO_PROTOCOL, SO_DOMAIN

# name, number on x86_64, number on aarch64; `-`: aarch64 never had this one and has a younger call instead.
_ROWS = """
access 21 -, alarm 37 -, brk 12 214, chdir 80 49, clock_getres 229 114, clock_gettime 228 113,
clock_nanosleep 230 115, clone 56 220, clone3 435 435, close 3 57, close_range 436 436,
dup 32 23, dup2 33 -, dup3 292 24, epoll_create1 291 20, epoll_ctl 233 21, epoll_pwait 281 22,
epoll_pwait2 441 441, epoll_wait 232 -, eventfd2 290 19, exit 60 93, exit_group 231 94,
faccessat 269 48, faccessat2 439 439, fchdir 81 50, fcntl 72 25, fdatasync 75 83, fstat 5 80,
fsync 74 82, ftruncate 77 46, futex 202 98, getcpu 309 168, getcwd 79 17, getdents64 217 61,
getegid 108 177, geteuid 107 175, getgid 104 176, getgroups 115 158, getitimer 36 102,
getpgid 121 155, getpgrp 111 -, getpid 39 172, getppid 110 173, getrandom 318 278,
getresgid 120 150, getresuid 118 148, getrlimit 97 163, getrusage 98 165, getsid 124 156,
getsockname 51 204, getsockopt 55 209, gettid 186 178, gettimeofday 96 169, getuid 102 174,
ioctl 16 29, lseek 8 62, lstat 6 -, madvise 28 233, membarrier 324 283, mkdir 83 -,
mkdirat 258 34, mmap 9 222, mprotect 10 226, mremap 25 216, munmap 11 215, nanosleep 35 101,
newfstatat 262 79, open 2 -, openat 257 56, openat2 437 437, pause 34 -, pipe 22 -, pipe2 293 59,
poll 7 -, ppoll 271 73, pread64 17 67, preadv 295 69, prlimit64 302 261, pselect6 270 72,
pwrite64 18 68, pwritev 296 70, read 0 63, readlink 89 -, readlinkat 267 78, readv 19 65,
recvfrom 45 207, recvmsg 47 212, rename 82 -, renameat 264 38, renameat2 316 276,
restart_syscall 219 128, rmdir 84 -, rseq 334 293, rt_sigaction 13 134, rt_sigpending 127 136,
rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigsuspend 130 133, rt_sigtimedwait 128 137,
sched_getaffinity 204 123, sched_yield 24 124, select 23 -, sendmsg 46 211, sendto 44 206,
set_robust_list 273 99, set_tid_address 218 96, setitimer 38 103, setrlimit 160 164,
shutdown 48 210, sigaltstack 131 132, socketpair 53 199, stat 4 -, statx 332 291, sysinfo 99 179,
time 201 -, times 100 153, uname 63 160, unlink 87 -, unlinkat 263 35, wait4 61 260, write 1 64,
writev 20 66
"""

_NUMBERS = [row.split() for row in _ROWS.split(",")]
TABLES = {
    "x86_64": {name: int(number) for name, number, _ in _NUMBERS},
    "aarch64": {name: int(number) for name, _, number in _NUMBERS if number != "-"},
}
"""Numbers by name, by machine as `os.uname` names it."""
LEGACY = TABLES["x86_64"].keys() - TABLES["aarch64"].keys()  # names that only x86_64 has


class Filter:
    """The filter of one of `ROLES`, built once so that installing it in a new child is a single call.

    `writable` allows opening files for writing. Only with Landlock active: it restricts writing to the private
    folder, which a filter cannot. Raises OSError if the system has no such filters.
    """

    def __init__(self, role: str, writable: bool) -> None:
        reason = missing_support()
        if reason:
            raise OSError(errno.ENOSYS, reason)
        instructions = program(role, writable, os.uname().machine)
        code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
        # Kept alive by this object: the kernel reads both at each installation.
        self._code = ctypes.create_string_buffer(code, len(code))
        header = struct.pack("@HP", len(instructions), ctypes.addressof(self._code))
        self._header = ctypes.create_string_buffer(header, len(header))
        self._address = ctypes.addressof(self._header)

    def install(self) -> None:
        """Confine this process and its children for good; needs `kernel.no_new_privileges()` before."""
        if kernel.libc.prctl(kernel.PR_SET_SECCOMP, SECCOMP_MODE_FILTER, self._address, 0, 0):
            code = ctypes.get_errno()
            raise OSError(code, f"the seccomp filter was refused: {os.strerror(code)}")


def missing_support() -> str:
    """Return the reason why no filter can be installed here; empty if one can."""
    if not kernel.LINUX:
        return "not on this system"
    machine = os.uname().machine
    if machine not in TABLES or sys.maxsize < 2**32:
        bits, machines = struct.calcsize("P") * 8, ", ".join(TABLES)
        return f"no table of system calls for {bits} bits of {machine}; there are {machines}"
    # With filters, the kernel looks for the program at address 0 and finds none.
    kernel.libc.prctl(kernel.PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0, 0, 0)
    code = ctypes.get_errno()
    if code != errno.EFAULT:
        return f"the kernel has no seccomp filters: {os.strerror(code)}"
    return ""


def allowed_calls(role: str, writable: bool, machine: str) -> list[str]:
    """Return the names of the system calls that a role may make, those with restricted arguments included."""
    rules = policy(role, writable, machine)
    return sorted(name for name, rule in rules.items() if rule not in (DENY, MISSING))


def policy(role: str, writable: bool, machine: str) -> dict[str, Rule]:
    """Return the rule of each system call that the policy names; all others are denied."""
    if role not in ROLES:
        raise ValueError(f"unknown role {role!r}; there are {', '.join(ROLES)}")
    names = PLAIN.split()
    names += WRITING.split() if writable else []
    names += EVALUATING.split() if role == "evaluator" else []
    rules = dict.fromkeys(names, ALLOW) | dict.fromkeys(ABSENT.split(), MISSING)
    rules |= {
        "open": _open(1, writable),
        "openat": _open(2, writable),
        "clone": (*_require_clear(0, NOT_OF_THREADS), *_require_set(0, CLONE_THREAD), *ALLOW),
        "fcntl": (*_require_value(1, *FCNTL), *ALLOW),
        "ioctl": (*_require_value(1, *IOCTL), *ALLOW),
        # Another process's limits could end the evaluator.
        "prlimit64": (*_require_value(0, 0), *ALLOW),  # of this process
        "socketpair": (*_require_value(0, AF_UNIX), *ALLOW),
        "sendto": (*_require_value(4, 0), *_require_value(4 + UPPER, 0), *ALLOW),  # no address
        "getsockopt": (*_require_value(1, SOL_SOCKET), *_require_value(2, *SOCKET_OPTIONS), *ALLOW),
    }
    return {name: rule for name, rule in rules.items() if name in TABLES[machine]}


def program(role: str, writable: bool, machine: str) -> list[Instruction]:
    """Assemble the filter: check the architecture, find the number, apply its rule."""
    numbers = TABLES[machine]
    rules = {numbers[name]: rule for name, rule in policy(role, writable, machine).items()}
    ranges: list[tuple[int, Rule]] = []  # first number, and the rule up to the next range
    for number in range(max(rules) + 2):
        rule = rules.get(number, DENY)
        if not ranges or ranges[-1][1] != rule:
            ranges.append((number, rule))
    # Numbers of the x32 set mean other calls than the filter knows.
    ranges.append((X32, KILL))
    return [
        (LOAD, 0, 0, ARCHITECTURE),
        # First, since all numbers depend on it: 32-bit calls have others.
        (IF_EQUAL, 1, 0, ARCHITECTURES[machine]),
        *KILL,
        (LOAD, 0, 0, NUMBER),
        *_search(ranges),
    ]


def _search(ranges: list[tuple[int, Rule]]) -> list[Instruction]:
    if len(ranges) == 1:
        return list(ranges[0][1])
    middle = len(ranges) // 2
    below, above = _search(ranges[:middle]), _search(ranges[middle:])
    assert len(below) < 256, f"a jump over {len(below)} instructions does not fit into its byte"
    return [(IF_AT_LEAST, len(below), 0, ranges[middle][0]), *below, *above]


def _open(argument: int, writable: bool) -> Rule:
    if not writable:
        writing = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | O_TMPFILE
        return (*_require_clear(argument, writing | O_PATH), *ALLOW)
    # Landlock asks for the right to write by the access mode alone before ABI 3, so no O_TRUNC without one.
    mask = (AND, 0, 0, O_ACCMODE | O_TRUNC)
    truncates_unseen = (_load(argument), mask, (IF_EQUAL, 0, 1, O_TRUNC), *DENY)
    return (*_require_clear(argument, O_PATH), *truncates_unseen, *ALLOW)


# Each of these denies the call if the argument is not as required, and falls through otherwise.


def _load(argument: float) -> Instruction:
    return (LOAD, 0, 0, ARGUMENTS + int(8 * argument))


def _require_value(argument: float, *values: int) -> Rule:
    jumps = range(len(values), 0, -1)
    tests = tuple((IF_EQUAL, jump, 0, value) for jump, value in zip(jumps, values, strict=True))
    return (_load(argument), *tests, *DENY)


def _require_clear(argument: float, bits: int) -> Rule:
    return (_load(argument), (IF_ANY_BIT, 0, 1, bits), *DENY)


def _require_set(argument: float, bits: int) -> Rule:
    return (_load(argument), (IF_ANY_BIT, 1, 0, bits), *DENY)
