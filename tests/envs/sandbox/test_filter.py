"""The filter's program, decided number by number as the kernel would, for both machines."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from llm_decpomdp.envs.sandbox.worker.confinement import seccomp
from llm_decpomdp.envs.sandbox.worker.confinement.seccomp import LEGACY, TABLES


def decide(program, machine: str, number: int, arguments=()) -> int:
    """Runs a filter as the kernel would; returns its verdict without the constant part."""
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
    ("name", "arguments", "writable", "verdict"),
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
def test_arguments_decide(machine, name, arguments, writable, verdict):
    program = seccomp.program("candidate", writable, machine)
    assert decide(program, machine, TABLES[machine][name], arguments) == verdict


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
