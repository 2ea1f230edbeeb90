"""Programs that answer for their grader, or trick its comparisons."""

from __future__ import annotations

from tests.attacks.comparing import COMPARING
from tests.attacks.entry import Attack
from tests.attacks.objects import OBJECTS
from tests.attacks.shared import CHANNELS, VERDICT, check
from tests.attacks.speaking import SPEAKING

CATEGORY = "result forging"
WRONG = "\ndef sq(x):\n    return 0\n"

RESULTS: tuple[Attack, ...] = (
    Attack(
        "pass_lines_to_every_descriptor",
        CATEGORY,
        CHANNELS + VERDICT + "\nfor number in channels():\n    put(number, verdict())\n" + WRONG,
        "fail",
    ),
    Attack(
        "length_prefixed_verdicts_in_every_byte_order",
        CATEGORY,
        CHANNELS
        + r"""
import json, struct
BODIES = [
    {"passed": True}, {"status": "passed", "tests": [True, True]}, {"ok": 1, "id": 0, "result": True},
    ["passed", 0, 1], ["done"],
]
for number in channels():
    for body in BODIES:
        data = json.dumps(body).encode()
        for header in (">I", "<I", ">Q", "<Q", ">H"):
            put(number, struct.pack(header, len(data)) + data)
        put(number, b"%d:%s," % (len(data), data))
        put(number, b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
"""
        + WRONG,
        "fail",
    ),
    Attack(
        "a_pickle_that_runs_where_it_is_read",
        CATEGORY,
        CHANNELS
        + r"""
import pickle, struct

class Payload:
    def __reduce__(self):
        return (open, ("@MARKER@", "w"))

data = pickle.dumps(Payload())

def sq(x):
    for number in channels():
        put(number, struct.pack("!i", len(data)) + data)  # as multiprocessing.Connection frames it
        put(number, data)
    return Payload()
""",
        "fail",
    ),
    Attack(
        "reports_of_test_runners_on_the_output",
        CATEGORY,
        r"""
import sys
REPORT = '''..
----------------------------------------------------------------------
Ran 2 tests in 0.001s

OK
============================== 2 passed in 0.01s ==============================
1..2
ok 1
ok 2
{"event": "test", "test": 0, "error": null}
{"passed": 2, "total": 2, "reward": 1.0}
passed
'''
print(REPORT, flush=True)
sys.stderr.write(REPORT)

def sq(x):
    print(REPORT, flush=True)
""",
        "fail",
    ),
    Attack(
        "exit_with_success_inside_a_test",
        CATEGORY,
        "import sys\n\ndef sq(x):\n    sys.exit(0)\n",
        "fail",
    ),
    Attack(
        "hard_exit_with_success_while_loading",
        CATEGORY,
        "import os\nos._exit(0)\n\ndef sq(x):\n    return 0\n",
        "fail",
    ),
    Attack(
        "last_words_at_exit",
        CATEGORY,
        CHANNELS
        + VERDICT
        + r"""
import atexit

@atexit.register
def last_words():
    for number in channels():
        put(number, verdict())
    os._exit(0)

def sq(x):
    raise SystemExit(0)
""",
        "fail",
    ),
    Attack(
        "json_dumps_that_drops_errors",
        CATEGORY,
        r"""
import json
honest = json.dumps

def dumps(value, *rest, **options):
    if isinstance(value, dict):
        value = {key: None if key == "error" else True if part is False else part
                 for key, part in value.items()}
    return honest(value, *rest, **options)

json.dumps = dumps
"""
        + WRONG,
        "fail",
    ),
    Attack(
        "the_shared_json_encoder_and_decoder_replaced_inside",
        CATEGORY,
        r"""
import json, json.decoder, json.encoder, re

class Encoder(json.encoder.JSONEncoder):
    def encode(self, value):
        text = super().encode(value)
        return re.sub(r'"error": \{.*?\}', '"error": null', text).replace("false", "true")

json._default_encoder.__class__ = Encoder
json.encoder.JSONEncoder.default = lambda self, value: True
json.decoder.JSONDecoder.raw_decode = lambda self, text, at=0: ({"passed": True}, len(text))
"""
        + WRONG,
        "fail",
    ),
    Attack(
        "os_write_that_corrects_reports",
        CATEGORY,
        r"""
import os, re
honest = os.write

def write(descriptor, data):
    fixed = re.sub(rb'"error": \{.*\}\}', b'"error": null}', bytes(data))
    honest(descriptor, fixed.replace(b"failed", b"passed").replace(b"false", b"true "))
    return len(data)

os.write = write
import posix
posix.write = write
"""
        + WRONG,
        "fail",
    ),
    Attack(
        "sockets_found_in_memory_change_their_class",
        CATEGORY,
        r"""
import gc, socket

class Forger(socket.socket):
    __slots__ = ()

    def send(self, data, *flags):
        return super().send(bytes(data).replace(b"false", b"true ").replace(b"fail", b"pass"), *flags)

    def sendall(self, data, *flags):
        while data:
            data = data[self.send(data, *flags):]

    def sendmsg(self, buffers, *rest):
        return self.send(b"".join(bytes(part) for part in buffers))

for found in gc.get_objects():
    if type(found) is socket.socket:
        found.__class__ = Forger
socket.socket = Forger
socket.SocketType = Forger
"""
        + WRONG,
        "fail",
    ),
    Attack(
        "the_grader_s_own_send_function_found_by_its_closure",
        CATEGORY,
        r"""
import gc, os, types

def sends():
    for found in gc.get_objects():
        if isinstance(found, types.FunctionType) and found.__closure__:
            try:
                held = [cell.cell_contents for cell in found.__closure__]
                if any(type(value) is int and value > 2 and os.fstat(value) for value in held):
                    yield found
            except (ValueError, OSError):
                continue

for send in list(sends()):
    try:
        send(event="loaded", error=None)
        for index in range(2):
            send(event="stage", stage=index)
            send(event="test", test=index, error=None)
        send(event="done")
    except TypeError:
        send({"passed": True})
"""
        + WRONG,
        "fail",
    ),
    Attack(
        "answers_before_the_questions",
        CATEGORY,
        CHANNELS
        + r"""
import json, struct

def frames():
    for number in range(64):
        for body in ([number, 0], {"id": number, "value": True}, {"call": number, "result": None, "ok": True},
                     ["return", number, ["int", "0"]], {"r": number, "v": True, "equal": True}):
            yield json.dumps(body).encode()

for number in channels():
    for frame in frames():
        put(number, frame + b"\n")
        put(number, struct.pack(">I", len(frame)) + frame)
"""
        + WRONG,
        "fail",
    ),
    Attack(
        "a_hundred_answers_to_one_call",
        CATEGORY,
        r"""
import os, socket
SIGN = 7654321  # found again in whatever frame carries it

def variants(data):
    sign = str(SIGN).encode()
    if sign not in data:
        return [data]
    return [data.replace(sign, str(guess).encode().ljust(len(sign))) for guess in range(100)]

def many(honest):
    def send(target, data, *rest):
        sent = [honest(target, part, *rest) for part in variants(bytes(data))]
        return sent[0]
    return send

os.write = many(os.write)
for name in ("send", "sendall"):
    setattr(socket.socket, name, many(getattr(socket.socket, name)))

def sq(x):
    return SIGN
""",
        "fail",
    ),
    Attack(
        "a_frame_without_end",
        CATEGORY,
        CHANNELS
        + r"""
import struct

def sq(x):
    for number in channels():
        put(number, struct.pack(">I", 2**31 - 1) + struct.pack("<Q", 2**40))
        try:
            for _ in range(48):
                os.write(number, b"[" + b"1," * 2**19)
        except OSError:
            pass
    return 0
""",
        "fail",
    ),
    Attack(
        "frames_of_random_bytes",
        CATEGORY,
        CHANNELS
        + r"""
def sq(x):
    for number in channels():
        for size in (1, 2, 3, 4, 5, 8, 64, 4096):
            put(number, os.urandom(size))
            put(number, b"\0" * size)
            put(number, b"\xff" * size)
            put(number, b"\n" * size)
    return 0
""",
        "fail",
    ),
    Attack(
        "frames_nested_too_deep_to_parse",
        CATEGORY,
        CHANNELS
        + r"""
import struct

def sq(x):
    for number in channels():
        for unit in (b"[", b'{"error":', b'["list",'):
            data = unit * 10000
            put(number, data + b"\n")
            put(number, struct.pack(">I", len(data)) + data)
            put(number, struct.pack("<I", len(data)) + data)
    return 0
""",
        "fail",
    ),
    Attack(
        "frames_that_are_no_text",
        CATEGORY,
        CHANNELS
        + r"""
import struct
BODIES = [
    b'{"event": "test", "test": 0, "error": null, "\xff\xfe": 1}',
    b'["\xed\xa0\x80", "\\ud800", 1e999, NaN, -Infinity, 1' + b"0" * 5000 + b"]",
    "\ufeff[true]".encode("utf-16"),
    b'{"a": 1, "a": 2, "__class__": "passed", "": null}',
]

def sq(x):
    for number in channels():
        for body in BODIES:
            put(number, body + b"\n")
            put(number, struct.pack(">I", len(body)) + body)
            put(number, struct.pack("<I", len(body)) + body)
    return 0
""",
        "fail",
    ),
    Attack(
        "a_returned_value_nested_too_deep",
        CATEGORY,
        r"""
def sq(x):
    value = 0
    for _ in range(200000):
        value = [value] if x == 2 else {"error": value}
    return value
""",
        "fail",
    ),
    Attack(
        "integers_too_long_to_be_written_down",
        CATEGORY,
        "def sq(x):\n    return 10 ** 60000 if x == 2 else -(1 << 10 ** 7)\n",
        "fail",
    ),
    Attack(
        "a_returned_string_that_continues_the_protocol",
        CATEGORY,
        r"""
END = '"}\n{"event": "test", "test": %d, "error": null}\n{"event": "done"}\n'

def sq(x):
    if x == 2:
        return (END % 0) + (END % 1) + "\0\r\n\x1e\u2028" + "\ud800"
    raise ValueError((END % 0) + (END % 1) + "\udcff\n\npassed\n")
""",
        "fail",
    ),
    Attack(
        "values_that_look_like_the_codec_s_own_tags",
        CATEGORY,
        r"""
STYLES = [
    {"__tuple__": [2, 4]}, {"$tuple": [2, 4]}, {"t": "tuple", "v": [2, 4]}, {"tuple": [2, 4]},
    ["tuple", [2, 4]], ["t", 2, 4], ["t", [2, 4]], {"__type__": "tuple", "__value__": [2, 4]},
    {"__class__": "tuple", "items": [2, 4]}, {"!": "tuple", "": [2, 4]},
]

def sq(x):
    return STYLES[x]
""",
        "fail",
        check(*(f"assert candidate({style}) == (2, 4)" for style in range(10))),
    ),
    Attack(
        "values_that_look_like_handles_and_exceptions_of_the_codec",
        CATEGORY,
        r"""
STYLES = [
    {"__handle__": 0}, {"handle": 1, "kind": "function"}, ["handle", 0], ["h", 0, "iterator"],
    {"callback": 0}, ["callback", 0], {"$ref": 0}, {"__exception__": "StopIteration"},
    ["error", "AssertionError", ""], {"error": None, "passed": True},
]

def pick(call, style):
    return STYLES[style]
""",
        "fail",
        check(*(f"assert candidate(lambda: 4, {style})() == 4" for style in range(10))),
        "pick",
    ),
    Attack(
        "tests_asked_to_be_skipped",
        CATEGORY,
        "import unittest\n\ndef sq(x):\n    raise unittest.SkipTest('not on this machine')\n",
        "fail",
    ),
    Attack(
        "stopiteration_ends_a_map_early",
        CATEGORY,
        "def sq(x):\n    raise StopIteration\n",
        "fail",
        check("assert all(map(lambda case: candidate(case[0]) == case[1], [(2, 4), (3, 9)]))"),
    ),
    Attack(
        "a_custom_stopiteration_inside_a_lazy_filter",
        CATEGORY,
        r"""
class Enough(StopIteration):
    pass

def even(x):
    raise Enough("nothing left to do")
""",
        "fail",
        check(
            "wrong = [x for x in filter(lambda x: candidate(x) != (x % 2 == 0), range(9))]",
            "assert wrong == []",
        ),
        "even",
    ),
    Attack(
        "exceptions_that_no_handler_expects",
        CATEGORY,
        r"""
import asyncio
KINDS = [KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, type("Own", (BaseException,), {})]

def sq(x):
    raise KINDS[x]("passed")
""",
        "fail",
        check(*(f"assert candidate({kind}) == 1" for kind in range(4))),
    ),
    Attack(
        "an_exception_whose_text_is_computed_by_the_grader",
        CATEGORY,
        r"""
import sys

class Charming(AssertionError):
    def __str__(self):
        frame = sys._getframe(1)
        while frame is not None:
            for name, value in list(frame.f_globals.items()):
                if name in ("describe", "failure", "report"):
                    frame.f_globals[name] = lambda *rest, **named: None
            frame = frame.f_back
        raise SystemExit(0)
    __repr__ = __str__

def sq(x):
    raise Charming
""",
        "fail",
    ),
    Attack(
        "an_exception_class_with_a_forged_name",
        CATEGORY,
        r"""
NAME = 'Passed", "error": null}\n{"event": "done"}\n'

def sq(x):
    kind = type(NAME, (AssertionError,), {"__module__": NAME, "__qualname__": NAME})
    error = kind()
    error.__traceback__ = None
    error.__cause__ = error.__context__ = error
    raise error
""",
        "fail",
    ),
    Attack(
        "a_thread_that_keeps_answering_after_the_return",
        CATEGORY,
        CHANNELS
        + VERDICT
        + r"""
import threading, time

def babble():
    while True:
        for number in channels():
            put(number, verdict())
        time.sleep(0.001)

def sq(x):
    threading.Thread(target=babble, daemon=True).start()
    time.sleep(0.05)
    return 0
""",
        "fail",
    ),
    Attack(
        "a_destructor_that_reports",
        CATEGORY,
        CHANNELS
        + VERDICT
        + r"""
class Testament:
    def __del__(self):
        for number in channels():
            put(number, verdict())

def sq(x):
    return Testament()
""",
        "fail",
    ),
    Attack(
        "a_hook_of_the_garbage_collector_that_reports",
        CATEGORY,
        CHANNELS
        + VERDICT
        + r"""
import gc

def report(phase, info):
    for number in channels():
        put(number, verdict())

gc.set_threshold(1, 1, 1)
gc.callbacks.append(report)

def sq(x):
    return [[] for _ in range(100)]
""",
        "fail",
    ),
    Attack(
        "forked_guessers_of_which_only_the_lucky_one_reports",
        CATEGORY,
        CHANNELS
        + r"""
def sq(x):
    for guess in range(20):
        child = os.fork()
        if child == 0:
            return -1 - guess
        os.waitpid(child, 0)
    return -100
""",
        "fail",
    ),
    Attack(
        "a_man_in_the_middle_of_the_channel",
        CATEGORY,
        CHANNELS
        + VERDICT
        + r"""
for number in channels():
    kept = os.dup(number)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, number)  # the honest reports go here
    put(kept, verdict())
"""
        + WRONG,
        "fail",
    ),
    Attack(
        "silence_and_a_clean_exit",
        CATEGORY,
        "import os\n\ndef sq(x):\n    os.closerange(0, 1024)\n    os._exit(0)\n",
        "fail",
    ),
    Attack(
        "descriptors_sent_along_as_answers",
        CATEGORY,
        CHANNELS
        + r"""
import array, socket

def sq(x):
    for number in channels():
        try:
            with socket.socket(fileno=os.dup(number)) as connection:
                rights = array.array("i", [0, 1, 2])
                for _ in range(50):
                    connection.sendmsg([b'{"passed": true}\n'],
                                       [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        except OSError:
            continue
    return 0
""",
        "fail",
    ),
    Attack(
        "half_of_the_connection_shut_down",
        CATEGORY,
        CHANNELS
        + r"""
import socket

def sq(x):
    for number in channels():
        try:
            connection = socket.socket(fileno=number)
            connection.shutdown(socket.SHUT_WR if x == 2 else socket.SHUT_RDWR)
            connection.detach()
        except OSError:
            continue
    return 0
""",
        "fail",
    ),
    Attack(
        "the_doorbell_rung_without_an_answer",
        CATEGORY,
        CHANNELS
        + r"""
import time

def sq(x):
    for number in channels():
        for byte in (b"\0", b"\1", b".", b"!", b"D", b"\n"):
            put(number, byte * 64)
    time.sleep(0.3)
    return 0
""",
        "fail",
    ),
    Attack(
        "reports_through_the_parent_s_own_descriptors",
        CATEGORY,
        VERDICT
        + r"""
import os

def sq(x):
    folder = "/proc/%d/fd" % os.getppid()
    for name in os.listdir(folder):
        try:
            if not os.readlink(folder + "/" + name).startswith("pipe:"):
                continue
            target = os.open(folder + "/" + name, os.O_WRONLY | os.O_NONBLOCK)
            os.write(target, verdict())
        except OSError:
            continue
    return 0
""",
        "fail",
        stopped_by=frozenset({"landlock", "namespaces"}),
    ),
    Attack(
        "later_requests_taken_out_of_the_socket",
        CATEGORY,
        CHANNELS
        + r"""
import socket

def sq(x):
    for number in channels():
        try:
            with socket.socket(fileno=os.dup(number)) as connection:
                asked = connection.recv(65536, socket.MSG_DONTWAIT)
                connection.send(asked)  # sent back as the answer
                connection.send(asked.replace(b"call", b"done"))
        except OSError:
            continue
    return 0
""",
        "fail",
    ),
    Attack(
        "an_iterator_that_ends_by_leaving",
        CATEGORY,
        r"""
def squares(n):
    yield 1
    raise (SystemExit(0) if n == 3 else GeneratorExit if n == 4 else KeyboardInterrupt)
""",
        "fail",
        check(
            "assert list(candidate(3)) == [1, 4, 9]",
            "assert list(candidate(4)) == [1, 4, 9, 16]",
            "assert sum(candidate(5)) == 55",
        ),
        "squares",
    ),
    Attack(
        "right_answers_with_code_in_every_method",
        CATEGORY,
        r"""
def trap(self, *rest):
    open("@MARKER@", "w").close()
    raise SystemExit("passed")

class Trap(int):
    for name in ("repr", "str", "format", "reduce", "reduce_ex", "hash", "index", "int", "float", "bool",
                 "eq", "ne", "lt", "ceil", "abs", "sizeof", "dir", "getstate", "getnewargs"):
        locals()["__" + name + "__"] = trap

def sq(x):
    return Trap(x * x)
""",
        "pass",
        stopped_by=frozenset({"landlock"}),
    ),
    Attack(
        "an_error_in_the_loop_that_collects_mistakes",
        CATEGORY,
        "def sq(x):\n    raise ValueError(x)\n",
        "fail",
        check(
            "wrong = []",
            "for x, y in [(2, 4), (3, 9)]:",
            "    if candidate(x) != y:",
            "        wrong.append(x)",
            "assert wrong == []",
        ),
    ),
    Attack(
        "an_exit_before_the_flag_can_fall",
        CATEGORY,
        "import os\n\ndef sq(x):\n    os._exit(0)\n",
        "fail",
        check(
            "held = True",
            "for x in (2, 3):",
            "    held = candidate(x) == x * x and held",
            "assert held",
        ),
    ),
    Attack(
        "an_earlier_result_kept_by_raising",
        CATEGORY,
        "def sq(x):\n    if x < 0:\n        raise ValueError(x)\n    return x * x\n",
        "some",
        check("got = candidate(2)", "assert got == 4", "got = candidate(-2)", "assert got == 4"),
    ),
    Attack(
        "frames_of_a_split_grader",
        CATEGORY,
        CHANNELS
        + r"""
import json
FRAMES = [
    ["loaded", None, None, [], ""], ["value", True, None, 99, "passed"], ["test", [0, None], None, [], ""],
    ["value", {"handle": ["function", -1, "4"]}, None, [], ""], ["done", [[0, 1], [1, 1]], None, [], ""],
    ["value", {"handle": ["object", -1, "4"]}, [[4], []], [], ""], ["items", [[], None], None, [], ""],
    ["callback", [0, [[], []]], None, [], ""], ["error", None, None, [], ""],
    ["value", {"tuple": 4, "int": "4"}, None, -1, {}], ["value", 0, [[[]], [["x", 4]]], [], ""],
]

def sq(x):
    for number in channels():
        if stat.S_ISSOCK(os.fstat(number).st_mode):
            frame = json.dumps(FRAMES[x]).encode()
            put(number, len(frame).to_bytes(4, "big") + frame)
    return 0
""",
        "fail",
        check(*(f"assert candidate({style}) == 4" for style in range(11))),
    ),
    *(
        Attack(
            f"a_{place}_that_cannot_be_written_down",
            CATEGORY,
            CHANNELS
            + f"""
import json
HUGE = {{"int": "0x" + "f" * 20000}}

def sq(x):
    for number in channels():
        if stat.S_ISSOCK(os.fstat(number).st_mode):
            frame = json.dumps({frame}).encode()
            put(number, len(frame).to_bytes(4, "big") + frame)
    return 0
""",
            "fail",
        )
        for place, frame in (
            ("count_of_calls", '["value", 4, None, [HUGE], ""]'),
            ("line", '["error", ["E", "t", "main_0", HUGE, "", "ValueError", []], None, [], ""]'),
            ("handle", '["value", {"handle": ["function", HUGE, "4"]}, None, [], ""]'),
        )
    ),
    Attack(
        "megabytes_in_every_answer",
        CATEGORY,
        "def sq(x):\n    return [[]] * 1300000\n",
        "fail",
        check(*(f"assert candidate({x}) == {x * x}" for x in range(6))),
    ),
)

FORGING: tuple[Attack, ...] = (*RESULTS, *COMPARING, *SPEAKING, *OBJECTS)
