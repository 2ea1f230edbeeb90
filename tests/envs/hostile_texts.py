"""Texts that take long to read, or much memory, unless what is parsed is bounded."""

from __future__ import annotations

SQ = "def sq(x):\n    y = aux(x)\n    return y + 1"
GOOD = f"{SQ}\n"


def _inside(opening: str, step: int, depth: int, line: str, times: int) -> str:
    """A line, many times, inside of nested blocks."""
    blocks = "".join(" " * (step * i + 1) + opening + "\n" for i in range(depth))
    return "def sq(x):\n" + blocks + (" " * (step * depth + 1) + line + "\n") * times


NESTED = {
    "open brackets": "(" * 5000,
    "nested brackets": "x = " + "(" * 5000 + ")" * 5000,
    "nested blocks": "\n".join(" " * i + "if x:" for i in range(150)) + "\n" + " " * 150 + "pass",
    "nested functions": "\n".join(" " * i + "def sq(x):" for i in range(90))
    + "\n"
    + " " * 90
    + "return aux(x)",
    "nested lambdas, too many": "sq = " + "lambda x: " * 5000 + "x",
    "nested lambdas": "sq = " + "lambda: " * 900 + "aux",
    "nested f-strings": "x = " + "f'{" * 3000,
    "many minuses": "x = " + "-" * 90_000 + "1",
    "nots": "x = " + "not " * 20_000 + "1",
    "long attribute chain": "def sq(x):\n    return x" + ".a" * 30_000,
    "attribute chain": "def sq(x):\n    return x" + ".a" * 900,
    "attribute chain between others": GOOD + "x = 1; x" + ".a" * 480 + "; y = 2",
    "calls of calls": "def sq(x):\n    return aux" + "(x)" * 900,
    "long sum": "def sq(x):\n    return aux(x)" + "+1" * 20_000,
    "powers": "x = " + "2**" * 900 + "2",
    "ways out of with": _inside("with a:", 1, 18, "if x: return", 1500),
    "ways out of async with": "async " + _inside("async with a:", 1, 18, "if x: return", 1500),
    "ways out of except": _inside("try: a\n except E as e:", 0, 1, " if x: return", 2000),
    "finally": "def sq(x):\n"
    + "".join(
        " " * (i + 1) + "try:\n" + " " * (i + 2) + "x\n" + " " * (i + 1) + "finally:\n"
        for i in range(18)
    )
    + " " * 20
    + "return 1",
}

MANY = {
    "statements on one line": GOOD + "x;" * 49_000,
    "statements on one line, fewer": GOOD + "x;" * 3900,
    "chain of targets": GOOD + "a=" * 49_000 + "1",
    "chain of targets, fewer": GOOD + "a=" * 3900 + "1",
    "calls on one line": GOOD + "aux(x);" * 14_000,
    "functions": GOOD + "def f():0\n" * 9000,
    "functions, fewer": GOOD + "def f():0\n" * 1100,
    "methods": "class Sq:\n" + " def f(self):0\n" * 900,
    "classes": GOOD + "class f:0\n" * 1900,
    "lambdas": GOOD + "x = [" + "lambda:0," * 2600 + "]",
    "comprehensions": GOOD + "x = [" + "[a for a in b]," * 900 + "]",
    "decorators": GOOD + "@f\n" * 3900 + "def g():\n    pass",
    "broken decorators": "@\n" * 40_000,
    "imports": GOOD + "import a\n" * 3900,
    "elifs": "def sq(x):\n    if x: return 1\n" + "    elif x: return 1\n" * 4000,
    "elifs, fewer": "def sq(x):\n    if x: return 1\n" + "    elif x: return 1\n" * 1500,
    "elifs outside": GOOD + "if x: pass\n" + "elif x: pass\n" * 1800,
    "comparisons": GOOD + "x<" * 40_000 + "1",
    "elements": GOOD + "x = [" + "1," * 49_000 + "]",
    "keyword arguments": GOOD + "f(" + ",".join(f"a{i}=1" for i in range(1900)) + ")",
    "parameters": "def sq(" + ",".join(f"a{i}=1" for i in range(1900)) + "):\n    return aux(1)",
    "cases": GOOD + "match x:\n" + " case [1, 2, {'a': b, **c}]: 0\n" * 500,
    "keeps calling aux": "def sq(x):\n" + "".join(f"    y{i} = aux(x)\n" for i in range(5000)),
    "names for results": "def sq(x):\n"
    + "".join(f"    y{i} = aux(x)\n" for i in range(1300))
    + "    return y1",
    "wrappers of wrappers": "def sq(x):\n    return f0(x)\n"
    + "".join(
        f"def f{i}(x):\n    a = f{i + 1}(x)\n    b = f{i + 1}(x)\n    return a\n"
        for i in range(300)
    ),
    "methods of one name": "class Sq:\n" + "    def sq(self):\n        return 1\n" * 700,
    "long lines of code": (GOOD + "x = " + "a, " * 33_000)[:99_999],
}

LITERALS = {
    "long line": "x = '" + "a" * 99_000,
    "long text": GOOD + "x = '" + "a" * 99_000 + "'",
    "very long text": GOOD + "x = '" + "a" * 3_000_000 + "'",
    "huge number": "x = " + "9" * 99_000,
    "huge hexadecimal": GOOD + "x = 0x" + "f" * 90_000,
    "huge f-string": GOOD + "x = f'" + "{x}" * 33_000 + "'",
    "f-string": GOOD + "x = f'" + "{x}" * 2600 + "'",
    "f-string of many lines": GOOD + "x = f'''" + "{x}\n" * 2600 + "'''",
    "escapes": GOOD + "x = '" + "\\d" * 45_000 + "'",
    "names of characters": GOOD + "x = '" + "\\N{DIGIT ONE}" * 2500 + "'",
    "texts in a row": GOOD + "x = " + "'a' " * 2600,
    "quotes": "'''" * 30_000,
    "unicode name": GOOD + "\u00aa" * 90_000 + " = 1",
    "ligatures": GOOD + "\ufdfa" * 90_000 + " = 1",
    "emoji": GOOD + "\U0001f600" * 90_000,
    "null byte": GOOD + "\x00",
    "null bytes": "x = 1\x00" * 15_000,
    "lone surrogate": GOOD + "s = '\udc80'",
    "backslashes": "\\\n" * 40_000,
    "line continued": "x = " + "\\\n" * 40_000 + "1",
    "spaces": " " * 100_000,
    "empty lines": "\n" * 100_000,
    "comment": GOOD + "#" + " a" * 49_000,
}

PROSE = {
    "only fences": "```\n" * 20_000,
    "many blocks": "```python\ndef sq(x):\n    return x\n```\nHi there\n" * 2000,
    "blocks that do not parse": "```python\ndef sq(x):\n    return (\n```\n" * 2000,
    "tildes": "~" * 90_000 + "`",
    "tildes and words": "~~~" + "a" * 90_000 + "`",
    "backquotes": "`" * 90_000 + "x",
    "prose that begins like code": "x = 1 is prose here\n" * 5000,
    "little prose that begins like code": "x = 1 is prose here\n" * 400,
    "code and prose in turn": "x = 1\nThis is prose, really\n" * 3000,
    "open calls": "a = (\n" * 15_000,
    "open calls, fewer": "a = (\n" * 700,
    "returns outside": "return 1\n" * 2000,
    "imports that do not parse": "import a b\n" * 5000,
    "headers that do not parse": "def sq(x:\n" * 5000,
    "methods that do not parse": "class Sq:\n" + "    def sq(self:\n        return 1\n" * 700,
    "open calls and empty lines": ("x=(\n" + "\n" * 1980) * 50,
    "lines that do not parse before empty ones": "x=1 1\n" * 150 + "\t\n" * 45_000,
    "special tokens": "<|a|>" * 20_000,
    "special tokens around code": "<|a|>" + GOOD + "x;" * 2500 + "<|b|>",
    "indented": "".join(" " * (i % 90) + "x = 1\n" for i in range(2000)),
    "returns in text": "def sq(x):\n    (\n" + "    : return\n" * 9000,
    "white space after marks": "def sq(x:\n" + ("    ;" + " " * 90) * 1000,
    "words": "word " * 19_999,
    "very many words": "word " * 400_000,
}

DEEP = ("elifs, fewer", "elifs outside", "attribute chain between others")
"""Names of texts that parse, with trees too deep for a walk by recursion."""

HOSTILE = {**NESTED, **MANY, **LITERALS, **PROSE}
"""Every text by its name."""
