"""Load a program: capture its output, seed `random`, count its helpers' calls, and mutate their results.

How results are mutated: `result_mutation.py`.
"""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType, ModuleType
from typing import Any

from llm_decpomdp.envs.sandbox.worker.candidate.division import (
    EntryPointReplacement,
    replace_results,
)
from llm_decpomdp.envs.sandbox.worker.candidate.result_mutation import mutate_value
from llm_decpomdp.envs.sandbox.worker.candidate.trivial import constants
from llm_decpomdp.envs.sandbox.worker.protocol import channel

# Methods of functions decorated with `functools.lru_cache`. Programs call these on their helpers;
# `functools.update_wrapper` does not copy them.
CACHE_METHODS = ("cache_clear", "cache_info", "cache_parameters")
RECURSION_LIMIT = sys.getrecursionlimit()

ENTRY_POINT = """
def make(helper):
    def {name}(*args, **kwargs):
        return helper(*args, **kwargs)
    return {name}
"""
"""Function that replaces the entry point by a helper. It has the entry point's name and file in a traceback."""


class Output(io.RawIOBase):
    """Stream that keeps the beginning of a program's output."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.room = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Keep as much of `data` as there is room for."""
        size = len(data)
        if self.room > 0:
            self.data += bytes(data[: self.room])
            self.room -= size
        return size

    def take(self) -> str:
        """Return the output since the last call."""
        text = self.data.decode("utf-8", "replace") if self.data else ""
        self.data.clear()
        return text


class SeededRandom:
    """Finder of the `random` module, which it seeds as soon as it is loaded.

    Preloading it would cost every program three shared libraries, and few programs need it.
    """

    def __init__(self) -> None:
        self.seed = 0

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the spec of `random`; None for all other modules."""
        if name != "random":
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_seed(module: ModuleType) -> None:
                load(module)
                module.seed(self.seed)

            spec.loader.exec_module = load_and_seed  # type: ignore[method-assign]
        return spec


OUTPUT = Output()
RANDOM = SeededRandom()


def load(request: dict[str, Any], helper_calls: list[int]) -> tuple[dict[str, Any], Any]:
    """Run the parts of a program, and return its namespace and its entry point.

    Args:
        request: `segments` (author and code of each part), `entry_point`, `helpers` (author and name), and
            `mutation`: empty, or a helper and the kind of the mutant run, see `channel`.
        helper_calls: Calls of each helper so far, which the program's own calls add to.
    """
    mutated_helper, kind = request["mutation"] or (-1, -1)
    entry_point: Any = None
    replacement: EntryPointReplacement | None = None
    if kind in channel.ENTRY_POINT_RESULTS:
        origin, code = request["segments"][-1]
        replacement = EntryPointReplacement(kind, constants(_compile(code, f"<{origin}>")))
    module = type(sys)("__program__")
    # Dataclasses and pickle look their class's module up, and `timeit` takes names from the main one.
    sys.modules[module.__name__] = sys.modules["__main__"] = module
    program = module.__dict__
    helpers = request["helpers"]
    # Helpers that call themselves take two frames for each call, and more where their results are replaced.
    frames = 4 if kind in channel.DIVISION else 2
    sys.setrecursionlimit(RECURSION_LIMIT * (frames if helpers else 1))
    for origin, code in request["segments"]:
        exec(_compile(code, f"<{origin}>"), program)
        for index, (author, name) in enumerate(helpers):
            if author != origin or not callable(program.get(name)):
                continue
            # Code that does not name it was passed it, as in `aux_1(map(aux_0, xs))`.
            naming = {o for o, text in request["segments"] if name in text}
            exempt = {f"<{o}>" for o, _ in helpers if o in naming}
            helper = call = program[name]
            if replacement is not None:
                call = replacement.record(helper)
            elif index == mutated_helper and kind in channel.HELPER_RESULTS:
                call = replace_results(helper, kind, constants(_compile(code, f"<{origin}>")))
            elif index == mutated_helper and kind != channel.AS_ENTRY_POINT:
                call = _mutate_results(helper, kind)
            single = 0 if index == mutated_helper and kind == channel.FIRST_ARGUMENT else 1
            program[name] = _count_calls(helper_calls, index, helper, exempt, call, single)
            if kind in channel.DIVISION:
                program[name].__wrapped__ = call  # an entry point may compare it with the helper
            if index == mutated_helper and kind == channel.AS_ENTRY_POINT:
                entry_point = program[name]
    if entry_point is not None:
        scope: dict[str, Any] = {}
        source = ENTRY_POINT.format(name=request["entry_point"])
        exec(compile(source, f"<{request['segments'][-1][0]}>", "exec"), program, scope)
        return program, scope["make"](entry_point)
    function = program[request["entry_point"]]
    return program, function if replacement is None else replacement.replace(function)


# A mutant run loads the same code again in the same process.
@functools.lru_cache
def _compile(code: str, name: str) -> CodeType:
    return compile(code, name, "exec", dont_inherit=True)


def _count_calls(
    helper_calls: list[int],
    index: int,
    helper: Callable[..., Any],
    exempt: set[str],
    call: Callable[..., Any],
    single: int,
) -> Callable[..., Any]:
    """Wrap a helper: its calls are counted and made to `call`. A call with one argument counts as `single` calls.

    Calls from `exempt` code, its own and that of other helpers, are neither counted nor changed. All code after
    its own sees the wrapper.
    """

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if sys._getframe(1).f_code.co_filename in exempt:
            return helper(*args, **kwargs)
        helper_calls[index] += 1 if len(args) + len(kwargs) > 1 else single
        return call(*args, **kwargs)

    for name in CACHE_METHODS:
        if hasattr(helper, name):
            setattr(wrapper, name, getattr(helper, name))
    return functools.update_wrapper(wrapper, helper)


def _mutate_results(helper: Callable[..., Any], kind: int) -> Callable[..., Any]:
    """Return a helper with mutated results, or the trivial function that replaces it; see `channel`."""

    def mutated(*args: Any, **kwargs: Any) -> Any:
        try:
            result = helper(*args, **kwargs)
        except Exception:
            result = None  # an exception counts as a result, and is changed into another one
        return mutate_value(result, kind)

    first: list[Any] = []

    def constant(*args: Any, **kwargs: Any) -> Any:
        # Computed anew in each call, from the arguments of the first one: the program may change what it gets.
        if not first:
            first.extend((args, kwargs))
        try:
            result = helper(*first[0], **first[1])
        except Exception:
            if kind == channel.FIRST_RESULT:
                raise
            result = None
        if kind == channel.FIRST_RESULT or (kind == channel.PLAIN_RESULT and _is_plain(result)):
            return result
        return mutate_value(result, 1)

    def argument(*args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values())
        if kind != channel.FIRST_ARGUMENT:
            return values
        return values[0] if values else None

    if kind in channel.MUTATIONS:
        return mutated
    return (
        constant
        if kind in (channel.FIRST_RESULT, channel.OTHER_RESULT, channel.PLAIN_RESULT)
        else argument
    )


def _is_plain(value: Any) -> bool:
    """Check whether a value is a constant that needs no thought: None, 0, 1, False, True, or empty."""
    try:
        return value is None or not value or bool(value == 1)
    except Exception:
        return False
