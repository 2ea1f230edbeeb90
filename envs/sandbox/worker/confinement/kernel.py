"""System calls and libc functions that Python's standard library lacks.

Needs only ctypes, as the sandbox's processes start without the package. On a system other than Linux every
function raises OSError(ENOSYS), except `close_descriptors` and `trim_heap`, which work everywhere.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import sys
from collections.abc import Iterable

LINUX = sys.platform == "linux"

# `use_errno` keeps errno from being overwritten between the call and `get_errno`.
libc = ctypes.CDLL(None, use_errno=True)

CLOSE_RANGE = 436  # the same number on every machine
LAST_DESCRIPTOR = 2**32 - 1
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
CAPABILITY_VERSION = 0x20080522
SIGKILL = 9
FIRST_USER = 2**30  # first of the user ids that no user has
# Processes and threads allowed beyond those at a worker's start, where all of a user's are counted together.
MORE_TASKS = 4096

if LINUX:
    # The default, `int`, would cut addresses and -1 on 64 bits.
    libc.syscall.restype = ctypes.c_long
    libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)


def require_linux() -> None:
    """Raise OSError(ENOSYS) on other systems."""
    if not LINUX:
        raise OSError(errno.ENOSYS, "not on this system")


def check_result(result: int, call: str) -> int:
    """Return the result of a call into libc; raises OSError with errno and the name of the call if it is -1."""
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {os.strerror(code)}")
    return result


def syscall(number: int, *arguments: int) -> int:
    """Make a system call; pointers are passed as addresses. Raises OSError if the kernel refuses or lacks it."""
    require_linux()
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return check_result(result, f"system call {number}")


def prctl(option: int, first: int = 0, second: int = 0) -> int:
    """Call `prctl` with two arguments."""
    require_linux()
    return check_result(libc.prctl(option, first, second, 0, 0), f"prctl({option})")


def no_new_privileges() -> None:
    """Keep programs that this process or its children start from gaining rights; Landlock and seccomp need it."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def die_with_parent() -> None:
    """End this process when its parent's thread ends; a parent that has already ended goes unnoticed."""
    prctl(PR_SET_PDEATHSIG, SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def not_dumpable() -> None:
    """Disable core dumps, and access to this process's memory by others of the same user."""
    prctl(PR_SET_DUMPABLE, 0)


def be_counted_apart() -> bool:
    """Have limits count a process of root and its descendants apart from all others; return False if they do not.

    The process gets a separate real user, as limits on processes and threads do not apply to root. File access
    depends on the effective user, which stays the same.
    """
    if os.geteuid() != 0:
        return False
    _, highest = resource.getrlimit(resource.RLIMIT_NPROC)
    # In a new user namespace it applies to all of root's processes together: where it is low, nothing is done.
    if highest != resource.RLIM_INFINITY and highest < tasks() + MORE_TASKS:
        return False
    resource.setrlimit(resource.RLIMIT_NPROC, (highest, highest))
    try:
        os.setresuid(FIRST_USER + os.getpid(), -1, -1)
    except OSError:  # a container without that right, or without such users
        return False
    return True


def tasks() -> int:
    """Return the number of processes and threads of the whole system; 0 if unknown."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[3].partition("/")[2])
    except FileNotFoundError:
        return 0


def drop_capabilities() -> None:
    """Give up all capabilities for good; does nothing in a process that has none."""
    require_linux()
    # The kernel has 41 capabilities today; the loop ends at the first unknown one, or at the first that cannot be
    # dropped: only a process with CAP_SETPCAP may drop any, and only it has any.
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == -1:
            break
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    # Version 3 of the interface: two words for each of three sets.
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    check_result(libc.capset(header, nothing), "capset")


def trim_heap() -> None:
    """Return free memory to the system, where the C library can."""
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def close_descriptors(keep: Iterable[int]) -> None:
    """Close all file descriptors, 0 to 2 included, that are not in `keep`."""
    excluded = sorted(set(keep))
    starts = [0, *(descriptor + 1 for descriptor in excluded)]
    ends = [*(descriptor - 1 for descriptor in excluded), LAST_DESCRIPTOR]
    try:
        for start, end in zip(starts, ends, strict=True):
            if start <= end:
                syscall(CLOSE_RANGE, start, end, 0)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):  # an old kernel, or a container's filter
            raise
        _close_listed(excluded)


def _close_listed(excluded: list[int]) -> None:
    for descriptor in map(int, os.listdir("/dev/fd")):
        if descriptor not in excluded:
            try:
                os.close(descriptor)
            except OSError:
                continue  # the descriptor of the listing itself


def lower_limit(limit: int, value: int, hard: int | None = None) -> None:
    """Set a soft limit on a resource, and the `hard` one (by default the same), unless they are lower already."""
    _, highest = resource.getrlimit(limit)
    hard = value if hard is None else hard
    if highest != resource.RLIM_INFINITY:
        value, hard = min(value, highest), min(hard, highest)
    resource.setrlimit(limit, (value, hard))
