"""Pieces of programs that many attacks share.

Every attack on the host is bounded, so that a machine survives it where it succeeds: it hurts only what
`tests.attacks.canaries` puts in its way, forks a handful of processes, writes a few megabytes. One that
reaches something it must not reach, but leaves no trace there, prints a line that begins with `BOAST`.
"""

from __future__ import annotations

from textwrap import dedent, indent

BOAST = "escaped: "
SQUARE = "def sq(x):\n    return x * x\n"


def loading(body: str) -> str:
    """A program that attacks while it is loaded, hides what goes wrong, and solves the task."""
    return (
        f"try:\n{indent(dedent(body).strip(), '    ')}\nexcept BaseException:\n    pass\n\n{SQUARE}"
    )


def calling(body: str) -> str:
    """A program that attacks when it is called, hides what goes wrong, and solves the task."""
    body = indent(dedent(body).strip(), " " * 8)
    return (
        f"def sq(x):\n    try:\n{body}\n    except BaseException:\n        pass\n    return x * x\n"
    )


def system(body: str) -> str:
    """Like `loading`, with raw system calls at hand: `call(name, *arguments)` is a result or minus an errno."""
    return _SYSTEM + loading(body)


_SYSTEM = f"""\
import os

def boast(what):
    print("{BOAST}" + what, flush=True)

try:
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    libc.mmap.restype = ctypes.c_void_p
    NUMBERS = dict(
        add_key=(248, 217), bpf=(321, 280), chroot=(161, 51), clone=(56, 220), clone3=(435, 435),
        fsopen=(430, 430), init_module=(175, 105), io_uring_setup=(425, 425), ioprio_set=(251, 30),
        kexec_load=(246, 104), keyctl=(250, 219), memfd_create=(319, 279), mount=(165, 40),
        open_by_handle_at=(304, 265), open_tree=(428, 428), perf_event_open=(298, 241),
        personality=(135, 92), pidfd_getfd=(438, 438), pidfd_open=(434, 434),
        pidfd_send_signal=(424, 424), pivot_root=(155, 41), process_vm_readv=(310, 270),
        process_vm_writev=(311, 271), ptrace=(101, 117), reboot=(169, 142), renameat2=(316, 276),
        rt_sigqueueinfo=(129, 138), setns=(308, 268), syslog=(103, 116), tgkill=(234, 131),
        unshare=(272, 97), userfaultfd=(323, 282),
    )
except Exception:
    pass
REFUSED = (-1, -13, -38)  # EPERM, EACCES, ENOSYS

def word(value):
    return ctypes.c_long(value) if isinstance(value, int) else value

def call(name, *arguments):
    number = NUMBERS[name][os.uname().machine == "aarch64"] if isinstance(name, str) else name
    result = libc.syscall(ctypes.c_long(number), *map(word, arguments))
    return result if result != -1 else -ctypes.get_errno()

"""
