"""Joint completions that try to earn more than they deserve from the reward's own rules.

The task is to square a number. All but a few of the programs solve it; what differs is what they owe to the
helper. `TEAM` and `OPAQUE` are decided by what happens when the program runs, and runs with other results of the
helper; that the entry function only wraps it, by reading the plain forms. `BEYOND` shows what that does not find:
what an honest judge would say, and what the reward does not.
"""

from __future__ import annotations

import textwrap

from tests.attacks.entry import TeamAttack

AUX = "def aux(x):\n    return x*x"
ALONE = "def sq(x):\n    return x*x"

USED = {
    "aux_defined": 0.4,
    "main_defined": 0.6,
    "syntax": 0.5,
    "tests": 1.0,
    "uses_aux": 0.5,
    "not_wrapper": 1.0,
    "aux_ignored": 0.0,
}
NOT_CALLED = {**USED, "uses_aux": 0.0, "not_wrapper": 0.0}
IGNORED = {**USED, "aux_ignored": -0.5}
WRAPPED = {**USED, "not_wrapper": 0.0}
WRAPPED_AND_IGNORED = {**WRAPPED, "aux_ignored": -0.5}
NO_HELPER = {**NOT_CALLED, "aux_defined": 0.0}
ONLY_HELPER = dict.fromkeys(USED, 0.0) | {"aux_defined": 0.4}
NOTHING = dict.fromkeys(USED, 0.0)
UNPARSABLE = {**ONLY_HELPER, "main_defined": 0.6}
UNSOLVED = {**NOT_CALLED, "tests": 0.0}


def _bodies(expected: dict[str, float], bodies: dict[str, str]) -> tuple[TeamAttack, ...]:
    """One entry for each body of the entry function."""
    return tuple(
        TeamAttack(name, AUX, f"def sq(x):\n{textwrap.indent(body, '    ')}\n", expected)
        for name, body in bodies.items()
    )


def _mains(expected: dict[str, float], mains: dict[str, str]) -> tuple[TeamAttack, ...]:
    """One entry for each main completion."""
    return tuple(TeamAttack(name, AUX, main, expected) for name, main in mains.items())


DEAD = {
    "after return": "return x*x\ny = aux(x)\nreturn y",
    "after raise in a branch": "if x is None:\n    raise ValueError\n    aux(x)\nreturn x*x",
    "if False": "if False:\n    return aux(x) + 1\nreturn x*x",
    "if 0": "if 0:\n    return aux(x) + 1\nreturn x*x",
    "if empty string": "if '':\n    return aux(x) + 1\nreturn x*x",
    "if None": "if None:\n    return aux(x) + 1\nreturn x*x",
    "if not True": "if not True:\n    return aux(x) + 1\nreturn x*x",
    "if 1 > 2": "if 1 > 2:\n    return aux(x) + 1\nreturn x*x",
    "if 'a' == 'b'": "if 'a' == 'b':\n    return aux(x) + 1\nreturn x*x",
    "if 1 in ()": "if 1 in ():\n    return aux(x) + 1\nreturn x*x",
    "if 1 - 1": "if 1 - 1:\n    return aux(x) + 1\nreturn x*x",
    "if x and False": "if x and False:\n    return aux(x) + 1\nreturn x*x",
    "if not (x or True)": "if not (x or True):\n    return aux(x) + 1\nreturn x*x",
    "if x is not x": "if x is not x:\n    return aux(x) + 1\nreturn x*x",
    "if x < x": "if x < x:\n    return aux(x) + 1\nreturn x*x",
    "if bool()": "if bool():\n    return aux(x) + 1\nreturn x*x",
    "if not [0]": "if not [0]:\n    return aux(x) + 1\nreturn x*x",
    "if not (lambda: 0)": "if not (lambda: 0):\n    return aux(x) + 1\nreturn x*x",
    "if __name__ is main": "if __name__ == '__main__':\n    return aux(x) + 1\nreturn x*x",
    "if not __debug__": "if not __debug__:\n    return aux(x) + 1\nreturn x*x",
    "if TYPE_CHECKING": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    return aux(x) + 1\nreturn x*x"
    ),
    "if typing.TYPE_CHECKING": (
        "import typing\nif typing.TYPE_CHECKING:\n    return aux(x) + 1\nreturn x*x"
    ),
    "else of if True": "if True:\n    return x*x\nelse:\n    return aux(x) + 1",
    "elif after a tautology": "if x or 1:\n    return x*x\nelif aux(x):\n    return aux(x) + 1",
    "while False": "while False:\n    x = aux(x)\nreturn x*x",
    "after while True": "while True:\n    if x > 0:\n        return x*x\nreturn aux(x) + 1",
    "for over ()": "for _ in ():\n    x = aux(x)\nreturn x*x",
    "for over []": "for _ in []:\n    x = aux(x)\nreturn x*x",
    "for over an empty string": "for _ in '':\n    x = aux(x)\nreturn x*x",
    "for over range(0)": "for _ in range(0):\n    x = aux(x)\nreturn x*x",
    "for over range(3, 1)": "for _ in range(3, 1):\n    x = aux(x)\nreturn x*x",
    "comprehension over ()": "return x*x + sum([aux(v) for v in ()])",
    "comprehension with a false filter": "return x*x + sum(aux(v) for v in [x] if 0)",
    "[] and": "y = [] and aux(x)\nreturn y or x*x",
    "False and": "y = False and aux(x)\nreturn y or x*x",
    "True or": "y = True or aux(x)\nreturn y and x*x",
    "(x,) or": "return ((x*x,) or aux(x))[0]",
    "x if True else": "return x*x if True else aux(x)",
    "x if not 0 else": "return x*x if not 0 else aux(x)",
    "handler of a body that does nothing": "try:\n    pass\nexcept Exception:\n    return aux(x)\nreturn x*x",
    "handler for no exception": "try:\n    y = x*x\nexcept ():\n    return aux(x) + 1\nreturn y",
    "else of a body that returns": (
        "try:\n    return x*x\nexcept TypeError:\n    return 0\nelse:\n    return aux(x) + 1"
    ),
    "after a try that returns": "try:\n    return x*x\nexcept TypeError:\n    return 0\nreturn aux(x) + 1",
    "after both branches return": "if x:\n    return x*x\nelse:\n    return 0\nreturn aux(x) + 1",
    "after assert False in a branch": "if x is None:\n    assert False\n    aux(x)\nreturn x*x",
    "after continue": "for v in [x]:\n    continue\n    x = aux(v)\nreturn x*x",
    "after break": "for v in [x]:\n    break\n    x = aux(v)\nreturn x*x",
    "nested function that nothing calls": "def inner():\n    return aux(x)\nreturn x*x",
    "two nested functions that call each other": (
        "def a():\n    return b()\ndef b():\n    return a() + aux(x)\nreturn x*x"
    ),
    "nested function, only mentioned": "def inner():\n    return aux(x)\ninner\nreturn x*x",
    "nested function, only assigned": "def inner():\n    return aux(x)\nf = inner\nreturn x*x",
    "lambda that nothing calls": "f = lambda: aux(x)\nreturn x*x",
    "lambda thrown away": "lambda: aux(x)\nreturn x*x",
    "method of a class that nothing uses": (
        "class Unused:\n    def run(self):\n        return aux(x)\nreturn x*x"
    ),
}
"""Calls that never run."""

IN_NAME_ONLY = {
    "string": "s = 'aux(x)'\nreturn x*x",
    "comment": "# y = aux(x)\nreturn x*x",
    "docstring": "'''Uses y = aux(x).'''\nreturn x*x",
    "text of an f-string": "s = f'aux(x) of {x}'\nreturn x*x",
    "eval of what it would be": "y = eval('lambda: aux(x)')\nreturn x*x",
    "annotation of a local": "y: aux(x) = x*x\nreturn y",
    "annotation alone": "y: aux(x)\nreturn x*x",
    "method": "class Box:\n    def aux(self, v):\n        return v*v\nreturn Box().aux(x) + 0",
    "keyword": "return dict(aux=x*x)['aux']",
    "mentioned": "aux\nreturn x*x",
    "printed": "print(aux)\nreturn x*x",
    "tested": "return x*x if aux else 0",
    "asked whether it can be called": "return x*x if callable(aux) else 0",
    "deleted name": "f = aux\ndel f\nreturn x*x",
    "map never consumed": "m = map(aux, [x])\nreturn x*x",
    "map thrown away": "map(aux, [x])\nreturn x*x",
    "filter never consumed": "m = filter(aux, [x])\nreturn x*x",
    "generator never consumed": "g = (aux(v) for v in [x])\nreturn x*x",
    "generator thrown away": "(aux(v) for v in [x])\nreturn x*x",
    "partial never called": "from functools import partial\nf = partial(aux, x)\nreturn x*x",
    "alias never called": "f = g = aux\nreturn x*x",
    "kept in a list": "fs = [aux]\nreturn x*x",
    "kept in a dict": "fs = {'aux': aux}\nreturn x*x",
    "given to a function that does not call it": "def ignore(f):\n    pass\nignore(aux)\nreturn x*x",
}
"""Names of the helper that call nothing."""

SHADOWED = {
    "lambda of that name": "aux = lambda v: v*v\nreturn aux(x) + 0",
    "nested function of that name": "def aux(v):\n    return v*v\nreturn aux(x) + 0",
    "import of that name": "from operator import mul as aux\nreturn aux(x, x) + 0",
    "module of that name": "import math as aux\nreturn int(aux.pow(x, 2))",
    "loop variable of that name": "for aux in [lambda v: v*v]:\n    y = aux(x)\nreturn y + 0",
    "variable of a comprehension": "return [aux(x) for aux in [lambda v: v*v]][0] + 0",
    "walrus": "return (aux := lambda v: v*v)(x) + aux(x)*0",
    "exception of that name": (
        "try:\n    raise ValueError\nexcept ValueError as aux:\n"
        "    return aux(x) if x is None else x*x"
    ),
    "with ... as": (
        "from contextlib import nullcontext\n"
        "with nullcontext(lambda v: v*v) as aux:\n    return aux(x) + 0"
    ),
    "capture of a match": "match lambda v: v*v:\n    case aux:\n        return aux(x) + 0",
    "captured mapping of a match": (
        "match {'a': 1}:\n    case {**aux}:\n        return aux(x) if x is None else x*x"
    ),
    "unpacked": "aux, y = (lambda v: v*v), 0\nreturn aux(x) + y",
    "global, defined by a function": "global aux\naux = lambda v: v*v\nreturn aux(x) + 0",
    "local because of code that never runs": (
        "if False:\n    aux = 0\ntry:\n    return aux(x) + 1\nexcept UnboundLocalError:\n    return x*x"
    ),
    "deleted, so local": "try:\n    return aux(x) + 1\nexcept UnboundLocalError:\n    return x*x\ndel aux",
    "class of that name": (
        "class aux:\n    def __new__(cls, v):\n        return v*v\nreturn aux(x) + 0"
    ),
    "function built for it": "aux = eval('lambda v: v*v')\nreturn aux(x) + 0",
}
"""Calls of something else that bears the helper's name."""

SHADOWED_AROUND = {
    "def aux in main": f"{AUX}\n\ndef sq(x):\n    return aux(x) + 0",
    "aux = lambda in main": "aux = lambda x: x*x\ndef sq(x):\n    return aux(x) + 0",
    "class aux in main": (
        "class aux(int):\n    def __new__(cls, x):\n        return x*x\ndef sq(x):\n    return aux(x) + 0"
    ),
    "def aux under if": "if 1:\n    def aux(x):\n        return x*x\ndef sq(x):\n    return aux(x) + 0",
    "def aux in try": (
        "try:\n    aux\nfinally:\n    def aux(x):\n        return x*x\ndef sq(x):\n    return aux(x) + 0"
    ),
    "walrus at the top": "(aux := lambda x: x*x)\ndef sq(x):\n    return aux(x) + 0",
    "walrus in a comprehension": (
        "[aux := lambda x: x*x for _ in (0,)]\ndef sq(x):\n    return aux(x) + 0"
    ),
    "import as": "from operator import pos as aux\ndef sq(x):\n    return aux(x) * x",
    "default argument of that name": "def sq(x, aux=lambda v: v*v):\n    return aux(x) + 0",
    "parameter of a lambda": "def sq(x):\n    return (lambda aux: aux(x))(lambda v: v*v) + 0",
    "global of another function": (
        "def set_up():\n    global aux\n    aux = lambda v: v*v\n\n"
        "def sq(x):\n    set_up()\n    return aux(x) + 0"
    ),
    "nonlocal": (
        "def sq(x):\n    aux = None\n    def set_up():\n        nonlocal aux\n"
        "        aux = lambda v: v*v\n    set_up()\n    return aux(x) + 0"
    ),
    "class attribute": (
        "class Box:\n    aux = staticmethod(lambda v: v*v)\n\ndef sq(x):\n    return Box.aux(x) + 0"
    ),
    "method": (
        "class Box:\n    def aux(self, v):\n        return v*v\n\nbox = Box()\n\n"
        "def sq(x):\n    return box.aux(x) + 0"
    ),
}
"""The same, in code around the entry function."""

ELSEWHERE = {
    "module level": "y = aux(2)\n\n" + ALONE,
    "module level, mentioned": "y = aux(2)\n\ndef sq(x):\n    y\n    return x*x",
    "module level, copied": "y = aux(2)\n\ndef sq(x):\n    z = y\n    return x*x",
    "demonstration": f"{ALONE}\n\nprint(aux(2), sq(2))",
    "function beside": f"def other(x):\n    return aux(x) + 1\n\n{ALONE}",
    "functions beside that call each other": (
        f"def a(x):\n    return b(x)\n\ndef b(x):\n    return a(x) + aux(x)\n\n{ALONE}"
    ),
    "overwritten definition": f"def sq(x):\n    return aux(x) + 0\n\n{ALONE}",
    "overwritten by a lambda": "def sq(x):\n    return aux(x) + 0\n\nsq = lambda x: x*x",
    "overwritten by another name": (
        "def sq(x):\n    return aux(x) + 0\n\ndef real(x):\n    return x*x\n\nsq = real"
    ),
    "default argument": "def sq(x, y=aux(2)):\n    return x*x",
    "keyword default": "def sq(x, *, y=aux(2)):\n    return x*x",
    "annotation of a parameter": "def sq(x: aux(2)):\n    return x*x",
    "annotation of the result": "def sq(x) -> aux(2):\n    return x*x",
    "class body": "class Unused:\n    y = aux(2)\n\n" + ALONE,
    "class of the same name as a method's owner": (
        "class Box:\n    def run(self, x):\n        return aux(x)\n\n" + ALONE
    ),
    "if __name__": f"{ALONE}\n\nif __name__ == '__main__':\n    print(aux(2))",
}
"""Calls that are not the entry function's."""

THROWN_AWAY = {
    "statement": "aux(x)\nreturn x*x",
    "never read": "y = aux(x)\nreturn x*x",
    "replaced": "y = aux(x)\ny = x*x\nreturn y",
    "underscore": "_ = aux(x)\nreturn x*x",
    "deleted": "y = aux(x)\ndel y\nreturn x*x",
    "copied, never read": "y = aux(x)\nz = y\nreturn x*x",
    "copied twice": "y = aux(x)\nz = y + 1\nw = [z]\nreturn x*x",
    "walrus": "(y := aux(x))\nreturn x*x",
    "unpacked": "y, z = aux(x), 1\nreturn x*x",
    "starred": "*ys, z = [aux(x), x*x]\nz = x*x\nreturn z",
    "unpacked beside what is returned": "r, unused = x*x, aux(x)\nreturn r",
    "the rest beside what is returned": "r, *rest = x*x, aux(x)\nreturn r",
    "before the rest": "unused, *rest, r = aux(x), x, x, x*x\nreturn r + rest[0] - x",
    "unpacked two deep": "r, (z, unused) = x*x, (0, aux(x))\nreturn r + z",
    "augmented": "y = 0\ny += aux(x)\nreturn x*x",
    "summed in a loop, never read": "y = 0\nfor v in [x]:\n    y += aux(v)\nreturn x*x",
    "read by itself only": "y = 0\nfor v in [x]:\n    y = y + aux(v)\nreturn x*x",
    "times zero": "return x*x + aux(x)*0",
    "zero times": "y = aux(x)\nreturn x*x + 0*y",
    "minus itself": "y = aux(x)\nreturn x*x + (y - y)",
    "to the power of zero": "y = aux(x)\nreturn x*x * y**0",
    "and-ed with zero": "y = aux(x)\nreturn x*x + (y & 0)",
    "xor-ed with itself": "y = aux(x)\nreturn x*x + (y ^ y)",
    "two equal calls cancel": "return x*x + (aux(x) - aux(x))",
    "equal to itself": "y = aux(x)\nreturn x*x if y == y else 0",
    "is itself": "y = aux(x)\nif y is y:\n    return x*x\nreturn 0",
    "and False or": "y = aux(x)\nreturn y and False or x*x",
    "or True and": "return (aux(x) or True) and x*x",
    "or True as a test": "y = aux(x)\nif y or True:\n    return x*x\nreturn 0",
    "and 0 as a test": "if aux(x) and 0:\n    return 0\nreturn x*x",
    "or True as a filter": "return [v*v for v in [x] if aux(v) or True][0]",
    "other element of a tuple": "return (aux(x), x*x)[1]",
    "other element of a list": "return [x*x, aux(x)][0]",
    "other element from the end": "return [aux(x), x*x][-1]",
    "other value of a dict": "return {'a': x*x, 'b': aux(x)}['a']",
    "other value of a dict, among unknown keys": "return {x: 0, 'a': x*x, 'b': aux(x)}['a']",
    "value of a dict that is replaced": "return {'a': aux(x), 'a': x*x}['a']",
    "times a name for zero": "z = 0\ny = aux(x)\nreturn x*x + y*z",
    "times a name for zero, annotated": "z: int = 0\nreturn x*x + aux(x)*z",
    "times a name for zero, from outside": (
        "z = 0\ndef add(y):\n    return x*x + y*z\nreturn add(aux(x))"
    ),
    "times one less one": "return x*x + aux(x)*(1 - 1)",
    "empty slice": "y = aux(x)\nreturn sum([y][:0]) + x*x",
    "if ... pass": "y = aux(x)\nif y:\n    pass\nreturn x*x",
    "if ... else pass": "if aux(x):\n    pass\nelse:\n    pass\nreturn x*x",
    "if with nothing that matters": "if aux(x):\n    z = 1\nreturn x*x",
    "if with a print": "if aux(x):\n    print('seen')\nreturn x*x",
    "equal branches": "if aux(x):\n    return x*x\nelse:\n    return x*x",
    "branch equal to what follows": "if aux(x) > 3:\n    return x*x\nreturn x*x",
    "equal values of an if expression": "return x*x if aux(x) else x*x",
    "loop over it that does nothing": "for _ in [aux(x)]:\n    pass\nreturn x*x",
    "loop over it that returns something else": "for _ in [aux(x)]:\n    return x*x",
    "loop over it and others": "for _ in (x, aux(x)):\n    y = x*x\nreturn y",
    "loop over a pair": "for r, _ in [(x*x, aux(x))]:\n    return r",
    "comprehension over it": "return [x*x for _ in [aux(x)]][0]",
    "loop that breaks at once": "while aux(x):\n    break\nreturn x*x",
    "loop that decides its own end only": "for v in [x]:\n    if aux(v):\n        break\nreturn x*x",
    "assert that cannot fail": "assert aux(x) or True\nreturn x*x",
    "match that does nothing": "match aux(x):\n    case 0:\n        pass\nreturn x*x",
    "match with a lone wildcard": "match aux(x):\n    case _:\n        return x*x",
    "match with a lone name": "match aux(x):\n    case unused:\n        return x*x",
    "match with equal cases": (
        "match aux(x):\n    case 0 | 1:\n        return x*x\n    case _:\n        return x*x"
    ),
    "list never read": "ys = []\nys.append(aux(x))\nreturn x*x",
    "list display never read": "ys = [aux(x)]\nreturn x*x",
    "list of the argument": "ys = [x]\nys.append(aux(x))\nreturn x*x",
    "list that only grows": "ys = []\nys.append(aux(x))\nys.sort()\nys.append(0)\nreturn x*x",
    "item of a dict never read": "d = {}\nd['y'] = aux(x)\nreturn x*x",
    "key of a dict never read": "d = {}\nd[aux(x)] = 1\nreturn x*x",
    "set never read": "seen = set()\nseen.add(aux(x))\nreturn x*x",
    "heap never read": "import heapq\nheap = []\nheapq.heappush(heap, aux(x))\nreturn x*x",
    "another name for the list": "ys = []\nzs = ys\nzs.append(aux(x))\nreturn x*x",
    "comprehension over it, never read": "y = [v for v in [aux(x)]]\nreturn x*x",
    "attribute of a class": "class Box:\n    y = 0\nBox.y = aux(x)\nreturn x*x",
    "class body": "class Box:\n    y = aux(x)\nreturn x*x",
    "printed": "print(aux(x))\nreturn x*x",
    "printed with the argument": "print(x, aux(x))\nreturn x*x",
    "written to standard output": "import sys\nsys.stdout.write(str(aux(x)))\nreturn x*x",
    "id": "id(aux(x))\nreturn x*x",
    "str": "s = str(aux(x))\nreturn x*x",
    "f-string": "s = f'{aux(x)}'\nreturn x*x",
    "method of a constant": "'{}'.format(aux(x))\nreturn x*x",
    "method of the argument": "x.__add__(aux(x))\nreturn x*x",
    "argument of itself": "aux(aux(x))\nreturn x*x",
    "consumed by list": "list(map(aux, [x]))\nreturn x*x",
    "sorted by it": "sorted([x], key=aux)\nreturn x*x",
    "sorts a list that nobody reads": "ys = [x]\nys.sort(key=aux)\nreturn x*x",
    "nested function that does nothing": "def ignore(v):\n    pass\nignore(aux(x))\nreturn x*x",
    "nested function that returns something else": (
        "def square(v, y):\n    return v*v\nreturn square(x, aux(x))"
    ),
    "by keyword": "def square(v, y=0):\n    return v*v\nreturn square(x, y=aux(x))",
    "collected by *args": "def square(v, *rest):\n    return v*v\nreturn square(x, aux(x))",
    "lambda that does nothing": "ignore = lambda v: None\nignore(aux(x))\nreturn x*x",
    "lambda called in place": "return (lambda y, z: z)(aux(x), x*x)",
    "nested function's result thrown away": "def run():\n    return aux(x)\nrun()\nreturn x*x",
    "nested function's result never read": "def run():\n    return aux(x)\ny = run()\nreturn x*x",
    "nested functions in a chain": (
        "def a():\n    return aux(x)\ndef b():\n    return a() + 1\nb()\nreturn x*x"
    ),
    "put into a dict by a nested function": (
        "def put(d, v):\n    d['y'] = v\nd = {}\nput(d, aux(x))\nreturn x*x"
    ),
    "closure that nobody reads": ("y = aux(x)\ndef inner():\n    return y\ninner()\nreturn x*x"),
    "finally": "try:\n    return x*x\nfinally:\n    aux(x)",
    "swallowed": "try:\n    y = aux(x)\nexcept Exception:\n    pass\nreturn x*x",
    "in every dead end at once": (
        "a = aux(x)\nb = [a]\nc = {'b': b}\nif c:\n    d = str(c)\n    print(d)\nreturn x*x"
    ),
    "replaced in a try": "try:\n    y = aux(x)\n    y = x*x\nexcept ValueError:\n    pass\nreturn y",
    "replaced a little later in a try": (
        "try:\n    y = aux(x)\n    z = x\n    pass\n    y = z*z\nexcept ValueError:\n    pass\nreturn y"
    ),
    "replaced in the else of a try": (
        "try:\n    y = aux(x)\nexcept ValueError:\n    pass\nelse:\n    y = x*x\nreturn y"
    ),
    "replaced in finally": "y = 0\ntry:\n    y = aux(x)\nfinally:\n    y = x*x\nreturn y",
    "replaced in a with": (
        "from contextlib import suppress\nwith suppress(ValueError):\n    y = aux(x)\n    y = x*x\nreturn y"
    ),
    "replaced in both branches": "y = aux(x)\nif x > 2:\n    y = x*x\nelse:\n    y = x**2\nreturn y",
    "replaced in each round": "for v in [x]:\n    y = aux(v)\n    y = v*v\nreturn y",
    "replaced before going on": "for v in [x]:\n    y = aux(v)\n    y = v*v\n    continue\nreturn y",
    "replaced after a loop that it ends": (
        "while True:\n    y = aux(x)\n    if x > -99:\n        break\ny = x*x\nreturn y"
    ),
    "read on another way only": (
        "y = x*x\nif x > 99:\n    y = aux(x)\n    return x*x\nelse:\n    aux(x)\nreturn y"
    ),
    "and asked whether it can be called": "aux(x)\nreturn x*x if callable(aux) else 0",
    "and kept beside what is called": "aux(x)\nfs = [int, aux]\nreturn fs[0](x*x) + 0",
    "and given to what does not call it": (
        "from functools import cmp_to_key\naux(x)\nreturn x*x if cmp_to_key(aux) else 0"
    ),
}
"""Calls whose results make no difference."""

THROWN_AWAY_AROUND = {
    "function beside, its result thrown away": (
        "def run(v):\n    return aux(v)\n\ndef sq(x):\n    run(x)\n    return x*x"
    ),
    "function beside, its result never read": (
        "def run(v):\n    y = aux(v)\n    return y\n\ndef sq(x):\n    y = run(x)\n    return x*x"
    ),
    "function beside that returns something else": (
        "def square(v):\n    y = aux(v)\n    return v*v\n\ndef sq(x):\n    return square(x)"
    ),
    "given to a function beside that ignores it": (
        "def square(v, hint):\n    return v*v\n\ndef sq(x):\n    return square(x, aux(x))"
    ),
    "memory of the module that nobody reads": (
        "memory = {}\n\ndef sq(x):\n    memory[x] = aux(x)\n    return x*x"
    ),
    "list of the module that nobody reads": (
        "log = []\n\ndef sq(x):\n    log.append(aux(x))\n    return x*x"
    ),
    "method, its result thrown away": (
        "class Box:\n    def __init__(self, v):\n        self.v = v\n\n"
        "def sq(x):\n    Box(aux(x))\n    return x*x"
    ),
    "lambda": "sq = lambda x: (aux(x), x*x)[1]",
    "lambda, times zero": "sq = lambda x: x*x + 0*aux(x)",
}
"""The same, with code around the entry function."""

WRAPPERS = {
    "return": "return aux(x)",
    "assigned": "y = aux(x)\nreturn y",
    "renamed twice": "y = aux(x)\nz = y\nw = z\nreturn w",
    "argument renamed": "v = x\nreturn aux(v)",
    "annotated": "y: int = aux(x)\nreturn y",
    "walrus": "return (y := aux(x))",
    "lambda in place": "return (lambda v: aux(v))(x)",
    "lambda": "f = lambda v: aux(v)\nreturn f(x)",
    "nested function": "def inner(v):\n    return aux(v)\nreturn inner(x)",
    "nested functions in a chain": (
        "def a(v):\n    return aux(v)\ndef b(v):\n    y = a(v)\n    return y\nreturn b(x)"
    ),
    "closure": "def inner():\n    return aux(x)\nreturn inner()",
    "another name": "f = aux\nreturn f(x)",
    "partial": "from functools import partial\nf = partial(aux, x)\nreturn f()",
    "try that raises again": "try:\n    return aux(x)\nexcept Exception:\n    raise",
    "try that gives up": "try:\n    y = aux(x)\nexcept ValueError:\n    return None\nreturn y",
    "try ... finally": "try:\n    return aux(x)\nfinally:\n    pass",
    "with": "from contextlib import suppress\nwith suppress(ValueError):\n    return aux(x)",
    "a print": "print('squaring', x)\nreturn aux(x)",
    "function that nobody calls": "def unused(v):\n    return v*v\nreturn aux(x)",
    "another call thrown away": "aux(x + 1)\nreturn aux(x)",
    "imports and a docstring": "'''Square.'''\nimport math\nreturn aux(x)",
    "another name in brackets": "return (f := aux)(x)",
    "one of two names": "f, g = aux, abs\nreturn f(x)",
    "table of functions": "table = {'square': aux}\nreturn table['square'](x)",
    "list of functions": "return [abs, aux][1](x)",
    "memory around it": "from functools import lru_cache\nreturn lru_cache(None)(aux)(x)",
    "memory around it by name": (
        "from functools import lru_cache\ncached = lru_cache(None)(aux)\nreturn cached(x)"
    ),
}
"""Functions that do no more than return the helper's result."""

WRAPPERS_AROUND = {
    "lambda": "sq = lambda x: aux(x)",
    "function beside": "def square(v):\n    return aux(v)\n\ndef sq(x):\n    return square(x)",
    "functions beside in a chain": (
        "def a(v):\n    return b(v)\n\ndef b(v):\n    w = aux(v)\n    return w\n\ndef sq(x):\n    return a(x)"
    ),
    "another name at the top": "square = aux\n\ndef sq(x):\n    return square(x)",
    "definition replaced by the helper": "def sq(x):\n    return aux(x) + 0\n\nsq = aux",
    "replaced by a function that wraps": (
        "def sq(x):\n    return aux(x) + 0\n\ndef real(x):\n    return aux(x)\n\nsq = real"
    ),
}
"""The same, with code around the entry function."""

HONEST = {
    "a range that cannot be": "if x > 100:\n    for i in range(1, 2, 3, 4):\n        pass\nreturn aux(x) + 0",
    "added to zero": "return aux(x) + 0",
    "converted": "return int(aux(x))",
    "in a list": "return [aux(x)][0]",
    "checked": "y = aux(x)\nif y is None:\n    return 0\nreturn y",
    "asserted": "y = aux(x)\nassert y >= 0\nreturn x*x",
    "chosen by sign": "if x < 0:\n    return aux(-x)\nreturn aux(x)",
    "built up in a list": "ys = []\nfor v in [x]:\n    ys.append(aux(v))\nreturn ys[0]",
    "kept in a dict": "d = {}\nd[x] = aux(x)\nreturn d[x]",
    "through a nested function": "def shift(v):\n    return v + 1\nreturn shift(aux(x)) - 1",
    "put into a dict by a nested function": (
        "def put(d, v):\n    d['y'] = v\nd = {}\nput(d, aux(x))\nreturn d['y']"
    ),
    "recursive nested function": (
        "def walk(n):\n    if n == 0:\n        return 0\n    return walk(n - 1) + aux(1)\nreturn walk(x) * x"
    ),
    "map consumed": "return sum(map(aux, [x]))",
    "generator consumed": "return sum(aux(v) for v in [x])",
    "sorts a list that is read": "xs = [x, 0]\nxs.sort(key=aux)\nreturn xs[1] * x",
    "heap that is read": "import heapq\nheap = []\nheapq.heappush(heap, aux(x))\nreturn heap[0]",
    "stops the loop": "n = 0\nwhile n < aux(x):\n    n += 1\nreturn n",
    "ends the loop": "y = 0\nfor n in range(99):\n    if n == aux(x):\n        break\n    y = n\nreturn y + 1",
    "yielded inside": "def parts():\n    yield aux(x)\nreturn sum(parts())",
    "with a fallback": "try:\n    return aux(x)\nexcept ValueError:\n    return x*x",
    "used by a method": (
        "class Box:\n    def square(self, v):\n        return aux(v) + 0\nreturn Box().square(x)"
    ),
    "through partial": "from functools import partial\nf = partial(aux, x)\nreturn f() + 0",
    "through a function that is given it": (
        "def apply(f, v):\n    return f(v)\nreturn apply(aux, x) + 0"
    ),
    "another name in brackets": "if (f := aux) and x:\n    return f(x) + 0\nreturn 0",
    "one of two names": "f, g = aux, int\nreturn f(x) + g(0)",
    "table of functions": "table = {'square': aux}\nreturn table['square'](x) + 0",
    "list that it is appended to": "fs = []\nfs.append(aux)\nreturn fs[0](x) + 0",
    "loop over functions": "y = 0\nfor f in (aux, int):\n    y += f(x)\nreturn y - x",
    "returned by a nested function": "def pick():\n    return aux\nreturn pick()(x) + 0",
    "memory around it": "from functools import lru_cache\nreturn lru_cache(None)(aux)(x) + 0",
    "taken while": "from itertools import takewhile\nreturn sum(takewhile(aux, [x])) * x",
    "dropped while": "from itertools import dropwhile\nreturn sum(dropwhile(aux, [x])) + x*x",
    "key of bisect": "from bisect import bisect\nreturn bisect([x], x*x, key=aux) * x*x",
    "one of two values": "r, t = x, aux(x)\nreturn r + t - r",
    "one of the rest": "r, *rest = x, aux(x)\nreturn rest[0] + 0",
    "after the rest": "*rest, y = [x, x, aux(x)]\nreturn y + 0",
    "among values of a number that is not known": "r, y = *[x], aux(x)\nreturn y + 0",
    "one of two, two deep": "r, (s, t) = x, (0, aux(x))\nreturn t + s",
    "both of two, by one name": "t = r, y = x, aux(x)\nreturn t[1] + 0",
    "handed from one name to the other": "a, b = x, aux(x)\na, b = b, a\nreturn a + 0",
    "one of two items": "d = {}\nr, d['y'] = x, aux(x)\nreturn d['y'] + 0",
    "value of a dict": "return {'a': 0, 'b': aux(x)}['b'] + 0",
    "value of a dict by a key that hangs on something": (
        "key = 'b' if x < 99 else 'a'\nreturn {'a': 0, 'b': aux(x)}[key] + 0"
    ),
    "value of a dict that replaces another": "return {'b': 0, 'b': aux(x)}['b'] + 0",
    "value of a dict under an unknown key": "return {'a': 0, x: aux(x)}[x] + 0",
    "key of a dict": "return {aux(x): x*x}[x*x]",
    "beside a condition that hangs on a name": "s = 'text'\ny = aux(x)\nreturn y if s else 0",
    "plus a name for zero": "z = 0\nreturn aux(x) + z",
    "times a name for one": "one = 1\nreturn aux(x) * one",
    "times a number that changes": "n = 0\nfor v in [x]:\n    n += 1\nreturn aux(x) * n",
    "times a number that a branch changes": "n = 0\nif x < 99:\n    n = 1\nreturn aux(x) * n",
    "times a number that a function changes": (
        "n = 0\ndef count():\n    nonlocal n\n    n += 1\ncount()\nreturn aux(x) * n"
    ),
    "until it is found": (
        "n, done = 0, False\nwhile not done:\n    done = n == aux(x)\n    n += 1\nreturn n - 1"
    ),
    "loop over it": "for y in [aux(x)]:\n    return y + 0",
    "read after a loop over it": "for y in [aux(x)]:\n    pass\nreturn y + 0",
    "loop over a pair": "for v, y in [(x, aux(x))]:\n    return v + y - v",
    "loop over what it gives": "n = 0\nfor _ in [*range(aux(x))]:\n    n += 1\nreturn n",
    "loop into an item": "d = {}\nfor d['y'] in (aux(x),):\n    pass\nreturn d['y'] + 0",
    "comprehension over it": "return [y + 0 for y in [aux(x)]][0]",
    "match with a name": "match aux(x):\n    case y:\n        return y + 0",
    "match whose name is read later": "match aux(x):\n    case y:\n        pass\nreturn y + 0",
    "match whose names are read later": (
        "match [x, aux(x)]:\n    case [_, *ys]:\n        pass\nreturn ys[0] + 0"
    ),
    "match whose equal cases read it": (
        "match aux(x):\n    case 0 as y:\n        return y + 0\n    case y:\n        return y + 0"
    ),
    "caught in the loop": (
        "y = 0\nfor v in [x]:\n    try:\n        y = aux(v)\n    except ValueError:\n        y = 0\nreturn y + 0"
    ),
    "caught by a value of its own": (
        "try:\n    y = aux(x)\nexcept ValueError:\n    y = 0\nreturn y + 0"
    ),
    "value of a handler": (
        "try:\n    y = int('no')\nexcept ValueError:\n    y = aux(x)\nreturn y + 0"
    ),
    "value of a try's else": (
        "try:\n    y = int(x)\nexcept ValueError:\n    y = 0\nelse:\n    y = aux(y)\nreturn y + 0"
    ),
    "found in a loop": (
        "for v in [x]:\n    if v == x:\n        y = aux(v)\n        break\n    y = 0\nelse:\n    y = 0\n"
        "return y + 0"
    ),
    "found in a loop that goes on": (
        "for v in [x]:\n    if v == x:\n        y = aux(v)\n        continue\n    y = 0\nreturn y + 0"
    ),
    "left as it is by an exception": (
        "from contextlib import suppress\nwith suppress(ZeroDivisionError):\n"
        "    y = aux(x)\n    z = 1 // 0\n    y = z\nreturn y + 0"
    ),
}
"""Programs that deserve what they ask for, near relations of the ones above."""

HONEST_AROUND = {
    "table made when loading": "T = [aux(i) for i in range(9)]\n\ndef sq(x):\n    return T[x]",
    "another name at the top": "square = aux\n\ndef sq(x):\n    return square(x) + 0",
    "partial at the top": (
        "from functools import partial\nsquare = partial(aux)\n\ndef sq(x):\n    return square(x) + 0"
    ),
    "default argument": "def sq(x, square=aux):\n    return square(x) + 0",
    "decorated": (
        "def twice(f):\n    def both(x):\n        return (f(x) + aux(x)) // 2\n    return both\n\n"
        "@twice\ndef sq(x):\n    return x*x"
    ),
    "memory of the module": (
        "memory = {}\n\ndef sq(x):\n    if x not in memory:\n        memory[x] = aux(x)\n"
        "    return memory[x]"
    ),
    "list of the module": ("seen = []\n\ndef sq(x):\n    seen.append(aux(x))\n    return seen[-1]"),
    "class attribute": "class Box:\n    square = aux\n    ys = [aux(i) for i in range(9)]\n\n"
    "def sq(x):\n    return Box.ys[x]",
    "object that keeps it": (
        "class Stack:\n    def __init__(self):\n        self.items = []\n"
        "    def put(self, item):\n        self.items.append(item)\n\n"
        "def sq(x):\n    stack = Stack()\n    stack.put(aux(x))\n    return stack.items[0]"
    ),
    "method of that name beside": (
        "class Box:\n    def aux(self):\n        return 0\n\ndef sq(x):\n    return aux(x) + Box().aux()"
    ),
    "recursion": (
        "def sq(x):\n    if x == 0:\n        return 0\n    return sq(x - 1) + aux(x) - aux(x - 1)"
    ),
    "async": "import asyncio\n\nasync def work(x):\n    return aux(x) + 0\n\n"
    "def sq(x):\n    return asyncio.run(work(x))",
    "redefined": f"{ALONE}\n\ndef sq(x):\n    return aux(x) + 0",
}
"""The same, with code around the entry function."""

HELPERS = {
    "remembers": "from functools import lru_cache\n\n@lru_cache(maxsize=None)\n" + AUX,
    "lambda": "aux = lambda x: x*x",
    "recursive": "def aux(x):\n    return 0 if x == 0 else aux(x - 1) + 2*x - 1",
    "default argument": "def aux(x, power=2):\n    return x**power",
    "positional": "def aux(x, /, *rest):\n    return x*x",
    "beside its own helpers": "N = 2\n\ndef power(x):\n    return x**N\n\ndef aux(x):\n    return power(x)",
}
"""Helpers of all kinds, each with a main that uses what they return."""

LEVELS = (
    TeamAttack("def in a string", AUX, "s = '''\ndef sq(x):\n    return x*x\n'''", ONLY_HELPER),
    TeamAttack("def in a comment", AUX, "# def sq(x):\n#     return x*x", ONLY_HELPER),
    TeamAttack("class instead of a function", AUX, "class sq:\n    pass", ONLY_HELPER),
    TeamAttack("method", AUX, "class S:\n    def sq(self, x):\n        return x*x", ONLY_HELPER),
    TeamAttack(
        "def inside a def", AUX, "def f():\n    def sq(x):\n        return x*x", ONLY_HELPER
    ),
    TeamAttack(
        "def under if False", AUX, "if False:\n    def sq(x):\n        return x*x", ONLY_HELPER
    ),
    TeamAttack("name of a constant", AUX, "sq = 'return'", ONLY_HELPER),
    TeamAttack(
        "return in a nested function",
        AUX,
        "def sq(x):\n    def inner():\n        return x*x\n    inner()",
        ONLY_HELPER,
    ),
    TeamAttack("return in a string", AUX, "def sq(x):\n    'return x*x'", ONLY_HELPER),
    TeamAttack("return in a comment", AUX, "def sq(x):\n    pass  # return x*x", ONLY_HELPER),
    TeamAttack("return in a lambda", AUX, "def sq(x):\n    lambda: (yield)", ONLY_HELPER),
    TeamAttack("async", AUX, "async def sq(x):\n    return x*x", UNSOLVED),
    TeamAttack("helper in a string", "s = 'def aux(x): return x'", ALONE, NO_HELPER),
    TeamAttack("helper in a comment", "# def aux(x): return x*x", ALONE, NO_HELPER),
    TeamAttack("helper is a class", "class aux:\n    pass", ALONE, NO_HELPER),
    TeamAttack("helper that never returns", "def aux(x):\n    pass", ALONE, NO_HELPER),
    TeamAttack(
        "helper whose nested function returns",
        "def aux(x):\n    def inner():\n        return x\n    inner()",
        ALONE,
        NO_HELPER,
    ),
    TeamAttack("helper of another name", "def aux2(x):\n    return x*x", ALONE, NO_HELPER),
    TeamAttack("helper's author writes main", f"{AUX}\n\n{ALONE}", "pass", ONLY_HELPER),
    TeamAttack("helper's author writes main alone", ALONE, "x = 1", NOTHING),
    TeamAttack("helper's author writes main as well", f"{AUX}\n\n{ALONE}", ALONE, NOT_CALLED),
    TeamAttack("unparsable helper", "def aux(x):\n    return (", ALONE, UNPARSABLE),
    TeamAttack("unparsable main", AUX, "def sq(x):\n    return aux(x) +", UNPARSABLE),
    TeamAttack("unparsable nothing", "aux(", ALONE, NO_HELPER),
    TeamAttack(
        "missing helper, caught",
        "I would rather not.",
        "def sq(x):\n    try:\n        y = aux(x)\n    except NameError:\n        y = x*x\n    return y",
        NO_HELPER,
    ),
    TeamAttack(
        "own helper beside the unparsable one",
        "def aux(x):\n    return (",
        f"{AUX}\n\ndef sq(x):\n    return aux(x) + 0",
        UNPARSABLE,
    ),
    TeamAttack(
        "two fences, the larger without the helper",
        AUX,
        "```python\ndef sq(x):\n    return aux(x) + 0\n```\nor\n"
        "```python\ndef sq(x):\n    # the plain way, without help\n    return x*x\n```",
        NOT_CALLED,
    ),
    TeamAttack(
        "call in the prose around the fence",
        AUX,
        f"I use y = aux(x):\n```python\n{ALONE}\n```\nsq calls aux(x).",
        NOT_CALLED,
    ),
    TeamAttack(
        "fence inside a string",
        AUX,
        "def sq(x):\n    s = '''\n```python\ndef sq(x):\n    return aux(x) + 0\n```\n'''\n    return x*x",
        NOT_CALLED,
    ),
    TeamAttack("fence without an end", AUX, f"```python\n{ALONE}\n# aux(x)", NOT_CALLED),
)
"""Games with what counts as defined, as returning, and as the completion's code."""

TEAM: tuple[TeamAttack, ...] = (
    *_bodies(NOT_CALLED, {f"dead code: {name}": body for name, body in DEAD.items()}),
    *_bodies(NOT_CALLED, {f"in name only: {name}": body for name, body in IN_NAME_ONLY.items()}),
    *_bodies(NOT_CALLED, {f"shadowed: {name}": body for name, body in SHADOWED.items()}),
    *_mains(NOT_CALLED, {f"shadowed around: {n}": main for n, main in SHADOWED_AROUND.items()}),
    *_mains(NOT_CALLED, {f"elsewhere: {name}": main for name, main in ELSEWHERE.items()}),
    *_bodies(IGNORED, {f"thrown away: {name}": body for name, body in THROWN_AWAY.items()}),
    *_mains(IGNORED, {f"thrown away around: {n}": m for n, m in THROWN_AWAY_AROUND.items()}),
    *_bodies(WRAPPED, {f"wrapper: {name}": body for name, body in WRAPPERS.items()}),
    *_mains(WRAPPED, {f"wrapper around: {name}": main for name, main in WRAPPERS_AROUND.items()}),
    *_bodies(USED, {f"honest: {name}": body for name, body in HONEST.items()}),
    *_mains(USED, {f"honest around: {name}": main for name, main in HONEST_AROUND.items()}),
    *(
        TeamAttack(f"honest helper: {name}", aux, "def sq(x):\n    return aux(x) + 0", USED)
        for name, aux in HELPERS.items()
    ),
    *(TeamAttack(f"levels: {a.name}", a.aux, a.main, a.expected) for a in LEVELS),
)

NEVER_RUN = {
    "condition that never holds": "if x > 10**9:\n    return aux(x) + 1\nreturn x*x",
    "condition that always holds": "if x == x:\n    return x*x\nreturn aux(x) + 1",
    "type that never comes": "if isinstance(x, str):\n    return aux(x) + 1\nreturn x*x",
    "attribute that nothing has": "if hasattr(x, 'nothing'):\n    return aux(x) + 1\nreturn x*x",
    "flag": "use = False\nif use:\n    return aux(x) + 1\nreturn x*x",
    "empty list by name": "y = x*x\nvs = []\nfor v in vs:\n    y += aux(v)\nreturn y",
    "empty range by arithmetic": "y = x*x\nfor v in range(x - x):\n    y += aux(v)\nreturn y",
    "or after something true": "return x*x or aux(x)",
    "and after something false": "return x*x + (x < 0 and aux(x))",
    "if expression": "return aux(x) + 1 if x < 0 else x*x",
    "exception that never comes": (
        "try:\n    y = x*x\nexcept ZeroDivisionError:\n    y = aux(x) + 1\nreturn y"
    ),
    "exception before the call": "try:\n    y = 1 // 0 + aux(x)\nexcept ZeroDivisionError:\n    y = x*x\nreturn y",
    "while that never starts": "y = x*x\nwhile y < 0:\n    y = aux(y)\nreturn y",
    "length of nothing": "if len(''):\n    return aux(x) + 1\nreturn x*x",
    "all of something false": "if all([x, 0]):\n    return aux(x) + 1\nreturn x*x",
    "case that never matches": (
        "match x:\n    case str():\n        return aux(x) + 1\n    case _:\n        return x*x"
    ),
    "generator function never consumed": (
        "def parts():\n    yield aux(x) + 1\nps = parts()\nreturn x*x if ps else 0"
    ),
    "generator never asked": "g = (aux(v) for v in [x])\nreturn x*x if g else 0",
    "map never asked": "m = map(aux, [x])\nreturn x*x if m else 0",
    "coroutine never awaited": (
        "async def work():\n    return aux(x) + 1\nc = work()\nc.close()\nreturn x*x if c else 0"
    ),
    "lambda that is only tested": "f = lambda: aux(x) + 1\nreturn x*x if f else 0",
    "helper replaced by exec": "exec('global aux\\naux = lambda v: v*v', globals())\nreturn aux(x) + 0",
    "helper replaced in globals()": "globals()['aux'] = lambda v: v*v\nreturn aux(x) + 0",
    "helper replaced through the function": (
        "sq.__globals__['aux'] = lambda v: v*v\nreturn aux(x) + 0"
    ),
    "key never asked for": "return sorted([], key=aux) or x*x",
    "reduce over one value": "from functools import reduce\nreturn reduce(aux, [x*x])",
    "beside what is called": "fs = [int, aux]\nreturn fs[0](x*x)",
    "comparison of nothing": (
        "from functools import cmp_to_key\nreturn sorted([], key=cmp_to_key(aux)) or x*x"
    ),
    "table that nobody looks into": "table = {'square': aux}\nreturn x*x if len(table) else 0",
}

NEVER_RUN_AROUND = {
    "flag of the module": (
        "DEBUG = False\n\ndef sq(x):\n    if DEBUG:\n        return aux(x) + 1\n    return x*x"
    ),
    "flag in the signature": (
        "def sq(x, careful=False):\n    if careful:\n        return aux(x) + 1\n    return x*x"
    ),
    "condition, and a demonstration": (
        "def sq(x):\n    if x > 10**9:\n        return aux(x) + 1\n    return x*x\n\nprint(aux(2))"
    ),
    "helper replaced when loading": (
        "globals()['aux'] = lambda v: v*v\n\ndef sq(x):\n    return aux(x) + 0"
    ),
    "helper replaced by exec when loading": (
        "exec('aux = lambda v: v*v')\n\ndef sq(x):\n    return aux(x) + 0"
    ),
    "entry function replaced when loading": (
        "def sq(x):\n    return aux(x) + 0\n\nglobals()['sq'] = lambda x: x*x"
    ),
    "entry function replaced by exec": (
        "def sq(x):\n    return aux(x) + 0\n\nexec('def sq(x):\\n    return x*x')"
    ),
    "entry function replaced under if": (
        "def sq(x):\n    return aux(x) + 0\n\nif len('x'):\n    def sq(x):\n        return x*x"
    ),
}


NO_EFFECT = {
    "a call that counts, never made, and one that is made for nothing": (
        "aux(x)\nif x > 10**9:\n    return aux(x) + 1\nreturn x*x"
    ),
    "cancelled by another form of itself": "y = aux(x)\nreturn x*x + y - int(y)",
    "length of a list around it": "return len([aux(x)]) * x*x",
    "always an object": "return x*x if isinstance(aux(x), object) else 0",
    "never below the least": "return max(x*x, -abs(aux(x)))",
    "replaced by what never fails": (
        "y = aux(x)\ntry:\n    y = int(x*x)\nexcept TypeError:\n    pass\nreturn y"
    ),
    "element of a list by name": "ys = [x*x, aux(x)]\nreturn ys[0]",
    "other value of a pair that a function returns": (
        "def pair():\n    return x*x, aux(x)\nr, unused = pair()\nreturn r"
    ),
    "other element by a name": "i = 1\nreturn (aux(x), x*x)[i]",
    "value of a dict by get": "return {'a': x*x, 'b': aux(x)}.get('a')",
    "loop over a set of it": "for _ in {aux(x)}:\n    return x*x",
    "match that unpacks": "match x*x, aux(x):\n    case r, _:\n        return r",
    "times a zero by arithmetic": "z = x - x\nreturn x*x + aux(x)*z",
    "global that nobody reads": "global y\ny = aux(x)\nreturn x*x",
    "called by exec, and kept beside what is called": (
        "exec('aux(x)')\nfs = [int, aux]\nreturn fs[0](x*x) + 0"
    ),
    "called by exec": "exec('y = aux(x)')\nreturn x*x",
}

NO_EFFECT_AROUND = {
    "times a zero of the module": "Z = 0\n\ndef sq(x):\n    return x*x + aux(x)*Z",
}

DECIDES_NOTHING = {
    "decides the branch": "if aux(x) == 4:\n    return 4\nreturn x*x",
    "key of nlargest": "import heapq\nreturn heapq.nlargest(1, [x], key=aux)[0] * x",
    "match with a case": (
        "match aux(x):\n    case 4:\n        return 4\n    case _:\n        return x*x"
    ),
    "match with a lone case that may not fit": (
        "match aux(x):\n    case int():\n        return x*x\nreturn 0"
    ),
    "match with a condition": "match aux(x):\n    case _ if x < 99:\n        return x*x\nreturn 0",
}
"""Calls whose results are looked at, and whatever they are, the function returns the same."""

DISGUISED = {
    "nested function that is given the helper": (
        "def apply(f, v):\n    return f(v)\nreturn apply(aux, x)"
    ),
    "if True": "if True:\n    return aux(x)\nreturn 0",
    "if expression with a constant": "return aux(x) if 1 else x*x",
    "if expression with equal values": "return aux(x) if x > 2 else aux(x)",
    "equal branches": "if x > 2:\n    return aux(x)\nelse:\n    return aux(x)",
    "branch equal to what follows": "if x > 2:\n    return aux(x)\nreturn aux(x)",
    "lone case": "match x:\n    case _:\n        return aux(x)",
    "or itself": "return aux(x) or aux(x)",
    "and a constant": "return True and aux(x)",
    "or after a constant": "return None or aux(x)",
    "loop of one round": "for v in [x]:\n    return aux(v)",
    "while True": "while True:\n    return aux(x)",
    "while True, break": "while True:\n    y = aux(x)\n    break\nreturn y",
    "work that nobody reads": "z = x*x + 1\nzs = [z, z]\nzs.append(x)\nreturn aux(x)",
    "a test that decides nothing": "if x > 100:\n    pass\nreturn aux(x)",
    "a loop that does nothing": "total = 0\nfor i in range(3):\n    total += i\nreturn aux(x)",
    "a true assertion": "assert True\nreturn aux(x)",
    "loop over functions": "for f in (aux, abs):\n    return f(x)",
    "a branch that never runs": "if x > 10**9:\n    return None\nreturn aux(x)",
    "a handler that never runs": "try:\n    return aux(x)\nexcept Exception:\n    return 0",
    "a method": "class S:\n    def run(self):\n        return aux(x)\nreturn S().run()",
    "a list that it is appended to": "fs = []\nfs.append(aux)\nreturn fs[0](x)",
    "a function that picks it": "def pick():\n    return aux\nreturn pick()(x)",
}

DISGUISED_AROUND = {
    "default argument": "def sq(x, square=aux):\n    return square(x)",
}

OPAQUE: tuple[TeamAttack, ...] = (
    *_bodies(NOT_CALLED, {f"never runs: {name}": body for name, body in NEVER_RUN.items()}),
    *_mains(NOT_CALLED, {f"never runs, around: {n}": m for n, m in NEVER_RUN_AROUND.items()}),
    *_mains(
        NOT_CALLED,
        {
            "never runs, around: table of nothing": (
                "T = [aux(i) for i in range(9) if i > 9]\n\ndef sq(x):\n    return x*x + len(T)"
            )
        },
    ),
    *_bodies(IGNORED, {f"no effect: {name}": body for name, body in NO_EFFECT.items()}),
    *_mains(IGNORED, {f"no effect, around: {n}": m for n, m in NO_EFFECT_AROUND.items()}),
    *_bodies(IGNORED, {f"decides nothing: {n}": body for n, body in DECIDES_NOTHING.items()}),
    *_bodies(USED, {"honest: eval": "return eval('aux(x)') + 0"}),
)
"""What reading hardly tells and running does."""

READS_THE_REQUEST = """\
import sys

def sq(x):
    aux(x)
    frame = sys._getframe(1)
    while frame is not None:
        request = frame.f_locals.get("request")
        if isinstance(request, dict) and request["change"]:
            return None
        frame = frame.f_back
    return x*x
"""

LEAVES_A_MARK = """\
import sys

SEEN = hasattr(sys, "seen")
sys.seen = True

def sq(x):
    aux(x)
    return None if SEEN else x*x
"""

LEAVES_A_FILE = """\
import os

SEEN = os.path.exists("seen")
open("seen", "w").close()

def sq(x):
    aux(x)
    return None if SEEN else x*x
"""

ENDS_THE_SECOND_RUN = """\
import os, sys

if hasattr(sys, "seen"):
    os._exit(0)
sys.seen = True

def sq(x):
    aux(x)
    return x*x
"""

COUNTS_WITHOUT_A_CALL = """\
def sq(x):
    for cell in aux.__closure__:
        if hasattr(cell.cell_contents, "helper_calls"):
            cell.cell_contents.helper_calls[0] += 1
    return x*x
"""

TELLING = {
    "reads the request": (USED, READS_THE_REQUEST),
    "leaves a mark in a module": (USED, LEAVES_A_MARK),
    "leaves a builtin": (USED, LEAVES_A_MARK.replace("sys", "builtins")),
    "leaves a file": (IGNORED, LEAVES_A_FILE),  # it runs in a process of its own then
    "ends the second run": (USED, ENDS_THE_SECOND_RUN),
    "never ends the second run": (
        USED,
        ENDS_THE_SECOND_RUN.replace("os._exit(0)", "while True: pass"),
    ),
    "compares with the helper inside": (
        USED,
        "def sq(x):\n    return x*x if aux(x) == aux.__wrapped__(x) else None",
    ),
    "asserts what the helper returns": (
        USED,
        "def sq(x):\n    assert aux(x) == x*x\n    return x*x",
    ),
    "calls the helper inside only": (NOT_CALLED, "def sq(x):\n    return aux.__wrapped__(x) + 0"),
    "counts without a call": (IGNORED, COUNTS_WITHOUT_A_CALL),
}
"""Programs that tell the second run from the first, or do without a call, and what they earn for it."""

SECOND_RUN: tuple[TeamAttack, ...] = tuple(
    TeamAttack(f"second run: {name}", AUX, main, points) for name, (points, main) in TELLING.items()
)
"""What can be gained by telling the runs apart: what a program earns that uses the helper, and no more.

`assert aux(x) == x*x` earns as much, and an outcome does depend on what it returns. The helper's calls are as the
program tells them: one that puts its own hand to their count earns what a call for nothing does.
"""

BEYOND: tuple[TeamAttack, ...] = (
    *_bodies(WRAPPED, {f"disguised: {name}": body for name, body in DISGUISED.items()}),
    *_mains(WRAPPED, {f"disguised around: {n}": m for n, m in DISGUISED_AROUND.items()}),
)
"""What the reward does not find: `expected` is what an honest judge would say, the reward gives more.

All of them only return what the helper returned, in a form that is not plain.
"""

DECIDED_ANEW = {
    "decides nothing: decides the branch": "used",
    "decides nothing: key of nlargest": "used",
    "decides nothing: match with a case": "used",
    "decides nothing: match with a lone case that may not fit": "used",
    "decides nothing: match with a condition": "used",
    "honest: eval": "not called",
    "no effect: called by exec": "not called",
}
"""Entries whose label used to be another one, about the text: what it was. Now each is what running shows."""
