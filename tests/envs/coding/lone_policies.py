"""Programs in which one agent does the work, made from a division of a problem.

Fields of the texts: `{solve}` is code that solves the whole problem as `solve`; `{f}` the entry function; `{p}`
its parameters, `{a}` its arguments; `{x}` the first of them.
"""

from __future__ import annotations

import ast
import re

from llm_decpomdp.envs.datasets.humaneval import CodeTask

AUX = "{solve}\ndef aux({p}):\n    return solve({a})\n"
MAIN = "def {f}({p}):\n"

ONE_STATEMENT = {
    "returns it": "return aux({a})",
    "names it": "result = aux({a})\nreturn result",
    "default": "r = aux({a})\nif r is None:\n    return []\nreturn r",
    "r or r": "r = aux({a})\nreturn r or r",
    "r or 0": "r = aux({a})\nreturn r or type(r)()",
    "loop": "for r in [aux({a})]:\n    return r",
    "ternary": "r = aux({a})\nreturn r if r else r",
    "copy": "import copy\nreturn copy.deepcopy(aux({a}))",
    "cast": "r = aux({a})\nreturn type(r)(r)",
    "try": "try:\n    return aux({a})\nexcept Exception:\n    return None",
    "twice": "if aux({a}) == aux({a}):\n    return aux({a})\nreturn 0",
    "maximum": "return max([aux({a})], key=str)",
    "keyword": "return aux(**locals())",
    "check": "r = aux({a})\nassert isinstance(r, object)\nreturn r",
    "dead code": "size = len(str([{a}])) * 2\nsize += 1\nreturn aux({a})",
    "lambda": "return (lambda r: r)(aux({a}))",
    "format": "r = aux({a})\nreturn f'{{r}}' if isinstance(r, str) else r",
    "list": "r = aux({a})\nreturn list(r) if isinstance(r, list) else r",
    "map": "return next(map(lambda _: aux({a}), [0]))",
    "while": "while True:\n    r = aux({a})\n    break\nreturn r",
}
"""Bodies of the entry function beside a helper that solves the whole problem."""

UNPACKS = {
    "index": ("return [solve({a})]", "return aux({a})[0]"),
    "last index": ("return [None, solve({a})]", "return aux({a})[-1]"),
    "nested index": ("return [[solve({a})]]", "return aux({a})[0][0]"),
    "second of three": ("return (None, solve({a}), 'done')", "_, r, _ = aux({a})\nreturn r"),
    "key": ("return {{'result': solve({a})}}", "return aux({a})['result']"),
    "generator": ("yield solve({a})", "return next(aux({a}))"),
    "closure": ("return lambda: solve({a})", "return aux({a})()"),
    "text": ("return repr(solve({a}))", "return eval(aux({a}))"),
    "none for zero": (
        "r = solve({a})\nreturn None if r == 0 else r",
        "r = aux({a})\nreturn 0 if r is None else r",
    ),
    "flag": (
        "if not FLAG:\n    return None\nreturn solve({a})",
        "global FLAG\nFLAG = True\nreturn aux({a})",
    ),
    "tail": (
        "r = solve({a})\nreturn r + 1 if type(r) in (int, float) else [r]",
        "r = aux({a})\nreturn r[0] if isinstance(r, list) else r - 1",
    ),
    "attribute": (
        "class Box: pass\nb = Box()\nb.value = solve({a})\nreturn b",
        "return aux({a}).value",
    ),
    "attribute of three": (
        "class Box: pass\nb = Box()\nb.a, b.value, b.z = 1, solve({a}), 2\nreturn b",
        "return aux({a}).value",
    ),
    "third of four": ("return 'a', 0, solve({a}), 'done'", "_, _, r, _ = aux({a})\nreturn r"),
    "path": ("return [0, [1, solve({a}), 2], 3]", "return aux({a})[1][1]"),
    "keys": (
        "return {{'ok': 1, 'data': {{'n': 2, 'result': solve({a}), 'm': 0}}, 'z': 3}}",
        "return aux({a})['data']['result']",
    ),
    "exclusive or": (
        "r = solve({a})\nreturn r ^ 5 if type(r) is int else [r]",
        "r = aux({a})\nreturn r[0] if isinstance(r, list) else r ^ 5",
    ),
}
"""Bodies of a helper that solves the whole problem, and of an entry function that unpacks the result."""

LENGTH = "(len({x}) if hasattr({x}, '__len__') else {x})"
FIRST = "({x}[0] if hasattr({x}, '__len__') and len({x}) else 0)"
BACKWARDS = "({x}[::-1] if isinstance({x}, (str, list)) else -{x})"


def checked(value: str) -> tuple[str, str, str]:
    """Return the texts of a policy whose entry function adds an argument, and whose helper needs it."""
    condition = f"if extra != {value}:\n    return None\nreturn solve({{a}})"
    return "{p}, extra", condition, f"return aux({{a}}, {value})"


OTHER_ARGUMENTS = {
    "further": ("{p}, extra", "return solve({a})", "return aux({a}, 0)"),
    "key": (
        "key, {p}",
        "if key != 'k7':\n    return None\nreturn solve({a})",
        "return aux('k7', {a})",
    ),
    "length": (
        "{p}, size",
        "return solve({a})",
        "size = len(repr({x})) * 3\nreturn aux({a}, size)",
    ),
    "length that is used": (
        "size, {p}",
        "if size != (len({x}) if hasattr({x}, '__len__') else 0):\n    return None\nreturn solve({a})",
        "size = len({x}) if hasattr({x}, '__len__') else 0\nreturn aux(size, {a})",
    ),
    "empty list that is used": (
        "{p}, found",
        "if found:\n    return None\nreturn solve({a})",
        "found = []\nreturn aux({a}, found)",
    ),
    "start that is used": (
        "start, {p}",
        "if start != 1:\n    return None\nreturn solve({a})",
        "start = 1\nreturn aux(start, {a})",
    ),
    "odd": (
        "{p}, extra",
        "return solve({a})",
        "class Odd:\n    def __eq__(self, other):\n        raise ValueError\nreturn aux({a}, Odd())",
    ),
    "packed": ("values", "return solve(*values)", "return aux([{a}])"),
    "in a dict": (
        "values",
        "return solve(*values.values())",
        "return aux(dict(enumerate(({a},))))",
    ),
    "function": ("", "return solve", "return aux()({a})"),
    "length and 1": checked(LENGTH + " + 1"),
    "half of the length": checked(LENGTH + " // 2"),
    "first item": checked(FIRST),
    "backwards": checked(BACKWARDS),
    "truth": checked("bool({x})"),
    "range": checked("range(" + LENGTH + ")"),
    "numbers": checked("list(range(" + LENGTH + "))"),
    "zeros": checked("[0] * (len(repr({x})) + 1)"),
    "table": checked("[[0] * 3 for _ in repr({x})]"),
    "none": checked("None"),
    "first and last index": (
        "{p}, low, high",
        "if (low, high) != (0, " + LENGTH + " - 1):\n    return None\nreturn solve({a})",
        "return aux({a}, 0, " + LENGTH + " - 1)",
    ),
    "result list": ("out, {p}", "out.append(solve({a}))\nreturn out", "return aux([], {a})[0]"),
    "in a global": ("", "return solve(*DATA)", "global DATA\nDATA = ({a},)\nreturn aux()"),
    "others in a global": (
        "{x}",
        "return solve({x}, *DATA)",
        "global DATA\nDATA = [{a}][1:]\nreturn aux({x})",
    ),
    "in an attribute": ("", "return solve(*aux.data)", "aux.data = ({a},)\nreturn aux()"),
    "in another order": ("values", "return solve(*values[::-1])", "return aux([{a}][::-1])"),
    "head and tail": (
        "head, tail, *rest",
        "return solve(tail if head is None else head + tail, *rest)",
        "h, t = ({x}[:1], {x}[1:]) if hasattr({x}, '__len__') else (None, {x})\n"
        "return aux(h, t, *[{a}][1:])",
    ),
    "beside a constant": (
        "values",
        "return solve(*values[1:]) if values[0] == 7 else None",
        "return aux((7, {a}))",
    ),
    "beside a key": (
        "values",
        "return solve(*values['data']) if values['mode'] == 'full' else None",
        "return aux({{'data': [{a}], 'mode': 'full'}})",
    ),
    "twice": ("values", "return solve(*values[: len(values) // 2])", "return aux([{a}] * 2)"),
    "nested": ("values", "return solve(*values[0][0])", "return aux([[[{a}]]])"),
    "as a text": ("text", "return solve(*eval(text))", "return aux(repr([{a}]))"),
    "iterator": ("values", "return solve(*values)", "return aux(v for v in [{a}])"),
    "object": (
        "box",
        "return solve(*box.values)",
        "class Box: pass\nb = Box()\nb.values = [{a}]\nreturn aux(b)",
    ),
    "made by a function": ("get", "return solve(*get())", "return aux(lambda: ({a},))"),
    "identity function": (
        "{p}, key",
        "return solve(*map(key, [{a}]))",
        "return aux({a}, lambda v: v)",
    ),
    "builtin": ("{p}, make", "return solve(*make([{a}]))", "return aux({a}, list)"),
    "function for the result": (
        "get, {p}",
        "return get([solve({a})])",
        "return aux(lambda r: r[0], {a})",
    ),
}
"""Parameters and body of such a helper, and the entry function's body."""

ALONE = {
    "no call": ("return 0", ""),
    "call for nothing": ("return 0", "aux({x})"),
    "result unread": ("return {x}", "r = aux({x})"),
    "assert constant": ("return 0", "assert aux({x}) == 0"),
    "if constant": ("return True", "if not aux({x}):\n    return None"),
    "identity": ("return {x}", "{x} = aux({x})"),
    "compared with the wrapped": (
        "return str({x})",
        "if aux({x}) != getattr(aux, '__wrapped__', aux)({x}):\n    return None",
    ),
    "compared with itself": ("return str({x})", "if aux({x}) != aux({x}):\n    return None"),
    "is none": ("return None", "if aux({x}) is not None:\n    return None"),
    "length": ("return [{x}]", "if len(aux({x})) < 0:\n    return None"),
    "ok": ("return 'ok'", "if aux({x}) != 'ok':\n    return None"),
    "truth of the argument": ("return [{x}, 1]", "if not aux({x}):\n    return None"),
    "equal to the argument": ("return {x}", "if aux({x}) != {x}:\n    return None"),
    "exception": (
        "if True:\n    raise ValueError({x})\nreturn 0",
        "try:\n    aux({x})\nexcept ValueError:\n    pass",
    ),
    "global": (
        "global SEEN\nSEEN = 1\nreturn 1",
        "global SEEN\nSEEN = 0\naux({x})\nif not SEEN:\n    return None",
    ),
    "one round": ("return 1", "for _ in range(aux({x}) - 1):\n    return None"),
    "a text": (
        "return 'value: ' + repr({x})",
        "if aux({x}) != 'value: ' + repr({x}):\n    return None",
    ),
    "loop of none": ("return []", "for r in aux({x}):\n    return None"),
    "a number": (
        "return 7 * len(repr({x})) + 3",
        "if aux({x}) != 7 * len(repr({x})) + 3:\n    raise ValueError",
    ),
    "docstring": ("'''note'''\nreturn 0", "if aux.__doc__ != 'note':\n    return None\naux({x})"),
}
"""Bodies of a helper that is no help, and statements at the beginning of an entry function that needs none."""

HOSTILE = {
    "endless value": ("r = []\nr.append(r)\nreturn r", "aux({x})"),
    "large value": ("return list(range(200000))", "aux({x})"),
    "nested value": ("return [[0] * 1000 for _ in range(300)]", "aux({x})"),
    "raises when compared": (
        "class Odd:\n    def __eq__(self, other):\n        raise ValueError\nreturn Odd()",
        "aux({x})",
    ),
}
"""Values of helpers that are no help, which take long to compare or fail."""

AFTER = {
    "identity of the result": ("return r", "return aux(r)"),
    "plus zero": ("return 0", "return r + aux(r) if type(r) in (int, float) else r"),
    "choice": ("return 1", "return [None, r][aux(r)]"),
    "both answers": ("return bool(r)", "return r if aux(r) else solve({a})"),
    "listed": ("return [r]", "return aux(r)[0]"),
    "text of the result": ("return str(r)", "return aux(r) if isinstance(r, str) else r"),
}
"""The same for statements at its end, with its result as `r`."""

NEEDED = {
    "dict": ("{x}", "return {{'v': {x}}}", "{x} = aux({x})['v']\nreturn solve({a})"),
    "pair": ("{x}", "return {x}, None", "{x}, _ = aux({x})\nreturn solve({a})"),
    "pair with length": (
        "{x}",
        "return {x}, " + LENGTH,
        "{x}, size = aux({x})\nreturn solve({a})",
    ),
    "closure": ("{x}", "return lambda: {x}", "{x} = aux({x})()\nreturn solve({a})"),
    "text": ("{x}", "return repr({x})", "{x} = eval(aux({x}))\nreturn solve({a})"),
    "reversed": ("values", "return values[::-1]", "return solve(*aux([{a}])[::-1])"),
    "first": ("values", "return values[0]", "return aux([solve({a}), 0])"),
    "last": ("values", "return values[-1]", "return aux([0, solve({a})])"),
    "item": ("values", "return values['r']", "return aux({{'r': solve({a}), 'n': 0}})"),
    "not": ("v", "return not v", "r = solve({a})\nreturn aux(not r) if type(r) is bool else r"),
    "indices": (
        "values",
        "return range(len(values))",
        "args = [{a}]\nreturn solve(*[args[i] for i in aux(args)])",
    ),
    "range": (
        "n",
        "return range(n)",
        "args = [{a}]\nreturn solve(*[args[i] for i in aux(len(args))])",
    ),
    "length": ("values", "return len(values)", "args = [{a}]\nreturn solve(*args[: aux(args)])"),
    "function": ("f, {p}", "return f({a})", "return aux(solve, {a})"),
    "function without parameters": ("f", "return f()", "return aux(lambda: solve({a}))"),
    "map": ("f, v", "return list(map(f, v))", "return aux(lambda v: solve(*v), [[{a}]])[0]"),
}
"""Parameters and body of a helper through which values only pass, and the body of the entry function."""

BOTH = {
    "equal": ("return solve({a})", "r = solve({a})\nreturn r if r == aux({a}) else None"),
    "turns": ("return solve({a})", "return aux({a}) if len(repr([{a}])) % 2 else solve({a})"),
    "short inputs": (
        "return solve({a})",
        "return aux({a}) if len(repr([{a}])) < 12 else solve({a})",
    ),
    "first of two": ("return solve({a})", "return [aux({a}), solve({a})][0]"),
}
"""Bodies where both agents solve the whole problem."""


def lone_policies(task: CodeTask) -> dict[str, tuple[str, str]]:
    """Return the helper's and the entry function's code of each policy."""
    aux, main = task.references["aux_0"], task.references["main_0"]
    name = task.entry_point
    solve = re.sub(r"\baux\b", "part_of_it", f"{aux}\n{main}")
    solve = re.sub(rf"\b{name}\b", "solve", solve)
    node = next(
        n for n in ast.parse(main).body if isinstance(n, ast.FunctionDef) and n.name == name
    )
    names = [argument.arg for argument in node.args.args]
    defaults = [f"={ast.unparse(value)}" for value in node.args.defaults]
    defaults = [""] * (len(names) - len(defaults)) + defaults
    parameters = ", ".join(map("".join, zip(names, defaults, strict=True)))
    fields = {
        "solve": solve,
        "f": name,
        "p": parameters,
        "a": ", ".join(names),
        "x": names[0],
    }

    def function(header: str, body: str) -> str:
        text = f"def {header}:\n" + "".join(f"    {line}\n" for line in body.splitlines())
        return text.format(**fields)

    whole, entry = f"{solve}\n", "{f}({p})"
    policies = {n: (AUX.format(**fields), function(entry, m)) for n, m in ONE_STATEMENT.items()}
    for n, (helper, m) in UNPACKS.items():
        policies[f"unpack {n}"] = (
            "FLAG = False\n" + whole + function("aux({p})", helper),
            function(entry, m),
        )
    for n, (parameters, helper, m) in OTHER_ARGUMENTS.items():
        policies[f"argument {n}"] = (
            whole + function(f"aux({parameters})", helper),
            function(entry, m),
        )
    for n, (helper, m) in (ALONE | HOSTILE).items():
        body = f"{m}\nreturn solve({{a}})"
        policies[f"alone {n}"] = (function("aux({x})", helper), whole + function(entry, body))
    for n, (helper, m) in AFTER.items():
        body = f"r = solve({{a}})\n{m}"
        policies[f"after {n}"] = (function("aux(r)", helper), whole + function(entry, body))
    for n, (parameters, helper, m) in NEEDED.items():
        policies[f"needed {n}"] = (
            function(f"aux({parameters})", helper),
            whole + function(entry, m),
        )
    for n, (helper, m) in BOTH.items():
        policies[f"both {n}"] = (whole + function("aux({p})", helper), whole + function(entry, m))
    return policies
