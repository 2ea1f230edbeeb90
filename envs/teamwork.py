"""How the entry function uses its team-mate's helper: whether it calls it, ignores it, or only wraps it.

All questions are answered on the AST of the main agent's code. Code that can never run (after a `return`,
under `if False`, in functions that nothing calls) does not count, and a helper that the main agent's code
defines itself is not the team-mate's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from llm_decpomdp.envs.calls import Calls
from llm_decpomdp.envs.code import FunctionNode, find_function, parsed
from llm_decpomdp.envs.dataflow import Flow
from llm_decpomdp.envs.listing import Listing
from llm_decpomdp.envs.pruning import prune
from llm_decpomdp.envs.scopes import DEFINITIONS, Scopes
from llm_decpomdp.envs.syntax import parse
from llm_decpomdp.envs.wrapping import is_wrapper


@dataclass(frozen=True)
class HelperUse:
    """How a function uses a helper."""

    called: bool
    """The helper is called, or handed to something that calls it or may do so: what ran has the last word."""
    ignored: bool
    """It is called, but no call's result is ever used."""
    wrapper: bool
    """The function does nothing but return results of helpers, this one or others."""
    reasons: tuple[str, ...] = ()
    """For each call whose result is lost: "Line N: why"."""
    loading: bool = False
    """A result that is used comes from a call outside all functions, made once when the code is loaded."""


NOTHING = HelperUse(False, False, False)


@lru_cache(maxsize=1024)
def helper_uses(code: str, function: str, helpers: tuple[str, ...]) -> tuple[HelperUse, ...]:
    """How `function`, defined in `code`, uses each of the helpers, which are defined elsewhere.

    Functions of `code` that `function` mentions count as parts of it; helpers that only other helpers call are
    not used by it. Code nested too deeply to be looked through uses nothing.
    """
    try:
        return _helper_uses(code, function, helpers)
    except RecursionError:
        return (NOTHING,) * len(helpers)


def _helper_uses(code: str, function: str, helpers: tuple[str, ...]) -> tuple[HelperUse, ...]:
    nothing = (NOTHING,) * len(helpers)
    if not helpers or parsed(code) is None or find_function(code, function) is None:
        return nothing
    module = parse(code)  # a tree of our own, to be pruned
    scopes = Scopes.of(module)  # before pruning: even a dead assignment makes a name local
    theirs = tuple(helper for helper in helpers if (module, helper) not in scopes.bindings)
    prune(scopes)
    entry = _entry(module, function, theirs)
    if entry is None:
        return nothing
    if isinstance(entry, ast.Name):
        return tuple(HelperUse(True, False, True) if h == entry.id else NOTHING for h in helpers)
    flow = Flow(Listing.of(scopes), entry, theirs)
    flow.code.restrict(_live(flow))
    wrapper = is_wrapper(Calls(flow, theirs), entry, {})
    return tuple(_use(flow, h, wrapper) if h in theirs else NOTHING for h in helpers)


def _use(flow: Flow, helper: str, wrapper: bool) -> HelperUse:
    calls = Calls(flow, (helper,))
    uses = calls.uses()
    if not uses:
        return NOTHING
    reasons = tuple(f"Line {value.lineno}: {why}" for value, why in uses if why)
    sure = [value for value, why in uses if not why and value not in calls.kept]
    loading = any(map(flow.code.is_loading, sure))
    return HelperUse(True, len(reasons) == len(uses), wrapper, reasons, loading)


def binds(code: str, name: str) -> bool:
    """Whether code gives a name a meaning at its top level."""
    module = parsed(code)
    return module is not None and (module, name) in Scopes.of(module).bindings


def _entry(
    module: ast.Module, name: str, helpers: tuple[str, ...]
) -> FunctionNode | ast.Name | None:
    """The last function of that name, or the helper itself where the name is only another one for it."""
    functions: dict[str, FunctionNode | ast.Name] = {}
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            functions[statement.name] = statement
        elif isinstance(statement, ast.Assign):
            value: ast.expr | FunctionNode = statement.value
            if isinstance(value, ast.Name):
                value = functions.get(value.id, value)
            known = isinstance(value, (*DEFINITIONS, ast.Lambda))
            if known or (isinstance(value, ast.Name) and value.id in helpers):
                targets = [t.id for t in statement.targets if isinstance(t, ast.Name)]
                functions.update(dict.fromkeys(targets, value))  # type: ignore[arg-type]
    return functions.get(name)


# Which code runs


def _live(flow: Flow) -> set[ast.AST]:
    """The functions that run when the entry function is called, and the statements that they read from.

    Whatever a running part mentions runs too, unless the mention leads nowhere.
    """
    inside: dict[ast.AST, list[ast.AST]] = {}
    for node, region in flow.code.regions.items():
        if isinstance(node, ast.Name | ast.Lambda):
            inside.setdefault(region, []).append(node)
    live: set[ast.AST] = set()
    pending: list[ast.AST] = [flow.entry]
    while pending:
        region = pending.pop()
        if region in live:
            continue
        live.add(region)
        if isinstance(region, ast.ClassDef):
            pending += [node for node in region.body if isinstance(node, DEFINITIONS)]
        for node in inside.get(region, []):
            if _may_run(flow, node):
                pending += [node] if isinstance(node, ast.Lambda) else _named(flow, node)
    return live


def _may_run(flow: Flow, mention: ast.AST) -> bool:
    parent = flow.code.parents[mention]
    if isinstance(mention, ast.Lambda) and isinstance(parent, ast.Assign):
        return False  # decided where its name is mentioned
    return (isinstance(parent, ast.Call) and parent.func is mention) or flow.matters(mention)


def _named(flow: Flow, name: ast.AST) -> Iterator[ast.AST]:
    """The functions, classes and top-level statements that give a name its meaning."""
    assert isinstance(name, ast.Name)
    variable = flow.code.scopes.variables[name]
    for binding in flow.code.scopes.bindings.get(variable, []):
        if binding not in flow.code.regions:
            continue  # pruned away
        if isinstance(binding, (*DEFINITIONS, ast.ClassDef)):
            yield binding
        elif isinstance(binding, ast.Name):
            if flow.code.scopes.is_global(variable):
                yield flow.code.regions[binding]
            parent = flow.code.parents[binding]
            if isinstance(parent, ast.Assign) and isinstance(parent.value, ast.Lambda):
                yield parent.value
