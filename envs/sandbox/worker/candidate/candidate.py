"""The process of one untrusted program: it answers calls with values, and never sees a test's expected values.

It is forked from the zygote, receives one request, and is killed after the grading. A program can change this
code,
but only in its own process: the evaluator reads everything that leaves the process as values.
"""

from __future__ import annotations

import builtins
import gc
import io
import os
import resource
import sys
from collections.abc import Callable, Sequence
from typing import Any

from llm_decpomdp.envs.sandbox.worker.candidate.handles import (
    OPERATIONS,
    HandleTable,
    Items,
    opaque,
)
from llm_decpomdp.envs.sandbox.worker.candidate.loading import OUTPUT, RANDOM, load
from llm_decpomdp.envs.sandbox.worker.confinement.kernel import lower_limit
from llm_decpomdp.envs.sandbox.worker.evaluator.reports import (
    AssertRecorder,
    StageRecorder,
    describe,
)
from llm_decpomdp.envs.sandbox.worker.protocol.channel import (
    MAX_MESSAGE,
    OUT_OF_MEMORY,
    Closed,
    Reader,
    pack,
    write,
)
from llm_decpomdp.envs.sandbox.worker.protocol.codec import (
    PLAIN,
    Decoder,
    Maker,
    Unsendable,
    encode,
    encode_call,
    pack_call,
    to_text,
    unpack_call,
)
from llm_decpomdp.envs.sandbox.worker.protocol.libraries import ERROR_MODULES

READY = pack(["ready", None, None, [], ""])
"""First message of a process, before it knows its program."""

NO_ARGUMENTS = pack_call([], {}, opaque)

# A page of memory that is written first has to be mapped, which costs more than a further call of `read`.
CHUNK = 2**12
"""Bytes read at once: fresh memory costs more than another call."""

MAX_ARGUMENTS = 2000
"""Longest text of an exception's arguments; longer ones are left out."""

MUTABLE = frozenset(
    (
        *("list", "dict", "set", "bytearray", "tuple", "deque"),
        *("Counter", "OrderedDict", "defaultdict", "array", "ndarray"),
    )
)
"""Types of arguments that a call may have changed."""


def prepare() -> None:
    """Replace the output, and hide the sandbox's modules and environment, once before programs are forked."""
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
    """Run the requested program, and answer until the evaluator has gone."""
    try:
        write(candidate.descriptor, READY)
        request = candidate.reader.receive()
        limit_resources(request)
        # Disabled in the zygote; a program with cycles would otherwise run out of memory.
        gc.enable()
        candidate.run(request)
    except Closed:
        pass
    # No memory is left for a message, so the exit status tells.
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def limit_resources(request: dict[str, Any]) -> None:
    """Lower the process's limits to those of the program."""
    file_bytes, cpu_seconds = request["file_bytes"], request["cpu_seconds"]
    lower_limit(resource.RLIMIT_FSIZE, file_bytes)
    lower_limit(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1)
    if sys.platform == "linux":  # macOS accepts the call and ignores it
        memory_bytes = request["memory_bytes"]
        lower_limit(resource.RLIMIT_AS, memory_bytes)


class Candidate:
    """Server for the calls of the tests, in the process of the program.

    It is created before its process is forked: each page of memory that a child is the first to write to has to be
    copied, and there are hundreds of children a second.
    """

    def __init__(self) -> None:
        self.descriptor = -1
        self.unsent = b""
        self.reader = Reader(-1, 2**32, CHUNK)
        self.handles = HandleTable()
        self.function: Any = None
        self.helper_calls: list[int] = []
        self.callbacks: dict[int, Callable[..., Any]] = {}
        makers: dict[str, Maker] = {
            "callback": (int, self._callback),
            "items": (int, lambda number: Items(number, self._callback(number))),
            "handle": (int, self._object),
        }
        self.decode = Decoder(makers).decode

    def connect(self, descriptor: int) -> None:
        """Talk to the evaluator over this socket."""
        self.descriptor = self.reader.descriptor = descriptor

    def run(self, request: dict[str, Any]) -> None:
        """Load the program, make the calls of the plan, then serve requests; load it anew if asked to."""
        OUTPUT.room = request["output_bytes"]
        RANDOM.seed = request["seed"]
        while True:
            try:
                self.helper_calls = [0] * len(request["helpers"])
                program, self.function = load(request, self.helper_calls)
                # The evaluator knows the entry point as number -1 before the program is loaded.
                self.handles.numbers[id(self.function)] = -1
            except BaseException as error:
                return self.send("loaded", self._failure(error))
            # In a changed run it leaves together with the first answer: each message wakes the evaluator up.
            self.send("loaded", None, wait=bool(request["change"] and request["calls"]))
            # Only for `split=False`.
            if request["tests"]:
                return self._run_tests(program)
            self._make_calls(request["calls"])
            request = request | self._serve_until_again()
            self.handles, self.callbacks = HandleTable(), {}
            self.function = None
            del program
            gc.collect()  # memory of this run must not count against the next one
            sys.modules.pop("random", None)  # seeded again when it is next imported

    def _serve_until_again(self) -> dict[str, Any]:
        """Serve requests until the program is to be loaded again; return the changes to its request."""
        while True:
            operation, data, handle = self.reader.receive()
            if operation == "again":
                return dict(data)
            self._serve(operation, data, handle)

    def _make_calls(self, calls: list[bytes]) -> None:
        """Call the entry point with each of these arguments."""
        for data in calls:
            self._call(self.function, data)

    def _serve(self, operation: str, data: Any, handle: int) -> None:
        """Serve one request of the evaluator."""
        if operation == "prefetch":
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
        """Return the object with a number; a negative one stands for the entry point."""
        return self.function if handle < 0 else self.handles.objects[handle]

    def send(self, kind: str, content: Any, changed: Any = None, wait: bool = False) -> None:
        """Send a message: its kind, its content, and the arguments of a call if it changed them.

        Args:
            kind: Kind of the message.
            content: Content of the message.
            changed: The arguments of a call if it changed them, encoded.
            wait: Send the message together with the next one.
        """
        data = pack([kind, content, changed, self.helper_calls, OUTPUT.take()])
        # The evaluator would end the process for it; an honest program deserves a message.
        if len(data) > MAX_MESSAGE:
            text = f"a value of {len(data)} characters, too large to compare"
            failure = ["ValueError", text, "", 0, "", "ValueError", [text]]
            data = pack(["error", failure, None, self.helper_calls, ""])
        self.unsent += data
        if not wait:
            data, self.unsent = self.unsent, b""
            write(self.descriptor, data)

    def _call(
        self,
        function: Callable[..., Any],
        data: bytes,
        first: Sequence[Any] = (),
        attribute: bool = False,
    ) -> None:
        """Call a function with the arguments `first` and those in `data`, and send its result or exception.

        A container that is an `attribute` is shared.
        """
        arguments = None
        try:
            args, kwargs = unpack_call(data, self.decode)
            result = function(*first, *args, **kwargs)
            kind = "value"
            every = [*args, *kwargs.values()]
            if not MUTABLE.isdisjoint([type(value).__name__ for value in every]):
                arguments = self._changed_arguments(data, args, kwargs)
            content = self._encode_result(result, attribute)
            if not first and type(result).__name__ in MUTABLE:
                for position, value in enumerate(every):
                    if value is result:
                        kind, content = "argument", [position, arguments and content]
                        break
        except BaseException as error:
            self._send_changes()
            return self.send("error", self._failure(error), arguments)
        self._send_changes()
        self.send(kind, content, arguments)

    def _send_changes(self) -> None:
        for change in self.handles.changes() if self.handles.shared else ():
            self.send("shared", change)

    def _changed_arguments(self, data: bytes, args: Any, kwargs: dict[str, Any]) -> Any:
        """Encode the arguments if the call changed them, else return None."""
        if pack_call(args, kwargs, self.handles.encode_argument, data[:1] == PLAIN) == data:
            return None
        return encode_call(args, kwargs, self.handles)

    def _encode_result(self, value: Any, attribute: bool) -> Any:
        """Encode a value; one that cannot be written as text becomes a handle."""
        try:
            return self.handles.share(value) if attribute else encode(value, self.handles)
        except (Unsendable, RecursionError):
            return opaque(value, None)

    def _callback(self, number: int) -> Callable[..., Any]:
        """Return a function that calls a function of the test."""
        if number in self.callbacks:
            return self.callbacks[number]

        def call(*args: Any, **kwargs: Any) -> Any:
            self.send("callback", [number, encode_call(args, kwargs, self.handles)])
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
        """Describe an exception, with the nearest builtin class and the arguments."""
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
        return [*describe(error), builtin[0], arguments, *self._further(error)]

    def _further(self, error: BaseException) -> list[Any]:
        """Describe what only some exceptions have: attributes of their own, and a class of a library."""
        library = next((c for c in type(error).__mro__ if c.__module__ in ERROR_MODULES), None)
        attributes = vars(error)
        if library is None and not attributes:
            return []
        try:
            fields = encode(dict(attributes), opaque)
            if len(to_text(fields)) > MAX_ARGUMENTS:
                fields = {"dict": []}
        except Exception:
            fields = {"dict": []}
        return [fields, *([library.__module__, library.__name__] if library is not None else [])]

    # Tests inside the program's process: their reports can be forged

    def _run_tests(self, program: dict[str, Any]) -> None:
        """Run the tests here; they arrive only now, so that code that ran while loading cannot have seen them."""
        source, skipped = self.reader.receive()

        def send(event: str, number: int, error: Any) -> None:
            self.send(event, [number, error])

        record, stage = AssertRecorder(send, describe), StageRecorder(send, describe, set(skipped))
        # The test sees the program's names, such as helpers of the prompt, and leaves them as they are.
        scope = dict(program, __name__="__test__", __record__=record, __stage__=stage)
        try:
            exec(compile(source, "<tests>", "exec", dont_inherit=True), scope)
            scope["__check__"](self.function, record, stage)
        except BaseException as error:
            send("ended", stage.number, describe(error))
        self.send("done", list(record.reached.items()))
