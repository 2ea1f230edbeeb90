"""The process of one untrusted program: it answers calls with values, and never sees a test's expected values.

It is forked from the zygote, receives one request, and is killed after the grading. A program can change this
code, but only in its own process: the evaluator reads everything that leaves the process as values.
"""

from __future__ import annotations

import builtins
import gc
import io
import operator
import os
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llm_decpomdp.envs.sandbox.worker.candidate.loading import OUTPUT, RANDOM, load
from llm_decpomdp.envs.sandbox.worker.confinement.kernel import lower_limit
from llm_decpomdp.envs.sandbox.worker.evaluator import reports
from llm_decpomdp.envs.sandbox.worker.protocol import channel, codec
from llm_decpomdp.envs.sandbox.worker.protocol.libraries import ERROR_MODULES

# First message of a process, before it knows its program.
READY = channel.pack(["ready", None, None, [], ""])
# A page of memory that is written first has to be mapped, which costs more than a further call of `read`.
CHUNK = 2**12  # bytes read at once
MAX_ARGUMENTS = 2000  # longest text of an exception's arguments; longer ones are left out
# Maximum number of containers whose changes are reported; further ones are sent as plain values. Each shared
# container is encoded again after each call.
MAX_SHARED = 100
MAX_NAME = 60  # longest name of a class that is sent

MUTABLE = frozenset(
    "list dict set bytearray tuple deque Counter OrderedDict defaultdict array ndarray".split()
)
"""Types of arguments that a call may have changed."""


def prepare() -> None:
    """Replace the output, and hide the sandbox's modules and environment, once before programs are forked."""
    os.environ.clear()  # tokens and keys of the user
    sys.meta_path.insert(0, RANDOM)
    for name in [name for name in sys.modules if name.partition(".")[0] == "llm_decpomdp"]:
        del sys.modules[name]  # else a program could import the code that answers for it
    # `argparse` and `unittest.main` in programs would read our arguments.
    sys.argv[:] = sys.orig_argv[:] = [""]
    sys.stdout = sys.stderr = io.TextIOWrapper(
        OUTPUT, encoding="utf-8", errors="replace", write_through=True
    )
    # A program may replace both: without another name for it, our stream would be closed, and the output with it.
    vars(sys).update(__stdout__=sys.stdout, __stderr__=sys.stderr)


def serve(candidate: Candidate) -> None:
    """Run the requested program, and answer until the evaluator has gone."""
    try:
        channel.write(candidate.descriptor, READY)
        request = candidate.reader.receive()
        lower_limit(resource.RLIMIT_FSIZE, request["file_bytes"])
        lower_limit(resource.RLIMIT_CPU, request["cpu_seconds"], request["cpu_seconds"] + 1)
        if sys.platform == "linux":  # macOS accepts the call and ignores it
            lower_limit(resource.RLIMIT_AS, request["memory_bytes"])
        # Disabled in the zygote; a program with cycles would otherwise run out of memory.
        gc.enable()
        candidate.run(request)
    except channel.Closed:
        pass
    # No memory is left for a message, so the exit status tells.
    except MemoryError:
        os._exit(channel.OUT_OF_MEMORY)


class Candidate:
    """Server for the calls of the tests, in the process of the program.

    It is created before its process is forked: each page of memory that a child is the first to write to has to be
    copied, and there are hundreds of children a second.
    """

    def __init__(self) -> None:
        self.descriptor = -1
        self.unsent = b""
        self.reader = channel.Reader(-1, 2**32, CHUNK)
        self.handles = HandleTable()
        self.function: Any = None
        self.helper_calls: list[int] = []
        self.callbacks: dict[int, Callable[..., Any]] = {}
        makers: dict[str, codec.Maker] = {
            "callback": (int, self._callback),
            "items": (int, lambda number: Items(number, self._callback(number))),
            "handle": (int, self._object),
        }
        self.decode = codec.Decoder(makers).decode

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
            # In a mutant run it leaves together with the first answer: each message wakes the evaluator up.
            self.send("loaded", None, wait=bool(request["mutation"] and request["calls"]))
            # Only for `split=False`.
            if request["tests"]:
                return self._run_tests(program)
            self._serve("prefetch", request["calls"], -1)
            while (message := self.reader.receive())[0] != "again":
                self._serve(*message)
            request = request | message[1]
            self.handles, self.callbacks = HandleTable(), {}
            self.function = None
            del program
            gc.collect()  # memory of this run must not count against the next one
            sys.modules.pop("random", None)  # seeded again when it is next imported

    def _serve(self, operation: str, data: Any, handle: int) -> None:
        """Serve one request of the evaluator."""
        if operation == "prefetch":
            for arguments in data:
                self._call(self.function, arguments)
            return
        if operation == "assign":
            return self.handles.assign(handle, codec.unpack_call(data, self.decode)[0][0])
        value = self._object(handle)
        if operation == "call":
            self._call(value, data)
        elif operation == "run":
            import asyncio

            self._call(asyncio.run, data, [value])
        else:
            self._call(OPERATIONS[operation], data, [value], attribute=operation == "get")

    def _object(self, handle: int) -> Any:
        """Return the object with a number; a negative one stands for the entry point."""
        return self.function if handle < 0 else self.handles.objects[handle]

    def send(self, kind: str, content: Any, changed: Any = None, wait: bool = False) -> None:
        """Send a message: its kind, its content, and the encoded arguments of a call if it changed them.

        With `wait` the message leaves together with the next one.
        """
        data = channel.pack([kind, content, changed, self.helper_calls, OUTPUT.take()])
        # The evaluator would end the process for it; an honest program deserves a message.
        if len(data) > channel.MAX_MESSAGE:
            text = f"a value of {len(data)} characters, too large to compare"
            failure = ["ValueError", text, "", 0, "", "ValueError", [text]]
            data = channel.pack(["error", failure, None, self.helper_calls, ""])
        self.unsent += data
        if not wait:
            data, self.unsent = self.unsent, b""
            channel.write(self.descriptor, data)

    def _call(
        self,
        function: Callable[..., Any],
        data: bytes,
        first: Sequence[Any] = (),
        attribute: bool = False,
    ) -> None:
        """Call a function with the arguments `first` and those in `data`, and send its result or exception.

        The result is shared if it is a container and an `attribute` of an object.
        """
        arguments = None
        try:
            args, kwargs = codec.unpack_call(data, self.decode)
            result = function(*first, *args, **kwargs)
            kind = "value"
            every = [*args, *kwargs.values()]
            if not MUTABLE.isdisjoint([type(value).__name__ for value in every]):
                now = codec.pack_call(
                    args, kwargs, self.handles.encode_argument, data[:1] == codec.PLAIN
                )
                arguments = None if now == data else codec.encode_call(args, kwargs, self.handles)
            try:
                content = (
                    self.handles.share(result) if attribute else codec.encode(result, self.handles)
                )
            except (codec.Unsendable, RecursionError):
                content = opaque(result, None)  # a value that cannot be written as text
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
        for change in self.handles.changed_containers() if self.handles.shared else ():
            self.send("shared", change)

    def _callback(self, number: int) -> Callable[..., Any]:
        """Return a function that calls a function of the test."""
        if number in self.callbacks:
            return self.callbacks[number]

        def call(*args: Any, **kwargs: Any) -> Any:
            self.send("callback", [number, codec.encode_call(args, kwargs, self.handles)])
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
        except Exception:
            parts = []
        failure = [*reports.describe(error), builtin[0], _encode_short(parts) or []]
        # Only some have attributes of their own, or a class of a library.
        library = next((c for c in type(error).__mro__ if c.__module__ in ERROR_MODULES), None)
        if library is not None or vars(error):
            failure.append(_encode_short(vars(error)) or {"dict": []})
        return [*failure, *((library.__module__, library.__name__) if library is not None else ())]

    # Tests inside the program's process: their reports can be forged

    def _run_tests(self, program: dict[str, Any]) -> None:
        """Run the tests here; they arrive only now, so that code that ran while loading cannot have seen them."""
        source, skipped = self.reader.receive()

        def send(event: str, number: int, error: Any) -> None:
            self.send(event, [number, error])

        record, stage = (
            reports.AssertRecorder(send, reports.describe),
            reports.StageRecorder(send, reports.describe, set(skipped)),
        )
        # The test sees the program's names, such as helpers of the prompt, and leaves them as they are.
        scope = dict(program, __name__="__test__", __record__=record, __stage__=stage)
        try:
            exec(compile(source, "<tests>", "exec", dont_inherit=True), scope)
            scope["__check__"](self.function, record, stage)
        except BaseException as error:
            send("ended", stage.number, reports.describe(error))
        self.send("done", list(record.reached.items()))


def _encode_short(value: Any) -> Any:
    """Encode the arguments or attributes of an exception; None if they are too long, or cannot be encoded."""
    try:
        content = codec.encode(value, opaque)
        return content if len(codec.to_text(content)) <= MAX_ARGUMENTS else None
    except Exception:
        return None


# Handles: numbers for the objects of a program that the tests refer to


def _exit(value: Any) -> None:
    type(value).__exit__(value, None, None, None)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "get": getattr,
    "set": setattr,
    "del": delattr,
    "next": next,
    "iter": iter,
    "len": len,
    "str": str,
    "repr": repr,
    **{
        name: getattr(operator, name)
        for name in ("getitem", "setitem", "delitem", *channel.ARITHMETIC)
    },
    # By its type, as the `with` statement does.
    "enter": lambda value: type(value).__enter__(value),
    "exit": _exit,
}
"""Operations on an object, besides to call it or run it."""


class Items:
    """Iterator of the test, with its number there; each item is requested when the program wants it."""

    def __init__(self, number: int, following: Callable[[], Any]) -> None:
        self.number = number
        self._following = following

    def __iter__(self) -> Items:
        return self

    def __next__(self) -> Any:
        return self._following()


class HandleTable:
    """The objects that have a number. Called, it encodes them, as the argument `other` of `encode`.

    Containers that are attributes of an object are *shared*: changes by the tests are made here before the next
    call, and changes here are sent to the tests with the next answer.
    """

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.callbacks: dict[int, int] = {}
        """Numbers of the tests' functions, by the identity of their stand-ins here."""
        self.shared: dict[int, str] = {}
        """Content of the shared containers, as last sent to the tests."""

    def __call__(self, value: Any, content: Any) -> Any:
        """Encode an object that is no value as a handle."""
        if id(value) in self.callbacks:
            return {"callback": self.callbacks[id(value)]}
        if content is not None:
            return {"value": [self.number(value), content]}
        cls = type(value)
        kind = "function" if callable(value) else "object"
        if hasattr(cls, "__next__") and hasattr(cls, "__iter__"):
            kind = "iterator"
        elif hasattr(cls, "cr_await"):
            kind = "coroutine"
        return {"handle": [kind, self.number(value), cls.__name__[:MAX_NAME]]}

    def number(self, value: Any) -> int:
        """Return the number of an object, which it keeps from now on."""
        number = self.numbers.setdefault(id(value), len(self.objects))
        # `objects` keeps the object alive, so that its id stays its own.
        if number == len(self.objects):
            self.objects.append(value)
        return number

    def encode_argument(self, value: Any, content: Any) -> Any:
        """Encode an argument that is an object as the tests sent it, for `encode`."""
        if id(value) in self.callbacks:
            return {"callback": self.callbacks[id(value)]}
        if type(value) is Items:
            return {"items": value.number}
        if id(value) in self.numbers:
            return {"handle": self.numbers[id(value)]}
        return opaque(value, content)

    def share(self, value: Any) -> Any:
        """Encode the value of an attribute, sharing it if it is a container."""
        if not isinstance(value, channel.CONTAINERS) or isinstance(value, tuple):
            return codec.encode(value, self)
        content = self._content(value)
        number = self.number(value)
        if number not in self.shared and len(self.shared) >= MAX_SHARED:
            return content
        self.shared[number] = codec.to_text(content)
        return {"shared": [number, content]}

    def _content(self, container: Any) -> Any:
        """Encode a container as one of its base type."""
        content = codec.encode(container, self)
        return content["value"][1] if type(content) is dict and "value" in content else content

    def changed_containers(self) -> Iterator[Any]:
        """Yield the shared containers that differ from what was last sent."""
        for number, text in self.shared.items():
            try:
                content = self._content(self.objects[number])
            except (codec.Unsendable, RecursionError):
                continue
            if codec.to_text(content) != text:
                self.shared[number] = codec.to_text(content)
                yield {"shared": [number, content]}

    def assign(self, number: int, value: Any) -> None:
        """Set the content of a shared container, as changed by the tests."""
        channel.assign(self.objects[number], value)
        self.shared[number] = codec.to_text(codec.encode(value, self))


def opaque(value: Any, content: Any) -> Any:
    """Encode an object without operations, or its base value, for `encode`."""
    if content is not None:
        return content
    return {"handle": ["object", -1, type(value).__name__[:MAX_NAME]]}
