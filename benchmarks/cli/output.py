"""The options `--json` and `--quiet`: a result for scripts on stdout, and no progress."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import asdict, is_dataclass
from io import StringIO
from typing import Annotated, Any

from typer import Option

_results: list[Any] = []
"""The result of the command that runs, once it is known."""


def give_result(value: Any) -> None:
    """Give the result of a command, which `--json` prints; the last one counts."""
    _results[:] = [value]


@contextmanager
def json_on_stdout(quiet: bool) -> Iterator[None]:
    """Print the result that is given in this context on stdout, and all else on stderr, or not if `quiet`."""
    _results.clear()
    try:
        with redirect_stdout(StringIO() if quiet else sys.stderr):
            yield
    finally:
        # Also before an exit with another code, such as that of a failed check.
        if _results:
            print(json.dumps(to_json(_results.pop()), indent=2))


def to_json(value: Any) -> Any:
    """Return a value of numbers, texts, paths, dataclasses and containers for JSON, infinities as null."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(of) for key, of in value.items()}
    if isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, str):
        return [to_json(of) for of in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (str, int, float, type(None))):
        return value
    # A number of numpy, or what has no form in JSON, such as a path.
    return to_json(value.item()) if hasattr(value, "item") else str(value)


class _NoTerminal:
    """A stream that is no terminal, so that nothing draws progress on it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def isatty(self) -> bool:
        """Return False."""
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def with_output_options(function: Callable[..., None], *, has_result: bool) -> Callable[..., None]:
    """Return the function of a command with the parameters `quiet` and, if it has a result, `json`."""

    @functools.wraps(function)
    def run(*arguments: Any, quiet: bool, as_json: bool = False, **options: Any) -> None:
        if quiet:
            logging.getLogger("llm_decpomdp").setLevel(logging.WARNING)
            if sys.stderr.isatty():
                sys.stderr = _NoTerminal(sys.stderr)
            os.environ["TQDM_DISABLE"] = "1"  # of libraries, which draw without a terminal too
        with json_on_stdout(quiet) if as_json else nullcontext():
            function(*arguments, **options)

    flags = {"as_json": JSON, "quiet": QUIET} if has_result else {"quiet": QUIET}
    signature = inspect.signature(function, eval_str=True)
    parameters = [
        *signature.parameters.values(),
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=of)
            for name, of in flags.items()
        ),
    ]
    # Typer reads the parameters of a command from both.
    run.__dict__["__signature__"] = signature.replace(parameters=parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


JSON = Annotated[
    bool, Option("--json", help="The result as JSON on stdout; text for people goes to stderr.")
]
QUIET = Annotated[
    bool, Option("--quiet", help="No progress, and no log lines but warnings and errors.")
]
