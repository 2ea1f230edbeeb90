"""Loader of the attack corpus; `corpus/README.md` describes the format of its files."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llm_decpomdp.envs.problems.unit_tests import class_tests
from llm_decpomdp.envs.sandbox import Program, Tests, instrument
from tests.support.programs import SQUARES

CORPUS = Path(__file__).with_name("corpus")
TEAMS = "helper_use"
"""Folder of the joint completions of two agents; all other programs are of one."""

HEADER = re.compile(r"# (\w+): (.*)\n")
PART = re.compile(r"^# --- (\w+)\n", re.MULTILINE)
TIMES = re.compile(r"@(\d+) TIMES ('(?:[^'\\]|\\.)*')@")


@dataclass(frozen=True)
class Entry:
    """One file of the corpus: a program, its test, and the verdict of an honest grader."""

    category: str
    """Folder of the file in the corpus."""
    name: str
    completions: Mapping[str, str]
    """Each agent's code; the agent of a program that is alone is `main`."""
    honest: str
    test: str = SQUARES
    entry_point: str = "sq"
    stopped_by: frozenset[str] = frozenset()
    """Layers of which one is needed; empty if the process boundary suffices."""
    earns: str = ""
    """Verdict of this project's reward where it differs from `honest`."""

    @property
    def tests(self) -> Tests:
        """The test, made ready for the sandbox; also a module of unittest classes."""
        if "TestCase" in self.test:
            return class_tests(self.test, self.entry_point, own=frozenset({"add", "save"}))
        return instrument(self.test, self.entry_point)

    def program(self, code: str) -> Program:
        """Return the program with `code` in place of the main completion."""
        return Program((("main_0", code),), self.entry_point)


def load(path: Path) -> Entry:
    """Read one file of the corpus."""
    head, *parts = PART.split(path.read_bytes().decode())
    options = dict(HEADER.findall(head))
    options.pop("about", None)
    texts = {
        name: TIMES.sub(_repeat, text) for name, text in zip(parts[::2], parts[1::2], strict=True)
    }
    if "test" in texts:
        options["test"] = texts.pop("test")
    layers = frozenset(options.pop("stopped_by", "").replace(",", " ").split())
    category = path.parent.relative_to(CORPUS).as_posix()
    return Entry(category, path.stem, texts, stopped_by=layers, **options)


def _repeat(match: re.Match[str]) -> str:
    text = ast.literal_eval(match[2])
    return "".join(text.replace("{n}", str(n)) for n in range(int(match[1])))


ALL = {f"{e.category}/{e.name}": e for e in map(load, sorted(CORPUS.rglob("*.py")))}
ENTRIES = {name: entry for name, entry in ALL.items() if not name.startswith(TEAMS)}
"""Programs for the sandbox, by folder and name."""
TEAM_ENTRIES = {name: entry for name, entry in ALL.items() if name.startswith(TEAMS)}
"""Joint completions for the reward."""
