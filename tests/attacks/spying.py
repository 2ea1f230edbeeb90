"""Programs that try to read secrets of the host and to put them where somebody sees them."""

from __future__ import annotations

from tests.attacks.entry import Attack
from tests.attacks.parts import BOAST, SQUARE, loading, system

CATEGORY = "secrets"
FILES = frozenset({"landlock"})
PROCESSES = frozenset({"landlock", "namespaces"})


def _printed(expression: str) -> str:
    return loading(f"print({expression}, flush=True)")


SPYING: tuple[Attack, ...] = (
    Attack(
        "environment",
        CATEGORY,
        "import os\nprint(dict(os.environ), os.environb, flush=True)\n" + SQUARE,
        "pass",
    ),
    Attack(
        "environment_in_memory",
        CATEGORY,
        loading("""
            import ctypes
            environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
            index = 0
            while environ[index]:
                print(environ[index], flush=True)
                index += 1
        """),
        "any",
    ),
    Attack(
        "environment_of_itself",
        CATEGORY,
        _printed('open("/proc/self/environ", "rb").read()'),
        "pass",
    ),
    Attack(
        "environment_of_the_ancestors",
        CATEGORY,
        system("""
            pid = os.getppid()
            while pid > 1:
                if b"PATH=" in open(f"/proc/{pid}/environ", "rb").read():
                    boast("reads the environment of an ancestor")
                pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
        """),
        "pass",
        stopped_by=PROCESSES,
    ),
    Attack(
        "environment_of_another_process",
        CATEGORY,
        _printed('open("/proc/@PID@/environ", "rb").read()'),
        "pass",
        stopped_by=PROCESSES,
    ),
    Attack(
        "command_lines",
        CATEGORY,
        _printed('open("/proc/@PID@/cmdline", "rb").read()'),
        "pass",
        stopped_by=PROCESSES,
    ),
    Attack(
        "file_in_an_exception",
        CATEGORY,
        'raise ValueError(open("@SECRET_FILE@").read())\n',
        "fail",
        stopped_by=FILES,
    ),
    Attack(
        "file_in_a_result",
        CATEGORY,
        'def sq(x):\n    return open("@SECRET_FILE@").read()\n',
        "fail",
        stopped_by=FILES,
    ),
    Attack(
        "file_in_the_name_of_an_exception",
        CATEGORY,
        'def sq(x):\n    raise type(open("@SECRET_FILE@").read().strip(), (Exception,), {})("x")\n',
        "fail",
        stopped_by=FILES,
    ),
    Attack(
        "file_in_notes_and_causes",
        CATEGORY,
        """
def sq(x):
    try:
        raise KeyError(open("@SECRET_FILE@").read())
    except KeyError as error:
        raise ExceptionGroup(str(error), [error]) from error
""",
        "fail",
        stopped_by=FILES,
    ),
    Attack(
        "file_on_standard_error",
        CATEGORY,
        loading("""
            import os, sys
            text = open("@SECRET_FILE@").read()
            print(text, file=sys.stderr, flush=True)
            os.write(2, text.encode())
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "open_by_descriptor_of_a_folder",
        CATEGORY,
        loading("""
            import os
            folder, _, name = "@SECRET_FILE@".rpartition("/")
            handle = os.open(name, os.O_RDONLY, dir_fd=os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
            print(os.read(handle, 1000), flush=True)
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "path_descriptor",
        CATEGORY,
        loading("""
            import os
            handle = os.open("@SECRET_FILE@", os.O_PATH)
            print(open(f"/proc/self/fd/{handle}").read(), flush=True)
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "symlink_in_the_working_folder",
        CATEGORY,
        loading("""
            import os
            name = "@MARKER@".rpartition("/")[2]
            os.symlink("@SECRET_FILE@", name)
            print(open(name).read(), flush=True)
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "up_from_the_working_folder",
        CATEGORY,
        _printed('open("../" * 50 + "@SECRET_FILE@").read()'),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "root_of_another_process",
        CATEGORY,
        loading("""
            for root in ("/proc/@PID@/root", "/proc/1/root", "/proc/self/root"):
                try:
                    print(open(root + "@SECRET_FILE@").read(), flush=True)
                except OSError:
                    pass
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "mapping",
        CATEGORY,
        loading("""
            import mmap, os
            handle = os.open("@SECRET_FILE@", os.O_RDONLY)
            print(mmap.mmap(handle, 0, prot=mmap.PROT_READ)[:], flush=True)
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "ctypes_open",
        CATEGORY,
        loading("""
            import ctypes
            libc = ctypes.CDLL(None)
            buffer = ctypes.create_string_buffer(1000)
            libc.read(libc.open(b"@SECRET_FILE@", 0), buffer, 999)
            print(buffer.value, flush=True)
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "imported_as_source",
        CATEGORY,
        """
from importlib.machinery import SourceFileLoader

def sq(x):
    return SourceFileLoader("secret", "@SECRET_FILE@").load_module()
""",
        "fail",
        stopped_by=FILES,
    ),
    Attack(
        "linecache",
        CATEGORY,
        _printed('__import__("linecache").getlines("@SECRET_FILE@")'),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        # Whoever formats this traceback reads the lines of the secret.
        "traceback_through_the_file",
        CATEGORY,
        """
import sys, traceback
exec(compile("sq = lambda x: 1 / 0", "@SECRET_FILE@", "exec"))
try:
    sq(2)
except ZeroDivisionError:
    traceback.print_exc()
sys.stderr.flush()
""",
        "fail",
        stopped_by=FILES,
    ),
    Attack(
        "readers_of_the_library",
        CATEGORY,
        loading("""
            import configparser, csv, fileinput, tokenize, zipfile, netrc
            for read in (
                lambda: list(csv.reader(open("@SECRET_FILE@"))),
                lambda: list(fileinput.input("@SECRET_FILE@")),
                lambda: tokenize.open("@SECRET_FILE@").read(),
                lambda: configparser.ConfigParser().read("@SECRET_FILE@"),
                lambda: netrc.netrc("@SECRET_FILE@"),
            ):
                try:
                    print(read(), flush=True)
                except Exception as error:
                    print(repr(error), flush=True)
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "ssh_key",
        CATEGORY,
        _printed('open("@HOME@/.ssh/id_rsa").read()'),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "names_in_home",
        CATEGORY,
        loading("""
            import os
            for folder, folders, files in os.walk("@HOME@"):
                print(folder, folders, files, flush=True)
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "names_by_glob",
        CATEGORY,
        loading("""
            import glob
            print(glob.glob("@HOME@/**", recursive=True), flush=True)
        """),
        "any",
        stopped_by=FILES,
    ),
    Attack(
        "users_and_passwords",
        CATEGORY,
        loading(f"""
            import os
            for path in ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/root/.bash_history"):
                try:
                    if open(path).read():
                        print("{BOAST}reads a file of the system", flush=True)
                except OSError:
                    pass
        """),
        "pass",
        stopped_by=FILES,
    ),
    Attack(
        "inherited_descriptors",
        CATEGORY,
        loading("""
            import os
            for descriptor in range(3, 256):
                try:
                    print(os.readlink(f"/proc/self/fd/{descriptor}"), flush=True)
                    print(os.pread(descriptor, 10000, 0), flush=True)
                except OSError:
                    pass
        """),
        "any",
    ),
    Attack(
        "memory_of_another_process",
        CATEGORY,
        system("""
            for line in open("/proc/@PID@/maps"):
                place, rights, *_ = line.split()
                start, end = (int(part, 16) for part in place.split("-"))
                if rights.startswith("rw"):
                    with open("/proc/@PID@/mem", "rb", 0) as memory:
                        memory.seek(start)
                        data = memory.read(min(end - start, 2**24))
                    at = data.find(b"secret_")
                    while at >= 0:
                        print(data[at:at + 60], flush=True)
                        at = data.find(b"secret_", at + 1)
        """),
        "any",
        stopped_by=PROCESSES,
    ),
    Attack(
        "asks_by_searching_bit_by_bit",
        CATEGORY,
        f"""
import os
size = os.stat("@SECRET_FILE@").st_size if os.access("@SECRET_FILE@", os.R_OK) else 0
try:
    with open("@SECRET_FILE@", "rb") as file:
        while file.read(1):
            print("{BOAST}reads a byte", flush=True)
except OSError:
    pass

{SQUARE}""",
        "any",
        stopped_by=FILES,
    ),
)
