"""Programs that try to change the host: its files, its processes, what they share."""

from __future__ import annotations

from tests.attacks.entry import Attack
from tests.attacks.parts import calling, loading, system

CATEGORY = "host damage"
FILTER = frozenset({"seccomp"})
FILES = frozenset({"seccomp", "landlock"})
OTHERS = frozenset({"seccomp", "namespaces"})
ANY = frozenset({"seccomp", "landlock", "namespaces"})

DAMAGE: tuple[Attack, ...] = (
    Attack(
        "write_a_file",
        CATEGORY,
        loading('open("@MARKER@", "w").write("here")'),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "write_a_file_when_called",
        CATEGORY,
        calling("""
            import os
            os.close(os.open("@MARKER@", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "write_a_file_from_a_thread",
        CATEGORY,
        loading("""
            import pathlib, threading
            def write():
                try:
                    pathlib.Path("@MARKER@").touch()
                except OSError:
                    pass
            thread = threading.Thread(target=write)
            thread.start()
            thread.join()
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "write_a_file_by_ctypes",
        CATEGORY,
        loading("""
            import ctypes
            libc = ctypes.CDLL(None)
            libc.fopen.restype = ctypes.c_void_p
            libc.creat(b"@MARKER@", 0o600)
            libc.fopen(b"@MARKER@", b"w")
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "write_a_file_when_finalised",
        CATEGORY,
        """
class Last:
    def __del__(self):
        import pathlib
        pathlib.Path("@MARKER@").touch()

    def __init__(self):
        self.me = self

def leave():
    import pathlib
    pathlib.Path("@MARKER@").touch()

import atexit
atexit.register(leave)
Last()

def sq(x):
    return x * x
""",
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "make_a_folder_pipe_and_socket",
        CATEGORY,
        calling("""
            import os, socket, stat
            for make in (
                lambda: os.mkdir("@MARKER@"),
                lambda: os.mkfifo("@HOME@/pipe"),
                lambda: os.mknod("@HOME@/null", stat.S_IFCHR | 0o666, os.makedev(1, 3)),
                lambda: socket.socket(socket.AF_UNIX).bind("@HOME@/socket"),
            ):
                try:
                    make()
                except OSError:
                    pass
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "database_at_a_path",
        CATEGORY,
        loading("""
            import dbm, logging, shelve, sqlite3
            for write in (
                lambda: sqlite3.connect("@MARKER@").execute("create table t (x)"),
                lambda: shelve.open("@MARKER@").close(),
                lambda: logging.FileHandler("@MARKER@"),
            ):
                try:
                    write()
                except Exception:
                    pass
        """),
        "any",
        stopped_by=FILES,
    ),
    Attack(
        "append_to_start_up_files",
        CATEGORY,
        loading("""
            for name in (".bashrc", ".profile", ".zshrc", ".config/fish/config.fish"):
                with open("@HOME@/" + name, "a") as file:
                    file.write("touch '@MARKER@'\\n")
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "pth_in_user_site",
        CATEGORY,
        loading("""
            import glob
            for site in glob.glob("@HOME@/.local/lib/python*/site-packages") or ["@HOME@"]:
                with open(site + "/attack.pth", "w") as file:
                    file.write("import os; open('@MARKER@', 'w')\\n")
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "authorise_a_key",
        CATEGORY,
        calling("""
            with open("@HOME@/.ssh/authorized_keys", "a") as file:
                file.write("ssh-ed25519 AAAA attack\\n")
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "overwrite_the_answers",
        CATEGORY,
        loading("""
            import os
            os.close(os.open("@ANSWERS@", os.O_RDONLY | os.O_TRUNC))
            open("@ANSWERS@", "w").write("{}")
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "truncate",
        CATEGORY,
        loading("""
            import os
            os.truncate("@HOME@/notes.txt", 0)
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "write_through_a_mapping",
        CATEGORY,
        loading("""
            import mmap
            with open("@HOME@/notes.txt", "r+b") as file:
                mmap.mmap(file.fileno(), 0)[:4] = b"XXXX"
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "unlink",
        CATEGORY,
        loading("""
            import os
            os.unlink("@HOME@/notes.txt")
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "rename",
        CATEGORY,
        calling("""
            import os
            os.rename("@HOME@/notes.txt", "@HOME@/noted.txt")
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "exchange",
        CATEGORY,
        system("""
            call("renameat2", -100, b"@HOME@/notes.txt", -100, b"@HOME@/.bashrc", 2)
        """),
        "any",
        stopped_by=FILES,
    ),
    Attack(
        "move_out_of_home",
        CATEGORY,
        loading("""
            import shutil
            shutil.move("@HOME@/notes.txt", "@MARKER@".rpartition("/")[2])
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "symlink_in_home",
        CATEGORY,
        loading("""
            import os
            os.symlink("/etc/passwd", "@HOME@/link")
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "link_the_secret",
        CATEGORY,
        loading("""
            import os
            for place in ("@MARKER@".rpartition("/")[2], "@HOME@/link"):
                try:
                    os.link("@SECRET_FILE@", place)
                except OSError:
                    pass
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "remove_home",
        CATEGORY,
        loading("""
            import shutil
            shutil.rmtree("@HOME@", ignore_errors=True)
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "chmod",
        CATEGORY,
        loading("""
            import os
            os.chmod("@HOME@/.ssh/id_rsa", 0o777)
            os.chmod("@HOME@", 0o777)
        """),
        "pass",
        stopped_by=FILTER,
    ),
    Attack(
        "chmod_by_descriptor",
        CATEGORY,
        calling("""
            import os
            os.fchmod(os.open("@HOME@", os.O_RDONLY), 0o777)
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "chown",
        CATEGORY,
        loading("""
            import os
            os.chown("@HOME@/notes.txt", 65534, 65534)
        """),
        "pass",
        stopped_by=FILTER,
    ),
    Attack(
        "utime",
        CATEGORY,
        loading("""
            import os
            os.utime("@HOME@/notes.txt", (0, 0))
        """),
        "pass",
        stopped_by=FILTER,
    ),
    Attack(
        "extended_attributes",
        CATEGORY,
        loading("""
            import os
            os.setxattr("@HOME@/notes.txt", "user.attack", b"x")
        """),
        "pass",
        stopped_by=FILTER,
    ),
    Attack(
        "lock",
        CATEGORY,
        loading("""
            import fcntl, os
            if os.fork() == 0:
                os.setsid()
                fcntl.flock(os.open("@HOME@/notes.txt", os.O_RDONLY), fcntl.LOCK_EX)
                import time
                time.sleep(30)
                os._exit(0)
        """),
        "any",
        stopped_by=OTHERS,
    ),
    Attack(
        "links_in_the_working_folder",
        CATEGORY,
        loading("""
            import os
            name = "@MARKER@".rpartition("/")[2]
            os.makedirs(name + "/a")
            for place in (name + "-0", name + "/home", name + "/a/home"):
                try:
                    os.symlink("@HOME@", place)
                except OSError:
                    pass
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "nested_folders_that_resist",
        CATEGORY,
        loading("""
            import os
            name = "@MARKER@".rpartition("/")[2]
            for depth in range(200):
                os.mkdir(name)
                os.chdir(name)
                if depth < 40:
                    name += "-long"
            os.chmod(".", 0)
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "many_files_in_the_working_folder",
        CATEGORY,
        loading("""
            for number in range(1000):
                open("@MARKER@".rpartition("/")[2] + f"-{number}", "w").close()
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "many_files_in_shared_folders",
        CATEGORY,
        loading("""
            import os
            for folder in ("/tmp", "/var/tmp", "/run", "/run/lock"):
                for number in range(200):
                    try:
                        open(f"{folder}/{os.path.basename('@MARKER@')}-{number}", "w").close()
                    except OSError:
                        pass
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "file_in_shared_memory",
        CATEGORY,
        loading("""
            import os
            with open("/dev/shm/" + os.path.basename("@MARKER@"), "wb") as file:
                file.write(bytes(2**20))
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "shared_memory_that_stays",
        CATEGORY,
        loading("""
            import ctypes
            ctypes.CDLL(None).shmget(0x5EC00000 + @PID@ % 0x100000, 4096, 0o1600)
            import multiprocessing.shared_memory
            memory = multiprocessing.shared_memory.SharedMemory(
                "@MARKER@".rpartition("/")[2], create=True, size=4096
            )
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "bytecode_in_the_library",
        CATEGORY,
        loading("""
            import os
            library = os.path.dirname(os.__file__)
            for folder in (library, library + "/__pycache__", library + "/site-packages"):
                try:
                    open(folder + "/" + os.path.basename("@MARKER@"), "w").close()
                except OSError:
                    pass
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "crontab",
        CATEGORY,
        loading("""
            import os
            for folder in ("/etc", "/etc/cron.d", "/var/spool/cron", "/var/spool/cron/crontabs"):
                try:
                    open(folder + "/" + os.path.basename("@MARKER@"), "w").close()
                except OSError:
                    pass
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "kill",
        CATEGORY,
        loading("""
            import os, signal
            os.kill(@PID@, signal.SIGKILL)
        """),
        "pass",
        stopped_by=OTHERS,
    ),
    Attack(
        "stop",
        CATEGORY,
        calling("""
            import os, signal
            os.kill(@PID@, signal.SIGSTOP)
        """),
        "pass",
        stopped_by=OTHERS,
    ),
    Attack(
        "kill_the_group",
        CATEGORY,
        loading("""
            import os, signal
            os.killpg(@PID@, signal.SIGKILL)
        """),
        "pass",
        stopped_by=OTHERS,
    ),
    Attack(
        # With a signal that every program but the victim ignores: who can send it can send SIGKILL.
        "signal_everyone",
        CATEGORY,
        loading("""
            import os, signal
            os.kill(-1, signal.SIGURG)
        """),
        "pass",
        stopped_by=OTHERS,
    ),
    Attack(
        "kill_the_own_group",
        CATEGORY,
        loading("""
            import os, signal
            os.killpg(0, signal.SIGKILL)
        """),
        "any",
    ),
    Attack(
        "kill_the_parent",
        CATEGORY,
        calling("""
            import os, signal
            os.kill(os.getppid(), signal.SIGKILL)
        """),
        "any",
        stopped_by=OTHERS,
    ),
    Attack(
        "stop_the_parent",
        CATEGORY,
        calling("""
            import os, signal
            os.kill(os.getppid(), signal.SIGSTOP)
        """),
        "any",
        stopped_by=OTHERS,
    ),
    Attack(
        "limit_another_process",
        CATEGORY,
        loading("""
            import resource
            resource.prlimit(@PID@, resource.RLIMIT_NOFILE, (16, 16))
            resource.prlimit(@PID@, resource.RLIMIT_CPU, (1, 1))
        """),
        "pass",
        stopped_by=OTHERS,
    ),
    Attack(
        "schedule_another_process",
        CATEGORY,
        loading("""
            import os
            for change in (
                lambda: os.setpriority(os.PRIO_PROCESS, @PID@, 19),
                lambda: os.sched_setaffinity(@PID@, {min(os.sched_getaffinity(@PID@))}),
                lambda: os.sched_setscheduler(@PID@, os.SCHED_IDLE, os.sched_param(0)),
            ):
                try:
                    change()
                except OSError:
                    pass
        """),
        "pass",
        stopped_by=OTHERS,
    ),
    Attack(
        "offer_another_process_to_the_oom_killer",
        CATEGORY,
        loading("""
            with open("/proc/@PID@/oom_score_adj", "w") as file:
                file.write("1000")
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "schedule_the_whole_group",
        CATEGORY,
        loading("""
            import os
            os.setpriority(os.PRIO_PGRP, @PID@, 19)
        """),
        "pass",
        stopped_by=OTHERS,
    ),
)
