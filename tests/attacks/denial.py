"""Programs that never end, or want more time, memory, output, files or processes than there are."""

from __future__ import annotations

from tests.attacks.entry import SQUARES, Attack
from tests.attacks.parts import SQUARE, calling, loading, system
from tests.attacks.shared import CHANNELS, check

CATEGORY = "denial of service"
FILES = frozenset({"seccomp", "landlock"})
OTHERS = frozenset({"seccomp", "namespaces"})

LISTS = "def check(candidate):\n    assert candidate(2) == [0, 1]\n    assert candidate(3) == [0, 1, 2]\n"
LISTED = LISTS.replace("candidate(2)", "list(candidate(2))").replace(
    "candidate(3)", "list(candidate(3))"
)


def _fails(name: str, code: str, test: str = SQUARES) -> Attack:
    return Attack(name, CATEGORY, code, "fail", test)


def _any(name: str, code: str, stopped_by: frozenset[str] = frozenset()) -> Attack:
    return Attack(name, CATEGORY, code, "any", stopped_by=stopped_by)


TIME: tuple[Attack, ...] = (
    _fails("loop_while_loading", "while True:\n    pass\n"),
    _fails("loop_in_a_default", "def sq(x, y=[0 for _ in iter(int, 1)]):\n    return x * x\n"),
    _fails("loop_in_a_decorator", f"@lambda f: [0 for _ in iter(int, 1)]\n{SQUARE}"),
    _fails("loop_when_called", "def sq(x):\n    while True:\n        pass\n"),
    Attack(
        "loop_in_one_call",
        CATEGORY,
        "def sq(x):\n    while x == 3:\n        pass\n    return x * x\n",
        "some",
    ),
    Attack(
        "loop_in_the_first_call",
        CATEGORY,
        "def sq(x):\n    while x == 2:\n        pass\n    return x * x\n",
        "any",
    ),
    _fails(
        "loop_that_swallows_everything",
        """
def sq(x):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
""",
    ),
    _fails(
        "loop_deaf_to_signals",
        """
import signal

for number in range(1, 65):
    try:
        signal.signal(number, lambda *arguments: None)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
signal.setitimer(signal.ITIMER_REAL, 0)

def sq(x):
    while True:
        pass
""",
    ),
    _fails("sleep", "import time\n\ndef sq(x):\n    time.sleep(10**6)\n    return x * x\n"),
    _fails("wait_for_input", "def sq(x):\n    return int(input())\n"),
    _fails(
        "wait_for_a_lock",
        "import threading\n\nlock = threading.Lock()\nlock.acquire()\n\ndef sq(x):\n    lock.acquire()\n",
    ),
    _fails("loop_in_c_power", "def sq(x):\n    return 9**9**9\n"),
    _fails("loop_in_c_sum", "def sq(x):\n    return sum(range(10**18))\n"),
    _fails(
        "loop_in_c_factorial",
        "import math\n\ndef sq(x):\n    return math.factorial(10**7) % 7 + 10**9\n",
    ),
    _fails(
        "backtracking",
        'import re\n\ndef sq(x):\n    return re.match("(a*)*b", "a" * 40) and x * x\n',
    ),
    _fails("power_of_powers", "x = 10**10**8\n\ndef sq(x):\n    return globals()['x']\n"),
    _fails(
        "digits_of_a_huge_integer",
        """
import sys

getattr(sys, "set_int_max_str_digits", print)(0)

def sq(x):
    return len(str(1 << 2**28))
""",
    ),
    _fails(
        "colliding_integers_in_a_set",
        "def sq(x):\n    return len({n * (2**61 - 1) for n in range(10**6)})\n",
    ),
    _fails(
        "colliding_keys_returned",
        "data = {n * (2**61 - 1): n for n in range(4000)}\n\ndef sq(x):\n    return data\n",
    ),
    _fails(
        "colliding_sets_returned",
        "data = [{n * (2**61 - 1) for n in range(2000)}] * 300\n\ndef sq(x):\n    return data\n",
    ),
    _fails(
        "sort_with_a_slow_key",
        "def sq(x):\n    return sorted(range(10**9), key=lambda n: -n)[0] - 1\n",
    ),
    _fails(
        "text_of_an_exception_hangs",
        """
class Slow(Exception):
    def __str__(self):
        while True:
            pass
    __repr__ = __str__

def sq(x):
    raise Slow
""",
    ),
    _fails(
        "text_of_an_exception_while_loading_hangs",
        """
class Slow(Exception):
    def __str__(self):
        while True:
            pass

raise Slow
""",
    ),
    _fails(
        "comparison_hangs",
        """
class Slow(int):
    def __eq__(self, other):
        while True:
            pass
    __hash__ = __index__ = __int__ = __bool__ = __eq__

def sq(x):
    return Slow(0)
""",
    ),
    _fails(
        "class_that_hangs_when_looked_at",
        """
class Meta(type):
    def __getattribute__(self, name):
        while True:
            pass

class Slow(metaclass=Meta):
    pass

def sq(x):
    return Slow()
""",
    ),
    _fails(
        "generator_without_end",
        "import itertools\n\ndef sq(x):\n    return itertools.count()\n",
        LISTED,
    ),
    _fails(
        "generator_that_hangs",
        "def sq(x):\n    yield 0\n    while True:\n        pass\n",
        LISTED,
    ),
    _fails(
        "calls_back_without_end",
        "def sq(x):\n    return lambda *arguments: sq(x)\n",
        "def check(candidate):\n    f = candidate(2)\n    while callable(f):\n        f = f()\n    assert f\n",
    ),
    Attack(
        "finaliser_hangs",
        CATEGORY,
        """
class Last:
    def __del__(self):
        while True:
            pass

def sq(x):
    if x == 3:
        Last()
    return x * x
""",
        "some",
    ),
    Attack(
        "finaliser_resurrects",
        CATEGORY,
        """
import gc

kept = []

class Last:
    def __init__(self):
        self.me = self
    def __del__(self):
        Last()
        kept.append(self)

Last()
gc.collect()
"""
        + SQUARE,
        "pass",
    ),
    Attack(
        "exit_hangs",
        CATEGORY,
        """
import atexit, threading, time

def forever():
    while True:
        time.sleep(0.05)

atexit.register(forever)
threading.Thread(target=forever).start()
"""
        + SQUARE,
        "pass",
    ),
    _any(
        "trace_hangs",
        "import sys, threading\nsys.setprofile(lambda *a: [0 for _ in iter(int, 1)])\n" + SQUARE,
    ),
    _any(
        "timer_storm",
        loading("""
            import signal
            signal.signal(signal.SIGALRM, lambda *arguments: None)
            signal.setitimer(signal.ITIMER_REAL, 1e-6, 1e-6)
        """),
    ),
)

ANSWERING = (
    CHANNELS
    + """
(SOCKET,) = [number for number in channels() if stat.S_ISSOCK(os.fstat(number).st_mode)]
ITEM = '{item}'
TEXT = '["value",[' + ",".join([ITEM] * (8_000_000 // (len(ITEM) + 1))) + '],null,[],""]'
MESSAGE = len(TEXT).to_bytes(4, "big") + TEXT.encode()

def sq(x):
    for _ in range(4):
        data = MESSAGE
        while data:
            data = data[os.write(SOCKET, data):]
"""
)
"""Answers in place of the code around it, with lists of very many values that take more memory than text."""

SPACE: tuple[Attack, ...] = (
    _fails("memory_in_one_piece", "def sq(x):\n    return len(bytearray(2**40))\n"),
    _fails(
        "memory_in_small_pieces",
        "def sq(x):\n    kept = []\n    while True:\n        kept.append([object()])\n",
    ),
    _fails(
        "memory_in_large_pieces",
        "kept = []\nwhile True:\n    kept.append(bytearray(2**24))\n",
    ),
    _fails(
        "memory_that_is_asked_for_again",
        """
def sq(x):
    kept = []
    while True:
        try:
            kept.append(bytearray(2**20))
        except MemoryError:
            pass
""",
    ),
    _fails(
        "memory_by_mapping", "import mmap\nkept = [mmap.mmap(-1, 2**24) for _ in range(10**6)]\n"
    ),
    _fails(
        "folders_in_folders_and_the_end",
        """
import os

parent = os.open(".", os.O_RDONLY)
for _ in range(240):
    os.mkdir("d", dir_fd=parent)
    inner = os.open("d", os.O_RDONLY, dir_fd=parent)
    os.close(parent)
    parent = inner
os._exit(3)

def sq(x):
    return x * x
""",
    ),
    Attack(
        "answers_that_flood_while_nothing_is_read",
        CATEGORY,
        CHANNELS
        + r"""
import json
CALL = json.dumps(["callback", [0, [[1], []]], None, [], ""]).encode()
CALL = len(CALL).to_bytes(4, "big") + CALL
(SOCKET,) = [number for number in channels() if stat.S_ISSOCK(os.fstat(number).st_mode)]

def sq(f, x):
    while True:
        os.write(SOCKET, CALL)
""",
        "fail",
        check("assert candidate(lambda x: x + 1, 3) == 16"),
    ),
    Attack(
        "threads_by_the_thousand",
        CATEGORY,
        """
import threading

threading.stack_size(32768)
never = threading.Event()
started = 0
try:
    while started < 7000:
        threading.Thread(target=never.wait, daemon=True).start()
        started += 1
    print("escaped: thousands of threads", flush=True)
except RuntimeError:
    pass

def sq(x):
    return x * x
""",
        "any",
    ),
    _fails("answers_that_are_many_empty_queues", ANSWERING.format(item='{"deque":[[],null]}')),
    _fails("answers_that_are_many_small_sets", ANSWERING.format(item='{"set":[0,1,2,3,4]}')),
    _fails("answers_that_are_many_empty_lists", ANSWERING.format(item="[]")),
    _fails(
        "output_by_the_megabyte",
        "print('x' * 10**7)\n\ndef sq(x):\n    print('y' * 10**7)\n",
    ),
    _fails("memory_by_doubling", "def sq(x):\n    s = 'x'\n    while True:\n        s += s\n"),
    _fails(
        "memory_by_unpacking_gzip",
        """
import gzip

def sq(x):
    return len(gzip.decompress(gzip.compress(bytes(2**20)) * 5000))
""",
    ),
    _fails("recursion", "def sq(x):\n    return sq(x + 1)\n"),
    _fails(
        "recursion_without_limit",
        "import sys\n\nsys.setrecursionlimit(2**31 - 1)\n\ndef sq(x):\n    return sq(x + 1)\n",
    ),
    _fails(
        "recursion_in_c",
        """
def sq(x):
    import sys
    sys.setrecursionlimit(2**30)
    nested = []
    for _ in range(10**6):
        nested = [nested]
    return repr(nested)
""",
    ),
    _fails(
        "recursion_in_json",
        'import json\n\ndef sq(x):\n    return json.loads("[" * 10**6 + "]" * 10**6)\n',
    ),
    _fails(
        "recursion_in_the_compiler",
        'def sq(x):\n    return eval("-" * 10**6 + "1", {}) and eval("(" * 10**5 + ")" * 10**5)\n',
    ),
    _fails(
        "recursion_of_references",
        """
class Node:
    pass

def sq(x):
    first = node = Node()
    for _ in range(3 * 10**6):
        node.next = Node()
        node = node.next
    del first
    raise KeyError
""",
    ),
    _fails("result_is_huge", "def sq(x):\n    return [0] * 10**7\n"),
    _fails("result_is_a_huge_text", "def sq(x):\n    return 'x' * 10**8\n"),
    _fails("result_is_a_huge_integer", "def sq(x):\n    return 1 << 10**9\n"),
    _fails(
        "result_is_a_small_integer_with_a_huge_text",
        "def sq(x):\n    return 10**200_000\n",
        "def check(candidate):\n    assert candidate(2) == 4, f'{candidate(2)}'\n    assert candidate(3) == 9\n",
    ),
    _fails(
        "result_is_deep",
        """
def sq(x):
    nested = []
    for _ in range(10**5):
        nested = [nested]
    return nested
""",
    ),
    _fails("result_contains_itself", "def sq(x):\n    a = []\n    a.append(a)\n    return a\n"),
    _fails(
        "result_branches",
        """
def sq(x):
    tree = []
    for _ in range(60):
        tree = [tree, tree]
    return tree
""",
    ),
    _fails(
        "result_expands",
        "def sq(x):\n    return range(10**18)\n",
        "def check(candidate):\n    assert list(candidate(2)) == [4]\n    assert sorted(candidate(3)) == [9]\n",
    ),
    _fails(
        "exact_number_with_a_huge_exponent",
        """
from decimal import Decimal
from fractions import Fraction

def sq(x):
    return Decimal("1e999999999") if x == 2 else Fraction(1, 10**100_000)
""",
        "def check(candidate):\n    assert int(candidate(2)) == 4\n    assert candidate(3) + 0.5 == 9.5\n",
    ),
    _fails(
        "argument_grows",
        "def sq(x):\n    x.extend([0] * 10**7)\n    return [0, 1]\n",
        "def check(candidate):\n    a = [0]\n    candidate(a)\n    assert a == [0]\n",
    ),
    _fails("text_of_an_exception_is_huge", "def sq(x):\n    raise ValueError('x' * 10**8)\n"),
    _fails(
        "exception_chain_is_long",
        """
def sq(x):
    error = None
    for _ in range(10**5):
        new = ValueError()
        new.__cause__ = new.__context__ = error
        error = new
    raise error
""",
    ),
    _fails(
        "name_of_an_exception_is_huge",
        "def sq(x):\n    raise type('X' * 10**7, (Exception,), {})\n",
    ),
    Attack(
        "output_of_some_size",
        CATEGORY,
        "print('x' * 10**6)\n\ndef sq(x):\n    print('y' * 10**6)\n    return x * x\n",
        "pass",
    ),
    _any(
        "output_without_end",
        "def sq(x):\n    while True:\n        print('x' * 10**6)\n",
    ),
    _any(
        "errors_without_end",
        "import os\nwhile True:\n    os.write(2, b'x' * 2**16)\n",
    ),
    _any(
        "output_by_a_thread",
        """
import os, threading

def flood():
    while True:
        os.write(1, b"x" * 2**12)

for _ in range(4):
    threading.Thread(target=flood, daemon=True).start()
"""
        + SQUARE,
    ),
    _any(
        "descriptors",
        """
import os

kept = []
try:
    while True:
        kept.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
"""
        + SQUARE,
    ),
    _any(
        "pipes_and_sockets",
        calling("""
            import os, socket
            kept = []
            while len(kept) < 10**5:
                kept.append(socket.socketpair())
                kept[-1][0].setblocking(False)
                kept[-1][0].send(b"x" * 10**5)
        """),
    ),
    _any(
        "temporary_folder_is_filled",
        calling("""
            for number in range(20):
                with open("@MARKER@".rpartition("/")[2] + f"-{number}", "wb") as file:
                    for _ in range(8):
                        file.write(bytes(2**20))
        """),
        FILES,
    ),
    _any(
        "file_is_huge",
        loading("""
            with open("@MARKER@".rpartition("/")[2], "wb") as file:
                file.seek(2**40)
                file.write(b"x")
        """),
        FILES,
    ),
    _any(
        "threads",
        """
import threading, time

try:
    for _ in range(2000):
        threading.Thread(target=time.sleep, args=(10**6,), daemon=True).start()
except RuntimeError:
    pass
"""
        + SQUARE,
    ),
    _any(
        "threads_that_start_threads",
        """
import threading, time

def bomb(depth):
    try:
        while depth < 8 and threading.active_count() < 1000:
            threading.Thread(target=bomb, args=(depth + 1,)).start()
    except RuntimeError:
        pass
    time.sleep(10**6)

def sq(x):
    threading.Thread(target=bomb, args=(0,)).start()
    return x * x
""",
    ),
    Attack(
        "processes",
        CATEGORY,
        loading("""
            import os, time
            for _ in range(6):  # at most 64 processes
                os.fork()
            time.sleep(30)
        """),
        "any",
        stopped_by=OTHERS,
    ),
    Attack(
        "processes_of_their_own_sessions",
        CATEGORY,
        calling("""
            import os, time
            for _ in range(40):
                if os.fork() == 0:
                    os.setsid()
                    time.sleep(30)
                    os._exit(0)
        """),
        "pass",
        stopped_by=OTHERS,
    ),
)

DEATH: tuple[Attack, ...] = (
    _fails("abort", "import os\n\ndef sq(x):\n    os.abort()\n"),
    _fails("exit_at_once", "import os\nos._exit(0)\n"),
    _fails(
        "segmentation_fault",
        "import ctypes\n\ndef sq(x):\n    return ctypes.string_at(0)\n",
    ),
    Attack(
        "segmentation_fault_in_one_call",
        CATEGORY,
        "import ctypes\n\ndef sq(x):\n    return x * x if x == 2 else ctypes.string_at(0)\n",
        "some",
    ),
    _fails(
        "broken_code_object",
        """
def sq(x):
    return x

sq.__code__ = sq.__code__.replace(co_code=b"\\x64\\xff" * 40, co_consts=(), co_stacksize=1)
""",
    ),
    _any("stop_itself", calling("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)")),
    _any("stop_itself_by_raise", calling("import signal\nsignal.raise_signal(signal.SIGSTOP)")),
    _any("signal_itself", calling("import signal\nsignal.raise_signal(signal.SIGTERM)")),
    _any(
        "closes_everything",
        "import os\n\ndef sq(x):\n    os.closerange(0, 2**16)\n    return x * x\n",
    ),
    _any(
        "closes_everything_while_loading",
        "import os\nfor n in range(4096):\n    try:\n        os.close(n)\n    except OSError:\n        pass\n"
        + SQUARE,
    ),
    _any(
        "duplicates_over_everything",
        loading("""
            import os
            null = os.open("/dev/null", os.O_RDONLY)
            for number in range(64):
                os.dup2(null, number)
        """),
    ),
    _any(
        "reads_everything",
        loading("""
            import os
            for number in range(64):
                try:
                    os.set_blocking(number, False)
                    while os.read(number, 65536):
                        pass
                except OSError:
                    pass
        """),
    ),
    _any(
        "writes_everywhere",
        loading("""
            import os
            for number in range(64):
                try:
                    os.set_blocking(number, False)
                    for _ in range(1000):
                        os.write(number, bytes(range(256)) * 64)
                except OSError:
                    pass
        """),
    ),
    _any(
        "frees_the_interpreter",
        system("""
            import sys
            ctypes.memset(id(sys.modules), 0xFF, 64)
        """),
    ),
    _any("finalises_the_interpreter", system("ctypes.pythonapi.Py_FinalizeEx()")),
    _any(
        "holds_the_interpreters_lock",
        system("ctypes.PyDLL(None).usleep(20_000_000)"),
    ),
    _any(
        "limits_itself",
        calling("""
        import resource
        for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_STACK):
            resource.setrlimit(which, (0, 0))
    """),
    ),
    _any(
        "uses_up_its_cpu_limit",
        "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (0, 1))\nwhile 1: 0\n",
    ),
)

TEXT: tuple[Attack, ...] = (
    _any("a_million_lines", "x = 0\n" * 10**6 + SQUARE),
    _any("one_long_line", "x = [" + "0," * 10**6 + "]\n" + SQUARE),
    _any("many_functions", "".join(f"def f{n}(): pass\n" for n in range(20_000)) + SQUARE),
    _any(
        "deep_blocks",
        "".join("    " * n + "if 1:\n" for n in range(99)) + "    " * 99 + "x = 1\n" + SQUARE,
    ),
    _fails("null_bytes", SQUARE + "\0\n"),
    _fails("lone_surrogates", SQUARE + "x = '\ud800'\n\udfff\n"),
    _fails("not_python", "\x1b[2J\x07 ((( \u202e\n"),
    _any("encoding_cookie", "# -*- coding: utf-7 -*-\n" + SQUARE),
    _any("unknown_encoding", "# -*- coding: no-such-encoding -*-\n" + SQUARE),
    _fails("nested_brackets", "x = " + "(" * 10**5 + ")" * 10**5 + "\n" + SQUARE),
    _fails("nested_minus", "x = " + "-" * 10**5 + "1\n" + SQUARE),
    _fails("nested_attributes", "x = a" + ".a" * 10**5 + "\n" + SQUARE),
    _fails("nested_operators", "x = " + "1+" * 10**5 + "a\n" + SQUARE),
    _fails("nested_lambdas", "x = " + "lambda: " * 10**4 + "(\n" + SQUARE),
    _fails("nested_formats", "x = " + 'f"{' * 200 + "\n" + SQUARE),
    _fails("folded_constants", "x = 9**9**9\n" + SQUARE),
    _any("folded_strings", "x = ('x' * 4096 * 4096) * 4096\n" + SQUARE),
    _any("huge_literal", "x = " + "9" * 10**6 + "\n" + SQUARE),
    _fails("nothing", ""),
    _fails("entry_point_is_a_number", "sq = 4\n"),
    _fails("entry_point_is_missing", "def other(x):\n    return x * x\n"),
    _any("future_annotations", "from __future__ import annotations, barry_as_FLUFL\n" + SQUARE),
)

DENIAL: tuple[Attack, ...] = (*TIME, *SPACE, *DEATH, *TEXT)
