"""Programs that try to leave their process: new processes, other processes' memory, the kernel's back doors."""

from __future__ import annotations

from tests.attacks.entry import Attack
from tests.attacks.parts import SQUARE, calling, loading, system

CATEGORY = "escape"
FILTER = frozenset({"seccomp"})
FILES = frozenset({"seccomp", "landlock"})
OTHERS = frozenset({"seccomp", "namespaces"})
ANY = frozenset({"seccomp", "landlock", "namespaces"})

VICTIM_REGIONS = """
needle = b"memory of the victim"
regions = []
for line in open("/proc/@PID@/maps"):
    place, rights, *_ = line.split()
    if rights.startswith("rw"):
        start, end = (int(part, 16) for part in place.split("-"))
        regions.append((start, min(end - start, 2**24)))
"""

ESCAPE: tuple[Attack, ...] = (
    Attack(
        "fork_daemon",
        CATEGORY,
        loading("""
            import os, time
            if os.fork() == 0:
                os.setsid()
                time.sleep(30)
                os._exit(0)
        """),
        "pass",
        stopped_by=OTHERS,
    ),
    Attack(
        "fork_twice_when_called",
        CATEGORY,
        calling("""
            import os, time
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(30)
                os._exit(0)
        """),
        "pass",
        stopped_by=OTHERS,
    ),
    Attack(
        "fork_child_writes",
        CATEGORY,
        loading("""
            import os
            child = os.fork()
            if child == 0:
                open("@MARKER@", "w").close()
                os._exit(0)
            os.waitpid(child, 0)
        """),
        "any",
        stopped_by=FILES,
    ),
    Attack(
        "fork_child_answers_too",
        CATEGORY,
        "import os\ntry:\n    os.fork()\nexcept OSError:\n    pass\n\n" + SQUARE,
        "any",
        stopped_by=OTHERS,
    ),
    Attack(
        "execve_shell",
        CATEGORY,
        loading("""
            import os
            for descriptor in range(64):
                try:
                    os.set_inheritable(descriptor, True)  # nobody sees this process end
                except OSError:
                    pass
            os.execv("/bin/sh", ["sh", "-c", "echo here > '@MARKER@'"])
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "posix_spawn",
        CATEGORY,
        loading("""
            import os
            pid = os.posix_spawn("/bin/sh", ["sh", "-c", "echo here > '@MARKER@'"], {})
            os.waitpid(pid, 0)
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "subprocess_run",
        CATEGORY,
        calling("""
            import subprocess
            subprocess.run("echo here > '@MARKER@'", shell=True, timeout=5)
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "os_system_and_popen",
        CATEGORY,
        loading("""
            import os
            os.system("echo here > '@MARKER@'")
            os.popen("echo here > '@MARKER@'").read()
        """),
        "any",
        stopped_by=FILES,
    ),
    Attack(
        "multiprocessing_fork",
        CATEGORY,
        loading("""
            import multiprocessing, pathlib
            context = multiprocessing.get_context("fork")
            process = context.Process(target=pathlib.Path("@MARKER@").touch)
            process.start()
            process.join(1)
        """),
        "any",
        stopped_by=FILES,
    ),
    Attack(
        "process_pool",
        CATEGORY,
        calling("""
            import concurrent.futures, pathlib
            with concurrent.futures.ProcessPoolExecutor(1) as pool:
                pool.submit(pathlib.Path("@MARKER@").touch).result(1)
        """),
        "any",
        stopped_by=FILES,
    ),
    Attack(
        "forkpty",
        CATEGORY,
        loading("""
            import os, pty, time
            pid, terminal = pty.fork()
            if pid == 0:
                open("@MARKER@", "w").close()
                os._exit(0)
            os.waitpid(pid, 0)
        """),
        "any",
        stopped_by=FILES,
    ),
    Attack(
        "raw_clone3",
        CATEGORY,
        system("""
            fields = (ctypes.c_uint64 * 11)()
            fields[4] = 17  # exit_signal
            child = call("clone3", ctypes.byref(fields), ctypes.sizeof(fields))
            if child == 0:
                import time
                os.setsid()
                time.sleep(30)
                os._exit(0)
        """),
        "any",
        stopped_by=OTHERS,
    ),
    Attack(
        "clone_as_child_of_the_parent",
        CATEGORY,
        system("""
            if call("clone", 0x8000 | 17, 0, 0, 0, 0) == 0:  # CLONE_PARENT: a sibling, unknown to its new parent
                import time
                time.sleep(30)
                os._exit(0)
        """),
        "any",
        stopped_by=OTHERS,
    ),
    Attack(
        "leave_the_process_group_and_spin",
        CATEGORY,
        loading("""
            import os
            os.setsid()
            os.setpgid(0, 0)
        """)
        + "\nwhile True:\n    pass\n",
        "fail",
    ),
    Attack(
        "outlive_the_parent",
        CATEGORY,
        system("""
            libc.prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG
            libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE
            libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        """)
        + "\nwhile True:\n    pass\n",
        "fail",
    ),
    Attack(
        "ptrace_parent",
        CATEGORY,
        system("""
            if call("ptrace", 0x4206, os.getppid(), 0, 0) == 0:  # PTRACE_SEIZE
                boast("traces its parent")
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "ptrace_victim",
        CATEGORY,
        system("""
            if call("ptrace", 0x4206, @PID@, 0, 0) == 0:
                boast("traces another process")
        """),
        "any",
        stopped_by=ANY,
    ),
    Attack(
        "read_the_parents_memory",
        CATEGORY,
        system("""
            with open(f"/proc/{os.getppid()}/maps") as lines:
                start = next(int(line.split("-")[0], 16) for line in lines if " rw" in line)
            with open(f"/proc/{os.getppid()}/mem", "rb", 0) as memory:
                memory.seek(start)
                memory.read(16)
                boast("reads its parent's memory")
        """),
        "any",
        stopped_by=frozenset({"landlock"}),
    ),
    Attack(
        "write_memory_through_proc",
        CATEGORY,
        loading(
            VICTIM_REGIONS
            + """
with open("/proc/@PID@/mem", "r+b", 0) as memory:
    for start, size in regions:
        memory.seek(start)
        data = memory.read(size)
        at = data.find(needle)
        while at >= 0:
            memory.seek(start + at)
            memory.write(b"MEMORY OF THE VICTIM")
            at = data.find(needle, at + 1)
"""
        ),
        "any",
        stopped_by=ANY,
    ),
    Attack(
        "process_vm_writev",
        CATEGORY,
        system(
            VICTIM_REGIONS
            + """
def vector(address, size):
    return (ctypes.c_size_t * 2)(address, size)
for start, size in regions:
    buffer = ctypes.create_string_buffer(size)
    local = vector(ctypes.addressof(buffer), size)
    if call("process_vm_readv", @PID@, local, 1, vector(start, size), 1, 0) > 0:
        at = buffer.raw.find(needle)
        while at >= 0:
            word_ = ctypes.create_string_buffer(b"MEMORY OF THE VICTIM")
            local = vector(ctypes.addressof(word_), 20)
            call("process_vm_writev", @PID@, local, 1, vector(start + at, 20), 1, 0)
            at = buffer.raw.find(needle, at + 1)
"""
        ),
        "any",
        stopped_by=ANY,
    ),
    Attack(
        "setns_into_the_host",
        CATEGORY,
        system("""
            for kind in ("mnt", "pid", "net", "ipc", "uts"):
                handle = os.open(f"/proc/@PID@/ns/{kind}", os.O_RDONLY)
                if call("setns", handle, 0) >= 0:
                    boast(f"joins the {kind} namespace of another process")
        """),
        "any",
        stopped_by=OTHERS,
    ),
    Attack(
        "unshare",
        CATEGORY,
        system("""
            for flags in (0x10000000 | 0x00020000, 0x00020000):  # NEWUSER with NEWNS, NEWNS alone
                if call("unshare", flags) >= 0:
                    boast("makes namespaces of its own")
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "mount_over_home",
        CATEGORY,
        system("""
            call("mount", b"none", b"@HOME@", b"tmpfs", 0, 0)
        """),
        "any",
        stopped_by=ANY,
    ),
    Attack(
        "mount_by_descriptor",
        CATEGORY,
        system("""
            if call("fsopen", b"tmpfs", 0) >= 0 or call("open_tree", -100, b"/", 1) >= 0:
                boast("opens file systems")
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "chroot_and_pivot_root",
        CATEGORY,
        system("""
            if call("chroot", b"/") >= 0:
                boast("chroot")
            if call("pivot_root", b".", b".") not in REFUSED:
                boast("pivot_root")
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "io_uring",
        CATEGORY,
        system("""
            parameters = ctypes.create_string_buffer(120)
            if call("io_uring_setup", 4, parameters) >= 0:
                boast("io_uring")
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "userfaultfd",
        CATEGORY,
        system("""
            if call("userfaultfd", 1) >= 0:  # UFFD_USER_MODE_ONLY
                boast("userfaultfd")
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "memfd_exec",
        CATEGORY,
        system("""
            for descriptor in range(64):
                try:
                    os.set_inheritable(descriptor, True)
                except OSError:
                    pass
            handle = call("memfd_create", b"x", 0)
            os.write(handle, b"#!/bin/sh\\necho here > '@MARKER@'\\n")
            os.execv(f"/proc/self/fd/{handle}", ["x"])
        """),
        "any",
        stopped_by=FILES,
    ),
    Attack(
        "rulers_of_the_kernel",
        CATEGORY,
        system("""
            # With arguments that the kernel refuses after it has checked for the right to call.
            for name, arguments in {
                "kexec_load": (0, 0, 0, 0x7FFFFFFF),
                "init_module": (0, 0, 0),
                "reboot": (0, 0, 0, 0),
                "syslog": (99, 0, 0),
            }.items():
                if call(name, *arguments) not in REFUSED:
                    boast(name)
        """),
        "any",
        stopped_by=OTHERS,
    ),
    Attack(
        "bpf_and_perf",
        CATEGORY,
        system("""
            map_ = (ctypes.c_uint32 * 18)(2, 4, 4, 1)
            if call("bpf", 0, map_, ctypes.sizeof(map_)) >= 0:
                boast("bpf")
            event = (ctypes.c_uint32 * 32)(1, 128)
            if call("perf_event_open", event, 0, -1, -1, 0) >= 0:
                boast("perf_event_open")
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "keyring",
        CATEGORY,
        system("""
            key = call("add_key", b"user", b"attack", b"x", 1, -4)
            if key >= 0:
                call("keyctl", 15, key, 1)  # KEYCTL_SET_TIMEOUT
                boast("writes into the user's keyring")
            if call("keyctl", 0, -4, 0) >= 0:
                boast("finds the user's keyring")
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "personality",
        CATEGORY,
        system("""
            if call("personality", 0x0040000) >= 0:
                boast("personality")
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "send_descriptors",
        CATEGORY,
        loading("""
            import array, os, socket
            for descriptor in range(64):
                try:
                    own = socket.socket(fileno=os.dup(descriptor))
                    null = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
                    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", null))
                    for _ in range(50):
                        own.sendmsg([b"\\n"], [rights], socket.MSG_DONTWAIT)
                except OSError:
                    pass
        """),
        "any",
    ),
    Attack(
        "steal_descriptors",
        CATEGORY,
        system("""
            for pid in (os.getppid(), @PID@):
                handle = call("pidfd_open", pid, 0)
                for descriptor in range(8):
                    if handle >= 0 and call("pidfd_getfd", handle, descriptor, 0) >= 0:
                        boast("takes a descriptor of another process")
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "set_ids",
        CATEGORY,
        loading("""
            import os
            for change in (os.setgroups, os.setuid, os.setgid):
                try:
                    change([0] if change is os.setgroups else 0)
                    print("escaped: sets its user or groups", flush=True)
                except OSError:
                    pass
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "signals_by_fcntl",
        CATEGORY,
        loading("""
            import fcntl, os, signal, socket
            readers = [os.pipe(), tuple(s.detach() for s in socket.socketpair())]
            for reader, writer in readers:
                fcntl.fcntl(reader, fcntl.F_SETOWN, @PID@)
                fcntl.fcntl(reader, 10, signal.SIGUSR1)  # F_SETSIG
                fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
                os.write(writer, b"x")
        """),
        "any",
        stopped_by=OTHERS,
    ),
    Attack(
        "signals_by_new_calls",
        CATEGORY,
        system("""
            import signal
            information = (ctypes.c_int * 32)(signal.SIGUSR1, 0, -1)
            call("rt_sigqueueinfo", @PID@, int(signal.SIGUSR1), information)
            call("tgkill", @PID@, @PID@, int(signal.SIGUSR2))
            handle = call("pidfd_open", @PID@, 0)
            call("pidfd_send_signal", handle, int(signal.SIGUSR1), 0, 0)
        """),
        "any",
        stopped_by=OTHERS,
    ),
    Attack(
        "system_calls_of_x32",
        CATEGORY,
        system("""
            if os.uname().machine == "x86_64":
                if call(0x40000000 | 39) >= 0 or call(0x40000000 | 57) >= 0:  # getpid, fork
                    boast("calls by the numbers of x32")
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "system_calls_of_i386",
        CATEGORY,
        system("""
            import mmap, struct
            if os.uname().machine == "x86_64":
                page = mmap.mmap(-1, 4096, prot=7)
                # push rbx; mov eax, 37 (kill); mov ebx, pid; mov ecx, SIGUSR1; int 0x80; pop rbx; ret
                page.write(struct.pack("<BBIBIBI", 0x53, 0xB8, 37, 0xBB, @PID@, 0xB9, 10))
                page.write(bytes((0xCD, 0x80, 0x5B, 0xC3)))
                address = ctypes.addressof(ctypes.c_char.from_buffer(page))
                ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        """),
        "any",
        stopped_by=OTHERS,
    ),
    Attack(
        "raise_own_priority",
        CATEGORY,
        loading("""
            import os
            os.nice(-5)
            print("escaped: goes before other processes", flush=True)
        """),
        "any",
        stopped_by=OTHERS,
    ),
    Attack(
        "file_handles",
        CATEGORY,
        system("""
            handle = (ctypes.c_uint32 * 34)(8, 1, 2, 0)  # inode 2: the root of the file system
            root = os.open("/", os.O_RDONLY)
            if call("open_by_handle_at", root, handle, 0) not in REFUSED:
                boast("opens files by their handles")
        """),
        "any",
        stopped_by=OTHERS,
    ),
)
