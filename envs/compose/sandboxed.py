"""Parts of the programs in `exchange.py`: this code runs in the sandbox, under names that no agent writes.

Each function imports what it uses: an agent's code beside it may give other things the names of builtins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def _exchange_results(function: Callable[..., Any], values: Sequence[Any], mark: str) -> None:
    """Print a line with a mark, then, as JSON, the text of a function's result for each value.

    The text is empty where the function raises, or where it is too long to be that of a value of a chain. What the
    function prints is dropped.
    """
    from builtins import Exception, SystemExit, len, print, repr
    from contextlib import redirect_stdout
    from copy import deepcopy
    from io import StringIO
    from json import dumps

    def text(value: Any) -> str:
        try:
            result = repr(function(deepcopy(value)))
        except (Exception, SystemExit):
            return ""
        return result if len(result) <= 2000 else ""

    with redirect_stdout(StringIO()):
        texts = [text(value) for value in values]
    print(f"\n{mark}{dumps(texts)}", flush=True)


def _exchange_stand_in(results: Sequence[Any], salt: str) -> Callable[..., Any]:
    """Return a function that answers every call by one of some results; the call's arguments and a salt say which.

    Args:
        results: The results.
        salt: Any text; with another one other calls have other results.
    """
    from builtins import bool, dict, float, hasattr, int, isinstance, len, repr, str  # noqa: UP029
    from copy import deepcopy
    from hashlib import sha256

    def plain(value: Any) -> Any:
        if hasattr(value, "__iter__") and not isinstance(value, (str, dict)):
            return [plain(part) for part in value]
        if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
            return int(value)
        return value

    def answer(*values: Any, **named: Any) -> Any:
        texts = [repr(plain(value)) for value in (*values, *named.values())]
        digest = sha256(repr([salt, texts]).encode()).digest()
        return deepcopy(results[int.from_bytes(digest, "big") % len(results)])

    return answer
