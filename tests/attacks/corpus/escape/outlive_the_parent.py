# honest: fail
# --- main
import os

def boast(what):
    print("escaped: " + what, flush=True)

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

try:
    libc.prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG
    libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE
    libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
except BaseException:
    pass

def sq(x):
    return x * x

while True:
    pass
