"""Load a program, with the calls of its helpers counted and their results changed on request."""

from __future__ import annotations

import functools
import sys

from llm_decpomdp.envs.sandbox.inside.program.changes import changed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from llm_decpomdp.envs.sandbox.inside.program.candidate import Candidate

CACHE_METHODS = ("cache_clear", "cache_info", "cache_parameters")
"""Methods of functions decorated with `functools.lru_cache`."""

RECURSION_LIMIT = sys.getrecursionlimit()


def load(request: dict[str, Any], counter: Candidate) -> dict[str, Any]:
    """Run the parts of a program, and return its namespace.

    Args:
        request: `segments` (author and code of each part), `helpers` (author and name), and `change`: empty, or
            the helper whose results are changed and the kind of change.
        counter: Object whose `helper_calls` counts the calls of each helper.
    """
    module = type(sys)("__program__")
    # Dataclasses and pickle look their class's module up, and `timeit` takes names from the main one.
    sys.modules[module.__name__] = sys.modules["__main__"] = module
    program = module.__dict__
    helpers = request["helpers"]
    # Helpers that call themselves take two frames for each call.
    sys.setrecursionlimit(RECURSION_LIMIT * (2 if helpers else 1))
    for origin, code in request["segments"]:
        exec(compile(code, f"<{origin}>", "exec", dont_inherit=True), program)
        for index, (author, name) in enumerate(helpers):
            if author == origin and callable(program.get(name)):
                # Code that does not name it was passed it, as in `aux_1(map(aux_0, xs))`.
                naming = {o for o, text in request["segments"] if name in text}
                exempt = {f"<{o}>" for o, _ in helpers if o in naming}
                kind = request["change"][1] if [index] == request["change"][:1] else None
                program[name] = _counted(counter, index, program[name], exempt, kind)
    return program


def _counted(
    counter: Candidate, index: int, helper: Callable[..., Any], exempt: set[str], kind: int | None
) -> Callable[..., Any]:
    """Wrap a helper: its calls are counted, and its results changed if `kind` is not None.

    Calls from `exempt` code, its own and that of other helpers, are neither counted nor changed. All code after
    its own sees the wrapper.
    """

    def counted(*args: Any, **kwargs: Any) -> Any:
        if sys._getframe(1).f_code.co_filename in exempt:
            return helper(*args, **kwargs)
        counter.helper_calls[index] += 1
        if kind is None:
            return helper(*args, **kwargs)
        try:
            result = helper(*args, **kwargs)
        except Exception:
            result = None  # an exception counts as a result, and is changed into another one
        return changed(result, kind)

    for name in CACHE_METHODS:
        if hasattr(helper, name):
            setattr(counted, name, getattr(helper, name))
    return functools.update_wrapper(counted, helper)
