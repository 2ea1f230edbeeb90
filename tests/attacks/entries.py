"""Loader of the attack corpus; `corpus/README.md` describes the format of its files."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llm_decpomdp.envs.datasets.classeval import class_tests
from llm_decpomdp.envs.sandbox import Program, Tests, instrument
from tests.support.programs import SQUARES

CORPUS = Path(__file__).with_name("corpus")
# Folder of the joint completions of two agents; every other program is the completion of one agent.
TEAMS = "helper_use"
PROGRAM = re.compile(r"^# === (\w+)\n", re.MULTILINE)
HEADER = re.compile(r"# (\w+): (.*)\n")
PART = re.compile(r"^# --- (\w+)\n", re.MULTILINE)
TIMES = re.compile(r"@(\d+) TIMES ('(?:[^'\\]|\\.)*')@")


@dataclass(frozen=True)
class Entry:
    """One program of the corpus, its test, and the result of an honest grader."""

    category: str
    """Path of its file in the corpus, without the suffix."""
    name: str
    completions: Mapping[str, str]
    """Each agent's code; the agent of a program that is alone is `main`."""
    honest: str
    test: str = SQUARES
    entry_point: str = "sq"
    stopped_by: frozenset[str] = frozenset()
    """Layers of which one is needed; empty if the process boundary suffices."""
    earns: str = ""
    """Label of this project's reward where it differs from `honest`."""

    @property
    def tests(self) -> Tests:
        """The test, made ready for the sandbox; also a module of unittest classes."""
        if "TestCase" in self.test:
            return class_tests(self.test, self.entry_point, own=frozenset({"add", "save"}))
        return instrument(self.test, self.entry_point)

    def program(self, code: str) -> Program:
        """Return the program with `code` in place of the main completion."""
        return Program((("main_0", code),), self.entry_point)


def load(path: Path) -> list[Entry]:
    """Read the programs of one file of the corpus."""
    category = path.relative_to(CORPUS).with_suffix("").as_posix()
    # Bytes, as `read_text` would turn other line ends into "\n".
    before, *programs = PROGRAM.split(path.read_bytes().decode())
    assert not before, f"{path} begins with {before[:40]!r}, not with a line '# === NAME'"
    pairs = zip(programs[::2], programs[1::2], strict=True)
    return [_entry(category, name, text.removesuffix("\n")) for name, text in pairs]


def _entry(category: str, name: str, text: str) -> Entry:
    head, *parts = PART.split(text)
    options = dict(HEADER.findall(head))
    options.pop("about", None)
    texts = {
        part: TIMES.sub(_repeat, code) for part, code in zip(parts[::2], parts[1::2], strict=True)
    }
    if "test" in texts:
        options["test"] = texts.pop("test")
    layers = frozenset(options.pop("stopped_by", "").replace(",", " ").split())
    return Entry(category, name, texts, stopped_by=layers, **options)


def _repeat(match: re.Match[str]) -> str:
    text, number = ast.literal_eval(match[2]), int(match[1])
    if "{n}" not in text:
        return text * number
    return "".join(text.replace("{n}", str(n)) for n in range(number))


ALL = {f"{e.category}/{e.name}": e for p in sorted(CORPUS.rglob("*.txt")) for e in load(p)}
# Programs for the sandbox, by category and name.
ENTRIES = {name: entry for name, entry in ALL.items() if entry.category.partition("/")[0] != TEAMS}
# Joint completions for the reward.
TEAM_ENTRIES = {name: entry for name, entry in ALL.items() if name not in ENTRIES}


def _every_fourth(entries: Mapping[str, Entry]) -> list[str]:
    kinds: dict[tuple[object, ...], list[str]] = {}
    for name, entry in entries.items():
        kind = (entry.category, entry.honest, entry.earns, entry.stopped_by)
        kinds.setdefault(kind, []).append(name)
    return [name for names in kinds.values() for name in names[::4]]


# A fourth of each kind of program, for tests that are to be quick: by category, labels and layers.
QUICK_ENTRIES = _every_fourth(ENTRIES)
QUICK_TEAM_ENTRIES = _every_fourth(TEAM_ENTRIES)
