"""The roles of a team that writes a chain of steps: each agent knows its own steps, and the types of the others'.

The chain is cut into as many shares as there are agents. `main_0` writes the program's entry function `main` with
the steps of its share; `main` calls a helper's function for each other share. A helper does not know the steps of
`main`, and `main_0` does not know those of a helper. In a team of one, `main_0` has the share and the knowledge of
a pair's `main_0`.

A *convention* is something that the prompt leaves open, so that both sides must choose it alike:

| convention | open                                               |
|------------|----------------------------------------------------|
| `none`     | nothing: the helper is `aux(x)`                    |
| `name`     | the helper's name, one of three                    |
| `encoding` | the format in which the helper returns two numbers |

Whether both agree on a name is decided by the text of their code (`HelperRole.agrees`), before it runs. A `main`
that accepts every name has not agreed on one. A `main` may read several formats of an encoding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from llm_decpomdp.envs.compose.chains import IN_WORDS, PAIR, Chain
from llm_decpomdp.envs.compose.tasks import ENTRY_POINT, MAX_AGENTS, ComposeTask
from llm_decpomdp.envs.feedback.code_mode import SIMULTANEOUS, Writer
from llm_decpomdp.envs.source_code.completion import CompletionReader, Reading, read
from llm_decpomdp.envs.source_code.functions import global_names, remove_bindings
from llm_decpomdp.envs.source_code.parsing import find_function
from llm_decpomdp.validation import check_whole

HELPER = "aux"

NAMES = ("alpha", "beta", "gamma")
"""Possible names of a helper with the convention `name`."""

ATOMS = (ast.Name, ast.Call, ast.Subscript, ast.List, ast.ListComp)
"""Expressions that need no parentheses inside another one."""


@dataclass(frozen=True)
class HelperRole(Writer):
    """Writes the function of one share, which the entry function calls."""

    number: int
    team: int
    """Number of agents."""
    convention: str = "none"

    @property
    def agent(self) -> str:
        """The agent's id."""
        return f"aux_{self.number}"

    @property
    def names(self) -> tuple[str, ...]:
        """Possible names of its function, numbered if there are several helpers."""
        stems = NAMES if self.convention == "name" else (HELPER,)
        return stems if self.team == 2 else tuple(f"{stem}_{self.number}" for stem in stems)

    @property
    def label(self) -> str:
        """Name in feedback."""
        return self.names[0] if len(self.names) == 1 else "the helper"

    @property
    def title(self) -> str:
        """Name of its implementation."""
        return f"{self.label} "

    def request(self, task: ComposeTask) -> str:
        """Return the name of the code in a request to revise it."""
        return "function" if len(self.names) > 1 else f"{self.names[0]}(...)"

    def position(self, task: ComposeTask) -> int:
        """Return the index of its share."""
        return self.number + (self.number >= _entry_position(task, self.team))

    def share(self, task: ComposeTask) -> Chain:
        """Return its steps."""
        return task.shares(self.team)[self.position(task)]

    def name(self, completion: str) -> str:
        """Return the name of the function in a completion; the first of `names` if there is none, or two."""
        # Reading a hostile text takes a moment: not twice where there is no choice.
        return self._chosen(completion)[0] if len(self.names) > 1 else self.names[0]

    def read(self, task: ComposeTask, completion: str) -> Reading:
        """Read a completion; if it defines two of `names`, it counts as having no function."""
        return self._chosen(completion)[1]

    def _chosen(self, completion: str) -> tuple[str, Reading]:
        team = (HelperRole(i, self.team, self.convention) for i in range(self.team - 1))
        taken_names = {name for helper in team if helper != self for name in helper.names}
        reader = CompletionReader(completion, {ENTRY_POINT, *taken_names}, self.opening)
        name = reader.best_name(self.names)
        reading = reader.read(name)
        alternatives = [alternative for alternative in self.names if alternative != name]
        if reading.problem or not reading.defined or not alternatives:
            return name, reading
        # A function under two names has not chosen one.
        if any(find_function(reading.code, alternative) for alternative in alternatives):
            return self.names[0], replace(reading, code="", defined=False, returns=False)
        code = remove_bindings(reading.code, alternatives)  # such as `beta = alpha`
        return name, replace(reading, code=code)

    @property
    def opening(self) -> str:
        """The end of the first prompt, which the answer may continue."""
        return "def" if self.convention == "name" else f"def {self.names[0]}(x):\n    return"

    def agrees(self, name: str, code: str) -> bool:
        """Check that the entry function's code refers to this one of `names` and to no other.

        Code refers to a name that it reads and does not bind itself, whether or not that line ever runs.
        """
        return len(self.names) == 1 or global_names(code) & {*self.names} == {name}

    def reference(self, task: ComposeTask) -> str:
        """Return its steps as code, which returns a pair as a tuple."""
        return f"def {self.drawn_name(task)}(x):\n    return {_nest_steps(self.share(task), 'x')}\n"

    def drawn_name(self, task: ComposeTask) -> str:
        """Return the function's name in both references of a task; all names are equally frequent."""
        return self.names[task.place // 2 % len(self.names)]

    def instructions(self, task: ComposeTask, timing: str = SIMULTANEOUS) -> str:
        """Return the first prompt, which never says when team-mates write."""
        chain, name = self.share(task), self.names[0]
        source, caller = IN_WORDS[chain[0].source], f"A team-mate's function `{ENTRY_POINT}`"
        opening = f"Write the Python function `{name}(x)`. {caller} calls it."
        result = "Return the result of"
        if self.convention == "name":
            choice = _rotate_names(self.names, task.index)
            opening = f"Write a Python function of x and name it {choice}. {caller} calls it."
        elif self.convention == "encoding":
            result = "Return two integers, red and blue, in a form of your choice"
        return _prompt(opening, f"x is {source}. {result}", _describe_steps(chain), self.opening)


@dataclass(frozen=True)
class EntryRole(Writer):
    """Writes the entry function."""

    team: int
    convention: str = "none"
    agent: str = "main_0"
    label: str = ENTRY_POINT

    @property
    def helpers(self) -> tuple[HelperRole, ...]:
        """The team-mates."""
        return tuple(HelperRole(i, self.team, self.convention) for i in range(self.team - 1))

    @property
    def title(self) -> str:
        """Name of its implementation."""
        return f"{ENTRY_POINT} "

    @property
    def opening(self) -> str:
        """The end of the first prompt, which the answer may continue."""
        return f"def {ENTRY_POINT}(x):\n    return"

    def request(self, task: ComposeTask) -> str:
        """Return the name of the code in a request to revise it."""
        return f"{ENTRY_POINT}(...)"

    def read(self, task: ComposeTask, completion: str) -> Reading:
        """Read a completion."""
        helper_names = {name for helper in self.helpers for name in helper.names}
        return read(completion, ENTRY_POINT, helper_names, self.opening)

    def authors(self, task: ComposeTask) -> Iterator[tuple[Role | None, Chain]]:
        """Yield each share of the chain with its author; in a team of one, the helper's share has none."""
        helpers = iter(self.helpers)
        for position, chain in enumerate(task.shares(max(self.team, 2))):
            is_own = position == _entry_position(task, self.team)
            yield self if is_own else next(helpers, None), chain

    def reference(self, task: ComposeTask) -> str:
        """Return its steps as code, with calls for the helpers' steps; in a team of one, all steps."""
        lines, value = [], "x"
        for author, chain in self.authors(task):
            if isinstance(author, HelperRole):
                value = f"{author.drawn_name(task)}({value})"
                continue
            if chain[0].source == PAIR:
                lines.append(f"red, blue = {value}")
            value = _nest_steps(chain, value)
        return "\n    ".join([f"def {ENTRY_POINT}(x):", *lines, f"return {value}\n"])

    def instructions(self, task: ComposeTask, timing: str = SIMULTANEOUS) -> str:
        """Return the first prompt, which never says when team-mates write."""
        lines: list[str] = []
        for author, chain in self.authors(task):
            if isinstance(author, EntryRole):
                lines += [step.statement() for step in chain]
            else:
                lines.append(_call(author, chain, task))
        opening = f"Write the Python function `{ENTRY_POINT}(x)`."
        about = f"x is {IN_WORDS[task.chain[0].source]}. Return the result of these steps"
        return _prompt(opening, about, _numbered(lines), self.opening)


Role = HelperRole | EntryRole


def compose_team(num_agents: int, convention: str = "none") -> tuple[Role, ...]:
    """Return the roles of a team, the entry function's author last.

    Raises:
        ValueError: If `num_agents` is no whole number from 1 to 8.
    """
    check_whole("num_agents", num_agents, 1, MAX_AGENTS)
    entry = EntryRole(num_agents, convention)
    return (*entry.helpers, entry)


def _entry_position(task: ComposeTask, num_agents: int) -> int:
    """Return the index of the share whose author writes the entry function."""
    return task.place % max(num_agents, 2)


def _nest_steps(chain: Chain, value: str) -> str:
    for step in chain:
        # Parentheses only where the next expression would bind more tightly.
        atom = isinstance(ast.parse(value, mode="eval").body, ATOMS)
        value = step.expression(value if atom else f"({value})")
    return value


def _rotate_names(names: Sequence[str], start: int) -> str:
    # Tasks and agents begin the list with different names, so "take the first one" is not a valid convention.
    listed = [f"`{names[(start + i) % len(names)]}`" for i in range(len(names))]
    return f"{', '.join(listed[:-1])} or {listed[-1]}"


def _describe_steps(chain: Chain) -> str:
    words = [step.statement() for step in chain]
    return f" {words[0]}." if len(words) == 1 else _numbered(words)


def _numbered(lines: Sequence[str]) -> str:
    return "".join(f"\n{number}. {line}" for number, line in enumerate(lines, 1))


def _call(helper: HelperRole | None, chain: Chain, task: ComposeTask) -> str:
    """Return a helper's share as the entry function's author may know it: types, no steps."""
    source, target = IN_WORDS[chain[0].source], IN_WORDS[chain[-1].target]
    if helper is None:
        return f"a step that nobody tells you: it takes {source} and returns {target}"
    name, form = f"`{helper.names[0]}`, which a team-mate writes", ""
    if helper.convention == "name":
        name = (
            f"a team-mate's function, whose name is {_rotate_names(helper.names, task.index + 1)}"
        )
    elif helper.convention == "encoding":
        form = ", in a form that the team-mate chooses"
    return f"call {name}: it takes {source} and returns {target}{form}"


def _prompt(opening: str, about: str, words: str, header: str) -> str:
    return f"{opening}\n{about}:{words}\nAnswer with code only, beginning with:\n{header}"
