"""How the source speaks: docstrings open with a verb or a noun, and names are nouns.

`python -m tests.test_words envs/coding` lists what a folder has of the others.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import pytest

from tests.support.processes import ROOT

SOURCE = ("llm_decpomdp", "envs", "agents", "algorithms", "integrations", "benchmarks")

RELATIVE = set("as how of than that what when where whether which who whom whose why".split())
"""Words that open a relative clause or an indirect question."""

PRONOUNS = set(
    "both each here one other others ours own some theirs there these this those".split()
)
PRONOUNS |= {"what", "which", "who", "whose", "why"}

PARTICIPLES = set(
    "added allowed asked begun broken built called changed chosen counted covered cut done "
    "drawn ended expected exported filled found given gone graded heard held joined kept known "
    "left loaded lost made marked meant measured merged moved named needed noted opened played "
    "printed reached refused removed said saved seen sent shown spent stored submitted taken "
    "told tried used wanted written".split()
)
"""Without the terms of the field: a test has `passed`, a task is `solved`, an episode `truncated`."""

PREPOSITIONS = set("as among at behind beside by for from in of on to under with without".split())
VERBS = set("embed exceed feed need reset seed shed speed spread".split())
"""Verbs that end as participles do."""

MAX_RELATIVE = 0.03
MAX_ODD_FUNCTIONS = 0.02
MAX_NAMES = 0.01


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring, those below assignments included."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        owner = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        for before, statement in zip([None, *body], body, strict=False):
            first = before is None and owner
            if not (first or isinstance(before, (ast.Assign, ast.AnnAssign))):
                continue
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                if isinstance(statement.value.value, str):
                    yield statement.lineno, statement.value.value.strip()


def opens_relative(text: str) -> bool:
    """Whether a docstring opens with a word of `RELATIVE`."""
    return text.split(maxsplit=1)[0].strip("`'\".,:;").lower() in RELATIVE


def stored_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every assignment to a variable."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def modules(folder: str) -> Iterator[tuple[str, ast.AST]]:
    """Path and syntax tree of every module below a folder of the checkout."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def listing(folder: str) -> Iterator[str]:
    """A line for every docstring and name below a folder that is of the other kind."""
    for path, tree in modules(folder):
        for line, text in docstrings(tree):
            if opens_relative(text):
                yield f"{path}:{line}: {text.splitlines()[0]}"
        for line, name in stored_names(tree):
            if name in PRONOUNS | PARTICIPLES:
                yield f"{path}:{line}: {name}"


def test_docstrings_open_with_a_verb_or_a_noun():
    texts = [text for top in SOURCE for _, tree in modules(top) for _, text in docstrings(tree)]
    relative = [text for text in texts if opens_relative(text)]
    assert len(relative) < MAX_RELATIVE * len(texts), f"{len(relative)} of {len(texts)}"


def test_names_are_nouns():
    names = [name for top in SOURCE for _, tree in modules(top) for _, name in stored_names(tree)]
    others = [name for name in names if name in PRONOUNS | PARTICIPLES]
    assert len(others) < MAX_NAMES * len(names), f"{len(others)} of {len(names)}"


def is_odd(name: str) -> bool:
    """Whether the name of a function is a participle, or begins or ends with a preposition."""
    words = name.strip("_").split("_")
    if len(words) > 1 and words[-1] in PREPOSITIONS - {"as", "under"}:
        return True
    if words[0] in PREPOSITIONS - {"for", "from", "on", "to"}:
        return True
    is_participle = words[0].endswith("ed") and words[0] not in VERBS
    return len(words) == 1 and (is_participle or words[0] in {"told", "drawn", "shown", "kept"})


def test_functions_have_the_names_of_the_field() -> None:
    names = [
        node.name
        for top in SOURCE
        for _, tree in modules(top)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    odd = [name for name in names if is_odd(name)]
    assert len(odd) < MAX_ODD_FUNCTIONS * len(names), odd


def test_a_class_name_stands_for_one_thing() -> None:
    places: dict[str, set[str]] = {}
    for top in SOURCE:
        for path, tree in modules(top):
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, set()).add(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


@pytest.mark.parametrize("name", ["costs_of", "_told", "_with_hidden", "merged", "by_key"])
def test_an_odd_name_is_found(name: str) -> None:
    assert is_odd(name) and not is_odd("seed") and not is_odd("from_text")


def test_a_relative_clause_and_a_pronoun_are_found():
    tree = ast.parse('LIMIT = 3\n"""How many there may be."""\nfound = one = LIMIT\n')
    assert [opens_relative(text) for _, text in docstrings(tree)] == [True]
    assert {name for _, name in stored_names(tree)} & (PRONOUNS | PARTICIPLES) == {"found", "one"}


if __name__ == "__main__":
    print("\n".join(line for folder in sys.argv[1:] for line in listing(folder)))
