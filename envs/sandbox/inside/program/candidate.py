"""The process that runs one untrusted program: it answers calls with values, and never sees a test's answers.

It is forked from the zygote, takes one request, and is killed when the grading is over. Whatever the program
does to this code, it does to itself: all that leaves the process is text that the evaluator takes for values.
"""

from __future__ import annotations

import builtins
import functools
import gc
import io
import os
import resource
import sys

from llm_decpomdp.envs.sandbox.inside.confinement.kernel import lower_limit
from llm_decpomdp.envs.sandbox.inside.evaluator.reports import Record, Stage, describe
from llm_decpomdp.envs.sandbox.inside.program.captured_output import OUTPUT
from llm_decpomdp.envs.sandbox.inside.program.changes import changed
from llm_decpomdp.envs.sandbox.inside.program.handles import OPERATIONS, Handles, opaque
from llm_decpomdp.envs.sandbox.inside.program.random_seed import SeededRandom
from llm_decpomdp.envs.sandbox.inside.protocol.channel import (
    MAX_MESSAGE,
    OUT_OF_MEMORY,
    Closed,
    Reader,
    pack,
    write,
)
from llm_decpomdp.envs.sandbox.inside.protocol.codec import (
    PLAIN,
    Decoder,
    Unsendable,
    encode,
    encode_call,
    pack_call,
    to_text,
    unpack_call,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from llm_decpomdp.envs.sandbox.inside.protocol.codec import Maker

READY = pack(["ready", None, None, [], ""])
"""What a process says before it knows its program."""

NO_ARGUMENTS = pack_call([], {}, opaque)

RANDOM = SeededRandom()

CHUNK = 2**12
"""Bytes that are read at once: fresh memory costs more than another call."""

RING_AFTER = 100_000
"""Bytes of answers after which the evaluator is woken: more would not fit into the socket."""

MAX_ARGUMENTS = 2000
"""Longest text of an exception's arguments; longer ones are left out."""

OF_CACHES = ("cache_clear", "cache_info", "cache_parameters")
"""What functions with a memory offer besides being called."""

RECURSION_LIMIT = sys.getrecursionlimit()

MUTABLE = frozenset({"list", "dict", "set", "bytearray", "tuple", "deque"})
"""Types of arguments that a call may have changed."""


def prepare() -> None:
    """What is done once, before programs are forked: replace the output, hide our modules and environment."""
    os.environ.clear()
    sys.meta_path.insert(0, RANDOM)
    for name in [name for name in sys.modules if name.partition(".")[0] == "llm_decpomdp"]:
        del sys.modules[name]
    sys.argv[:] = sys.orig_argv[:] = [""]
    sys.stdout = sys.stderr = io.TextIOWrapper(
        OUTPUT, encoding="utf-8", errors="replace", write_through=True
    )
    # A program may replace both: without another name for it, our stream would be closed, and the output with it.
    vars(sys).update(__stdout__=sys.stdout, __stderr__=sys.stderr)


def serve(candidate: Candidate) -> None:
    """Run the program that is asked for, and answer until the other side has gone."""
    try:
        write(candidate.descriptor, READY)
        request = candidate.reader.receive()
        limit_resources(request)
        gc.enable()
        candidate.run(request)
    except Closed:
        pass
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def limit_resources(request: dict[str, Any]) -> None:
    """Lower the limits to what this program may use."""
    file_bytes, cpu_seconds = request["file_bytes"], request["cpu_seconds"]
    lower_limit(resource.RLIMIT_FSIZE, file_bytes)
    lower_limit(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1)
    if sys.platform == "linux":  # macOS accepts the call and ignores it
        memory_bytes = request["memory_bytes"]
        lower_limit(resource.RLIMIT_AS, memory_bytes)


class Candidate:
    """The untrusted side of a conversation.

    It is made before its process is forked: each page of memory that a child is the first to touch has to be
    copied, and there are hundreds of children a second.
    """

    def __init__(self) -> None:
        self.bell = self.descriptor = -1
        self.reader = Reader(-1, 2**32, CHUNK)
        self.handles = Handles()
        self.function: Any = None
        self.helper_calls: list[int] = []
        self.unread = 0
        self.callbacks: dict[int, Callable[..., Any]] = {}
        others: dict[str, Maker] = {
            "callback": (int, self._callback),
            "handle": (int, self._object),
        }
        self.decode = Decoder(others).decode

    def connect(self, descriptor: int, bell: int) -> None:
        """Talk to the evaluator over this socket, and wake it through this pipe."""
        self.descriptor = self.reader.descriptor = descriptor
        self.bell = bell

    def run(self, request: dict[str, Any]) -> None:
        """Load the program, make the calls that are known ahead, then those that are asked for; perhaps anew."""
        OUTPUT.room = request["output_bytes"]
        RANDOM.seed = request["seed"]
        while True:
            try:
                program = self._load(request)
                self.function = program[request["entry_point"]]
                self.handles.numbers[id(self.function)] = -1
            except BaseException as error:
                self.send("loaded", self._failure(error))
                return self._ring()
            self.send("loaded", None)
            if request["tests"]:
                self._ring()
                return self._run_tests(program)
            self._make_calls(request["calls"])
            request = request | self._serve_until_again()
            self.handles, self.callbacks = Handles(), {}
            self.function = None
            del program
            gc.collect()  # what the program held must not count against the next run of it
            sys.modules.pop("random", None)  # the next one to be imported is seeded again

    def _serve_until_again(self) -> dict[str, Any]:
        """Do what is asked for; what differs when the program shall begin again."""
        while True:
            operation, data, handle = self.reader.receive()
            if operation == "again":
                return dict(data)
            self._serve(operation, data, handle)

    def _make_calls(self, calls: list[bytes]) -> None:
        """Make the calls that are known ahead."""
        for data in calls:
            self._call(self.function, data)
        self._ring()

    def _serve(self, operation: str, data: Any, handle: int) -> None:
        """Do what the evaluator asks for."""
        if operation == "ahead":
            return self._make_calls(data)
        if operation == "assign":
            return self.handles.assign(handle, unpack_call(data, self.decode)[0][0])
        value = self._object(handle)
        if operation == "call":
            self._call(value, data)
        elif operation == "run":
            import asyncio

            self._call(asyncio.run, NO_ARGUMENTS, [value])
        else:
            self._call(OPERATIONS[operation], data, [value], attribute=operation == "get")

    def _object(self, handle: int) -> Any:
        """The object with a number; the entry point's is negative."""
        return self.function if handle < 0 else self.handles.objects[handle]

    def _load(self, request: dict[str, Any]) -> dict[str, Any]:
        module = type(sys)("__program__")
        # Dataclasses and pickle look their class's module up, and `timeit` takes names from the main one.
        sys.modules[module.__name__] = sys.modules["__main__"] = module
        program = module.__dict__
        helpers = request["helpers"]
        self.helper_calls = [0] * len(helpers)
        # Helpers that call themselves take two frames for each call.
        sys.setrecursionlimit(RECURSION_LIMIT * (2 if helpers else 1))
        for origin, code in request["segments"]:
            exec(compile(code, f"<{origin}>", "exec", dont_inherit=True), program)
            for index, (author, name) in enumerate(helpers):
                if author == origin and callable(program.get(name)):
                    # Code that does not name it was handed it, as in `aux_1(map(aux_0, xs))`.
                    naming = {o for o, text in request["segments"] if name in text}
                    helping = {f"<{o}>" for o, _ in helpers if o in naming}
                    kind = request["change"][1] if [index] == request["change"][:1] else None
                    program[name] = self._counted(index, program[name], helping, kind)
        return program

    def _counted(
        self, index: int, helper: Callable[..., Any], helping: set[str], kind: int | None
    ) -> Callable[..., Any]:
        """A helper, with its calls counted, and changed results of this kind if it is not None.

        What `helping` code calls, its own and that of other helpers, is neither counted nor changed. All code
        after its own sees this one.
        """

        def counted(*args: Any, **kwargs: Any) -> Any:
            if sys._getframe(1).f_code.co_filename in helping:
                return helper(*args, **kwargs)
            self.helper_calls[index] += 1
            if kind is None:
                return helper(*args, **kwargs)
            try:
                result = helper(*args, **kwargs)
            except Exception:
                result = None  # an exception counts as a result, and is changed into another one
            return changed(result, kind)

        for name in OF_CACHES:
            if hasattr(helper, name):
                setattr(counted, name, getattr(helper, name))
        return functools.update_wrapper(counted, helper)

    def send(self, kind: str, content: Any, changed: Any = None) -> None:
        """Send a message: its kind, its content, and the arguments of a call if they were changed."""
        data = pack([kind, content, changed, self.helper_calls, OUTPUT.take()])
        if len(data) > MAX_MESSAGE:
            text = f"a value of {len(data)} characters, too large to compare"
            failure = ["ValueError", text, "", 0, "", "ValueError", [text]]
            data = pack(["error", failure, None, self.helper_calls, ""])
        self.unread += len(data)
        if self.unread > RING_AFTER:
            self._ring()
        write(self.descriptor, data)

    def _ring(self) -> None:
        self.unread = 0
        try:
            os.write(self.bell, b"!")
        except BlockingIOError:
            pass  # it rings already

    def _call(
        self,
        function: Callable[..., Any],
        data: bytes,
        own: Sequence[Any] = (),
        attribute: bool = False,
    ) -> None:
        """Call a function with `own` and the arguments in `data`, and send what it returned or raised.

        A container that is an `attribute` is shared.
        """
        changed = None
        try:
            args, kwargs = unpack_call(data, self.decode)
            result = function(*own, *args, **kwargs)
            if not MUTABLE.isdisjoint([type(v).__name__ for v in (*args, *kwargs.values())]):
                changed = self._changed(data, args, kwargs)
            content = self._encoded(result, attribute)
        except BaseException as error:
            self._tell_changes()
            return self.send("error", self._failure(error), changed)
        self._tell_changes()
        self.send("value", content, changed)

    def _tell_changes(self) -> None:
        for change in self.handles.changes() if self.handles.shared else ():
            self.send("shared", change)

    def _changed(self, data: bytes, args: Any, kwargs: dict[str, Any]) -> Any:
        """The arguments as the call has left them; None if they are as they were."""
        if pack_call(args, kwargs, self.handles.sent, data[:1] == PLAIN) == data:
            return None
        return encode_call(args, kwargs, self.handles)

    def _encoded(self, value: Any, attribute: bool) -> Any:
        """A value as the other side can have it: what cannot be written becomes a handle."""
        try:
            return self.handles.share(value) if attribute else encode(value, self.handles)
        except (Unsendable, RecursionError):
            return opaque(value, None)

    def _callback(self, number: int) -> Callable[..., Any]:
        """A function of the test, called from here."""

        if number in self.callbacks:
            return self.callbacks[number]

        def call(*args: Any, **kwargs: Any) -> Any:
            self.send("callback", [number, encode_call(args, kwargs, self.handles)])
            self._ring()
            while len(message := self.reader.receive()) > 2:
                self._serve(*message)  # the function of the test calls the program
            raised, text = message
            if raised:
                raise vars(builtins).get(raised, RuntimeError)(text)
            return self.decode(text)

        self.callbacks[number] = call
        self.handles.callbacks[id(call)] = number
        return call

    def _failure(self, error: BaseException) -> list[Any]:
        """A description of an exception, the builtin class nearest to its own, and its arguments."""
        builtin = [c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"]
        try:
            parts = list(error.args)
            if isinstance(error, OSError) and error.filename is not None and len(parts) == 2:
                parts.append(error.filename)
            arguments = [encode(part, opaque) for part in parts]
            if len(to_text(arguments)) > MAX_ARGUMENTS:
                arguments = []
        except Exception:
            arguments = []
        return [*describe(error), builtin[0], arguments]

    # Tests inside the program's process: what they report can be forged

    def _run_tests(self, program: dict[str, Any]) -> None:
        """Run the tests here; they arrive only now, so that nothing could look at them while loading."""
        source, skipped = self.reader.receive()

        def send(event: str, number: int, error: Any) -> None:
            self.send(event, [number, error])

        record, stage = Record(send, describe), Stage(send, describe, set(skipped))
        # The test sees the program's names, such as helpers of the prompt, and leaves them as they are.
        scope = dict(program, __name__="__test__", __record__=record, __stage__=stage)
        try:
            exec(compile(source, "<tests>", "exec", dont_inherit=True), scope)
            scope["__check__"](self.function, record, stage)
        except BaseException as error:
            send("ended", stage.number, describe(error))
        self.send("done", list(record.reached.items()))
        self._ring()
