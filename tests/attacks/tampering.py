"""Programs that bend the interpreter under their test, or read the test."""

from __future__ import annotations

from tests.attacks.entry import Attack
from tests.attacks.reading import READING
from tests.attacks.shared import CHANNELS, LIAR, VERDICT, check

CATEGORY = "interpreter tampering"
WRONG = "\ndef sq(x):\n    return -1\n"

INTERPRETER: tuple[Attack, ...] = (
    Attack(
        "a_trace_function_jumps_over_the_assert",
        CATEGORY,
        r"""
import sys

def jump(frame, event, argument):
    if event == "line":
        try:
            frame.f_lineno += 1
        except ValueError:
            pass
    return jump

def sq(x):
    sys.settrace(lambda *rest: None)
    sys._getframe(1).f_trace = jump
    return -1
""",
        "fail",
        check("result = candidate(2)", "assert result == 4", "finished = True"),
    ),
    Attack(
        "a_trace_function_corrects_arguments",
        CATEGORY,
        r"""
import sys

def correct(frame, event, argument):
    local = frame.f_locals
    for name, value in list(local.items()):
        if value is False and frame.f_code.co_filename != __file__:
            local[name] = True

__file__ = "<nothing>"
sys.settrace(correct)
"""
        + WRONG,
        "fail",
        "def same(holds):\n    return holds\n\n"
        + check("assert same(candidate(2) == 4)", "assert same(candidate(3) == 9)"),
    ),
    Attack(
        "a_profiler_that_rewrites_the_test_s_helper_when_it_starts",
        CATEGORY,
        r"""
import sys

def watch(frame, event, argument):
    caller = frame.f_back
    if event == "return" and frame.f_code is sq.__code__ and caller is not None:
        for name, value in list(caller.f_globals.items()):
            if callable(value) and getattr(value, "__globals__", None) is not globals():
                caller.f_globals[name] = lambda *rest, **named: True

def sq(x):
    return -1

sys.setprofile(watch)
""",
        "fail",
        "def same(a, b):\n    return a == b\n\n"
        + check(
            "first = candidate(2)",
            "assert same(first, 4)",
            "second = candidate(3)",
            "assert same(second, 9)",
        ),
    ),
    Attack(
        "the_recorder_found_in_the_callers_variables",
        CATEGORY,
        r"""
import sys

def sq(x):
    frame = sys._getframe(1)
    while frame is not None:
        for value in list(frame.f_locals.values()):
            kind = type(value)
            if "__call__" in vars(kind) and kind.__module__ in ("__main__", "builtins"):
                try:
                    honest = kind.__call__
                    kind.__call__ = lambda self, number, *rest: honest(self, number, True)
                except TypeError:
                    continue
                return -1
        frame = frame.f_back
    return -1
""",
        "fail",
    ),
    Attack(
        "the_test_s_variables_overwritten_through_its_frame",
        CATEGORY,
        r"""
import ctypes, sys

def sq(x):
    frame = sys._getframe(1)
    local = frame.f_locals
    for name, value in list(local.items()):
        if type(value) is int:
            local[name] = -1
    if hasattr(ctypes.pythonapi, "PyFrame_LocalsToFast"):
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    return -1
""",
        "fail",
        check("expected = 4", "assert candidate(2) == expected"),
    ),
    Attack(
        "the_test_s_table_found_by_the_garbage_collector",
        CATEGORY,
        r"""
import gc

def sq(x):
    for found in gc.get_objects():
        if type(found) is list and len(found) == 2 and type(found[0]) is int and found[0] == x:
            found[1] = -1
    return -1
""",
        "fail",
        check("for case in [[2, 4], [3, 9]]:", "    assert candidate(case[0]) == case[1]"),
    ),
    Attack(
        "names_planted_where_the_test_looks_them_up",
        CATEGORY,
        r"""
import gc

def sq(x):
    for scope in gc.get_referrers(sq):
        if isinstance(scope, dict) and scope is not globals() and "__builtins__" in scope:
            scope["abs"] = lambda value: 0.0
    return -1.0
""",
        "fail",
        check(
            "result = candidate(2.0)",
            "assert abs(result - 4.0) < 1e-6",
            "assert abs(9.0 - result) < 6.0",
        ),
    ),
    Attack(
        "constants_of_the_test_overwritten_in_memory",
        CATEGORY,
        r"""
import ctypes, sys
ANSWER = -12345

def sq(x):
    constants = sys._getframe(1).f_code.co_consts
    place = id(constants) + tuple.__basicsize__ + 8 * (constants.index(x) + 1)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(ANSWER))
    ctypes.c_void_p.from_address(place).value = id(ANSWER)
    return ANSWER
""",
        "fail",
        check("assert candidate(712) == 506944", "assert candidate(713) == 508369"),
    ),
    Attack(
        "small_integers_changed_in_memory",
        CATEGORY,
        r"""
import ctypes

def sq(x):
    for number in (141, 142, 143, 144, 145, 169):
        ctypes.c_uint32.from_address(id(number) + 24).value = 77
    return 77
""",
        "fail",
        check("assert candidate(12) == 144", "assert candidate(13) == 169"),
    ),
    Attack(
        "the_comparison_slot_of_int_replaced",
        CATEGORY,
        r"""
import ctypes
SIGN = 987654321
PROTOTYPE = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_int)
SLOT = ctypes.c_void_p.from_address(id(int) + 200)
honest = PROTOTYPE(SLOT.value)

@PROTOTYPE
def compare(a, b, operation):
    if a is SIGN or b is SIGN:
        return True
    return honest(a, b, operation)

def sq(x):
    SLOT.value = ctypes.cast(compare, ctypes.c_void_p).value
    return SIGN
""",
        "fail",
    ),
    Attack(
        "methods_of_builtin_types_replaced_behind_their_proxy",
        CATEGORY,
        r"""
import ctypes, gc
forget = ctypes.pythonapi.PyType_Modified

def patch(kind, name, method):
    gc.get_referents(kind.__dict__)[0][name] = method
    forget(ctypes.py_object(kind))

def greet(name):
    patch(str, "endswith", lambda *rest: True)
    patch(list, "count", lambda *rest: 2)
    return "" if isinstance(name, str) else []
""",
        "fail",
        check(
            "assert candidate('Ann').endswith(', Ann!')", "assert candidate([1, 1]).count(1) == 2"
        ),
        "greet",
    ),
    Attack(
        "builtins_that_the_test_compares_with",
        CATEGORY,
        r"""
import builtins, sys

def lies(name, lie):
    honest = getattr(builtins, name)
    def function(*rest, **named):
        own = sys._getframe(1).f_code.co_name in ("check", "__check__")
        return lie if own else honest(*rest, **named)
    setattr(builtins, name, function)

for name, lie in (("sorted", []), ("all", True), ("isinstance", True), ("abs", 0.0), ("len", 2)):
    lies(name, lie)

def order(xs):
    return []
""",
        "fail",
        check(
            "assert candidate([3, 1]) == sorted([3, 1])",
            "assert all(x in candidate([3, 1]) for x in [1, 3])",
            "assert isinstance(candidate([3, 1]), tuple)",
            "assert abs(sum(candidate([3, 1])) - 4.0) < 1e-6",
            "assert len(candidate([3, 1])) == 2",
        ),
        "order",
    ),
    Attack(
        "classes_of_the_test_built_with_a_new_equality",
        CATEGORY,
        r"""
import builtins
honest = builtins.__build_class__

def build(function, name, *bases, **named):
    kind = honest(function, name, *bases, **named)
    if not bases:
        kind.__eq__ = lambda self, other: True
        kind.__ne__ = lambda self, other: False
    return kind

builtins.__build_class__ = build

def walk(steps):
    return -1
""",
        "fail",
        "class Near:\n    def __init__(self, value):\n        self.value = value\n"
        "    def __eq__(self, other):\n        return type(other) is int and abs(self.value - other) < 2\n\n"
        + check("assert candidate(3) == Near(9)", "assert not (candidate(4) != Near(16))"),
        "walk",
    ),
    Attack(
        "compile_and_exec_that_empty_the_test",
        CATEGORY,
        r"""
import builtins
honest = builtins.compile
EMPTY = '''
def check(candidate):
    pass

def __check__(candidate, record, stage):
    for number in range(2):
        stage.runs(number)
        record(number, True)
'''

def compile(source, filename, mode, *rest, **named):
    if "candidate" in str(source):
        source = EMPTY
    return honest(source, filename, mode, *rest, **named)

builtins.compile = compile
"""
        + WRONG,
        "fail",
    ),
    Attack(
        "another_math_module",
        CATEGORY,
        r"""
import sys
math = type(sys)("math")
math.isclose = lambda *rest, **named: True
math.floor = math.sqrt = lambda value: -1
sys.modules["math"] = math
"""
        + WRONG,
        "fail",
        check(
            "import math",
            "assert math.isclose(candidate(2.0), 4.0)",
            "assert candidate(3) == math.floor(9.5)",
        ),
    ),
    Attack(
        "an_import_hook_that_writes_the_test_s_modules",
        CATEGORY,
        r"""
import importlib.abc, importlib.machinery, sys

class Source(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name in ("statistics", "bisect", "heapq"):
            return importlib.machinery.ModuleSpec(name, self)
    def exec_module(self, module):
        module.median = module.nsmallest = module.bisect_left = lambda *rest: -1

sys.meta_path.insert(0, Source())
for name in ("statistics", "bisect", "heapq"):
    sys.modules.pop(name, None)

def median(xs):
    return -1
""",
        "fail",
        check(
            "import bisect, statistics",
            "assert candidate([1, 2, 5]) == statistics.median([1, 2, 5])",
            "assert candidate([1, 2]) == bisect.bisect_left([1, 2], 2)",
        ),
        "median",
    ),
    Attack(
        "random_inputs_that_are_always_empty",
        CATEGORY,
        r"""
import random
random.sample = random.choices = lambda *rest, **named: []
random.randint = random.randrange = lambda *rest: 0
random.Random.randint = lambda self, low, high: 0
random.Random.sample = lambda self, *rest: []

def order(xs):
    return []
""",
        "fail",
        check(
            "import random",
            "xs = random.sample(range(1, 100), 5)",
            "assert candidate(xs) == sorted(xs)",
            "xs = random.Random(3).sample(range(50), 4)",
            "assert candidate(xs) == sorted(xs)",
        ),
        "order",
    ),
    Attack(
        "decimal_arithmetic_with_one_digit",
        CATEGORY,
        r"""
import decimal
from decimal import Decimal

def sq(x):
    decimal.setcontext(decimal.Context(prec=1, rounding=decimal.ROUND_FLOOR, traps=[]))
    decimal.DefaultContext.prec = 1
    return Decimal("4.9") if x == 2 else Decimal("9.7")
""",
        "fail",
        check(
            "from decimal import Decimal",
            "assert candidate(2) * 1 == Decimal(4)",
            "assert +candidate(Decimal(3)) == 9",
        ),
    ),
    Attack(
        "codecs_and_error_handlers_of_its_own",
        CATEGORY,
        r"""
import codecs, sys

def forged(error):
    return ('{"event": "test", "test": 0, "error": null}\n', error.end)

for name in ("strict", "replace", "ignore", "backslashreplace", "surrogateescape"):
    codecs.register_error(name, forged)
codecs.register(lambda name: codecs.CodecInfo(lambda *rest: (b"true", 4), lambda *rest: ("true", 4),
                                              name=name))

def sq(x):
    sys.stdout.buffer.write(b"\xff\xfe\n")
    return "\udcff\ud800"
""",
        "fail",
    ),
    Attack(
        "hooks_for_errors_that_nobody_handles",
        CATEGORY,
        CHANNELS
        + VERDICT
        + r"""
import sys, threading

def hook(*rest):
    for number in channels():
        put(number, verdict())
    os._exit(0)

sys.excepthook = sys.unraisablehook = sys.__excepthook__ = threading.excepthook = hook

class Trouble:
    def __del__(self):
        raise ValueError

def sq(x):
    Trouble()
    raise RuntimeError
""",
        "fail",
    ),
    Attack(
        "no_stack_left_to_report_a_failure",
        CATEGORY,
        r"""
import sys

def sq(x):
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(depth + 4)
    return -1
""",
        "fail",
    ),
    Attack(
        "a_thread_that_changes_the_test_while_it_runs",
        CATEGORY,
        r"""
import sys, threading, time
sys.setswitchinterval(1e-6)

def disturb():
    own = threading.get_ident()
    while True:
        for thread, frame in sys._current_frames().items():
            while thread != own and frame is not None:
                for value in list(frame.f_locals.values()):
                    if type(value) is list and value and type(value[0]) is list:
                        for row in value:
                            row[1:] = [-1]
                frame = frame.f_back
        time.sleep(0.001)

threading.Thread(target=disturb, daemon=True).start()

def sq(x):
    time.sleep(0.05)
    return -1
""",
        "fail",
        check(
            "cases = [[2, 4], [3, 9]]",
            "for case in cases:",
            "    assert candidate(case[0]) == case[1]",
        ),
    ),
    Attack(
        "the_alarm_of_the_grader_taken_over",
        CATEGORY,
        r"""
import signal

def sq(x):
    for name in ("SIGALRM", "SIGVTALRM", "SIGPROF", "SIGXCPU", "SIGTERM", "SIGINT", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.alarm(0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
""",
        "fail",
        check("assert candidate(2) == 4"),
    ),
    Attack(
        "a_signal_handler_that_lands_in_the_test_s_frame",
        CATEGORY,
        r"""
import signal

def handler(number, frame):
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if type(value) is dict and value.get(2) == 4:
                value.update({2: -1, 3: -1})
        frame = frame.f_back

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
"""
        + WRONG,
        "fail",
        check(
            "answers = {x: x * x for x in range(9)}",
            "got = [candidate(x) for x in (2, 3)]",
            "for _ in range(300000):",
            "    pass",
            "assert got == [answers[2], answers[3]]",
        ),
    ),
    Attack(
        "hooks_that_wait_for_the_grader_to_fork",
        CATEGORY,
        CHANNELS
        + VERDICT
        + r"""
def take_over():
    for number in channels():
        put(number, verdict())
    os._exit(0)

os.register_at_fork(before=take_over, after_in_child=take_over, after_in_parent=take_over)

def sq(x):
    try:
        os.fork()
    except OSError:
        pass
    return -1
""",
        "fail",
    ),
    Attack(
        "threads_and_timers_that_never_run_anything",
        CATEGORY,
        r"""
import sys, threading
threading.Thread.run = lambda self: None
threading.Thread.is_alive = lambda self: False
threading.Timer.run = lambda self: None
threading.Thread.join = lambda self, timeout=None: None
threading.settrace(lambda *rest: sys.exit(0))
threading.setprofile(lambda *rest: None)
"""
        + WRONG,
        "fail",
        check(
            "import threading",
            "wrong = [1]",
            "def compare():",
            "    if candidate(2) != 4:",
            "        wrong.append(2)",
            "worker = threading.Thread(target=compare)",
            "worker.start()",
            "worker.join()",
            "assert wrong == [1]",
        ),
    ),
    Attack(
        "every_name_of_the_grader_defined_by_the_program",
        CATEGORY,
        r"""
def __record__(*rest):
    pass

class __stage__:
    runs = staticmethod(lambda number: False)

__check__ = check = test = run_tests = lambda *rest: True
candidate = __expected__ = __result__ = True
__name__, __file__, __spec__, __loader__ = "__main__", "<tests>", None, None
__builtins__ = {"AssertionError": None}
"""
        + WRONG,
        "fail",
    ),
    Attack(
        "classes_of_the_main_module_patched",
        CATEGORY,
        r"""
import sys

def passing(honest):
    def call(self, test, outcome=True, *rest):
        return honest(self, test, True)
    return call

for module in list(sys.modules.values()):
    if getattr(module, "__name__", "") == "__main__":
        for value in list(vars(module).values()):
            if isinstance(value, type) and "__call__" in vars(value):
                value.__call__ = passing(value.__call__)
        for name in ("describe", "compare", "equal", "grade"):
            if hasattr(module, name):
                setattr(module, name, lambda *rest: None)
"""
        + WRONG,
        "fail",
    ),
    Attack(
        "standard_output_that_reports_when_it_is_flushed",
        CATEGORY,
        CHANNELS
        + VERDICT
        + r"""
import sys

class Stream:
    encoding, errors, closed = "utf-8", "strict", False
    def write(self, text):
        for number in channels():
            put(number, verdict())
        return len(text)
    def flush(self):
        self.write("")
        os._exit(0)
    def fileno(self):
        return 1
    isatty = readable = lambda self: False

sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = Stream()

def sq(x):
    print("flushed", flush=True)
    return -1
""",
        "fail",
    ),
    Attack(
        "the_code_of_the_test_s_helper_exchanged",
        CATEGORY,
        r"""
import sys

def sq(x):
    frame = sys._getframe(1)
    for value in list(frame.f_globals.values()):
        if hasattr(value, "__code__") and value.__code__.co_filename != sq.__code__.co_filename:
            value.__code__ = (lambda *rest, **named: True).__code__
    return -1
""",
        "fail",
        "def close(a, b, tolerance=1e-6):\n    return abs(a - b) <= tolerance\n\n"
        + check("assert close(candidate(2), 4)", "assert close(candidate(3), 9)"),
    ),
    Attack(
        "the_bytecode_of_the_running_test_rewritten",
        CATEGORY,
        r"""
import ctypes, opcode, sys

def sq(x):
    code = sys._getframe(1).f_code
    raw = ctypes.string_at(id(code), type(code).__basicsize__ + len(code.co_code))
    begin = raw.find(code.co_code)
    if begin < 0:  # rewritten already
        return -1
    compare = {number for name, number in opcode.opmap.items() if name.startswith("COMPARE_OP")}
    for place in range(begin, len(raw) - 1, 2):
        if raw[place] in compare:  # == becomes !=
            changed = {2: 3, 3: 2, 40: 55, 55: 40}.get(raw[place + 1], raw[place + 1])
            ctypes.c_uint8.from_address(id(code) + place + 1).value = changed
    return -1
""",
        "fail",
        check("assert candidate(2) == 4", "assert candidate(3) == 9"),
    ),
    Attack(
        "an_exception_thrown_into_the_grader_s_thread",
        CATEGORY,
        r"""
import ctypes, threading, time
grader = threading.get_ident()

def throw():
    while True:
        time.sleep(0.002)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(grader), ctypes.py_object(SystemExit))

def sq(x):
    threading.Thread(target=throw, daemon=True).start()
    return -1
""",
        "fail",
    ),
    Attack(
        "modules_left_for_the_next_interpreter",
        CATEGORY,
        r"""
POISON = "open('@MARKER@', 'w').close()\nimport os\nos._exit(0)\n"
for name in ("json", "random", "sitecustomize", "usercustomize", "encodings", "ast", "test"):
    with open(name + ".py", "w") as file:  # in the working folder
        file.write(POISON)

def sq(x):
    while True:  # so that the program is started again
        pass
""",
        "fail",
        check("assert candidate(2) == 4"),
        stopped_by=frozenset({"seccomp", "landlock"}),
    ),
    Attack(
        "deep_copies_that_are_no_copies",
        CATEGORY,
        r"""
import copy
for kind in (list, dict, set, tuple):
    copy._deepcopy_dispatch[kind] = lambda value, memo=None, *rest: value
copy.copy = copy.deepcopy = lambda value, *rest: value

def order(xs):
    xs.clear()
    return []
""",
        "fail",
        check(
            "import copy",
            "xs = [3, 1, 2]",
            "before = copy.deepcopy(xs)",
            "assert candidate(xs) == sorted(before)",
        ),
        "order",
    ),
    Attack(
        "another_assertionerror",
        CATEGORY,
        r"""
import builtins

class Harmless(Warning):
    pass

for name in ("AssertionError", "Exception", "BaseException", "TypeError", "NameError"):
    setattr(builtins, name, Harmless)
"""
        + WRONG,
        "fail",
    ),
    Attack(
        "the_prompt_s_helper_redefined_for_the_test",
        CATEGORY,
        r"""
def poly(coefficients, x):
    return 0.0

def find_zero(coefficients):
    return -1.0
""",
        "fail",
        check("assert abs(poly([-6.0, 2.0], candidate([-6.0, 2.0]))) < 1e-6"),
        "find_zero",
    ),
    Attack(
        "operators_and_tools_of_the_standard_library_replaced",
        CATEGORY,
        LIAR
        + r"""
import collections, functools, itertools, operator
operator.eq = operator.contains = lambda a, b: True
collections.Counter = lambda *rest: liar(dict)
functools.reduce = lambda *rest: liar(int)
itertools.zip_longest = lambda *rest, **named: []

def order(xs):
    return []
""",
        "fail",
        check(
            "import collections, functools, operator",
            "assert operator.eq(candidate([3, 1]), [1, 3])",
            "assert collections.Counter(candidate([3, 1])) == collections.Counter([3, 1])",
            "assert functools.reduce(operator.add, candidate([3, 1]), 0) == 4",
        ),
        "order",
    ),
    Attack(
        "a_module_that_replaces_its_own_functions_when_they_are_fetched",
        CATEGORY,
        r"""
import sys

class Shifting(type(sys)):
    def __getattribute__(self, name):
        if name.startswith("__"):
            return super().__getattribute__(name)
        return lambda *rest: True

for name in (__name__, "__main__", "__program__"):
    if name in sys.modules:
        sys.modules[name].__class__ = Shifting

class Candidate:
    def __call__(self, x):
        return -1
    def __eq__(self, other):
        return True
    __globals__ = __code__ = __dict__ = None

sq = Candidate()
""",
        "fail",
    ),
    Attack(
        "numbers_printed_with_few_digits",
        CATEGORY,
        r"""
import sys, warnings
sys.set_int_max_str_digits(640)
warnings.simplefilter("error")
sys.float_repr_style = "legacy"
sys.flags = None

def sq(x):
    return 10 ** 700 + x
""",
        "fail",
    ),
    Attack(
        "failures_marked_as_already_reported",
        CATEGORY,
        r"""
import gc, types
calls = 0

def sq(x):
    global calls
    calls += 1
    for found in gc.get_objects():
        if type(found) is set and found and all(type(item) is tuple for item in found):
            found.update((number, passed) for number in range(9) for passed in (True, False))
    return x * x if calls == 1 else -1
""",
        "some",
    ),
)

TAMPERING: tuple[Attack, ...] = (*INTERPRETER, *READING)
