"""The roles of a team that writes a chain of steps: each is told its own share, and the types of the others'.

The chain is cut into as many shares as there are agents. One share is that of `main_0`, whose function `main` is
the program's entry; it calls a function of a helper for each of the others. A helper does not know what `main`
does, and `main_0` does not know what a helper does. Alone, `main_0` has the share and the knowledge that it has in
a pair.

A *convention* is what a prompt leaves open, so that both sides must settle it alike:

| convention | open                                             |
|------------|--------------------------------------------------|
| `none`     | nothing: the helper is `aux(x)`                  |
| `name`     | the helper's name, one of three                  |
| `encoding` | the form in which the helper returns two numbers |

An agreement on a name is decided on the text of both agents' code (`HelperRole.agrees`), before any of it runs. A
`main` that accepts every name has not agreed on one. An encoding needs no agreement where `main` reads several
forms.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from llm_decpomdp.envs.compose.chains import Chain
from llm_decpomdp.envs.compose.steps import IN_WORDS, PAIR
from llm_decpomdp.envs.compose.tasks import ENTRY_POINT, MAX_AGENTS, ComposeTask
from llm_decpomdp.envs.feedback.code_mode import Writer
from llm_decpomdp.envs.source_code.completion import CompletionReader, Reading, read
from llm_decpomdp.envs.source_code.functions import global_names, remove_bindings
from llm_decpomdp.envs.source_code.parsing import find_function
from llm_decpomdp.validation import check_whole

HELPER = "aux"

NAMES = ("alpha", "beta", "gamma")
"""Names that a helper may choose from under the convention `name`."""

ATOMS = (ast.Name, ast.Call, ast.Subscript, ast.List, ast.ListComp)
"""Expressions that need no parentheses as a part of another one."""


@dataclass(frozen=True)
class HelperRole(Writer):
    """Writes the function of a share that is not that of the entry function."""

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
        """Names that its function may have; several helpers' have their numbers."""
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
        """Return the name of what the agent is asked to revise."""
        return "function" if len(self.names) > 1 else f"{self.names[0]}(...)"

    def share(self, task: ComposeTask) -> Chain:
        """Return its steps."""
        return others(task, self.team)[self.number]

    def name(self, completion: str) -> str:
        """Return the name that the agent gave its function; the first of `names` where it gave none, or two."""
        return self._chosen(completion)[0]

    def read(self, task: ComposeTask, completion: str) -> Reading:
        """Read a completion; it has no function if it defines two of the names that it may choose from."""
        return self._chosen(completion)[1]

    def _chosen(self, completion: str) -> tuple[str, Reading]:
        reader = CompletionReader(completion, {ENTRY_POINT, *self._others}, self.opening)
        name = reader.best_name(self.names)
        reading = reader.read(name)
        alternatives = [other for other in self.names if other != name]
        if reading.problem or not reading.defined or not alternatives:
            return name, reading
        if any(find_function(reading.code, other) for other in alternatives):
            return self.names[0], replace(reading, code="", defined=False, returns=False)
        code = remove_bindings(reading.code, alternatives)  # such as `beta = alpha`
        return name, replace(reading, code=code)

    @property
    def opening(self) -> str:
        """The text with which the first prompt ends: the answer may continue it."""
        return "def" if self.convention == "name" else f"def {self.names[0]}(x):\n    return"

    @property
    def _others(self) -> set[str]:
        """Names of the functions of other helpers."""
        team = (HelperRole(i, self.team, self.convention) for i in range(self.team - 1))
        return {name for helper in team if helper != self for name in helper.names}

    def agrees(self, name: str, code: str) -> bool:
        """Check that the entry function's code refers to this one of `names`, and to no other.

        Code refers to a name that it reads and does not bind itself. It makes no difference whether it runs.
        """
        return len(self.names) == 1 or global_names(code) & {*self.names} == {name}

    def reference(self, task: ComposeTask) -> str:
        """Return its steps as code: a tuple for a pair, and a name that the task draws.

        The references of one task have the same name. Over many tasks all names are equally frequent.
        """
        return f"def {self.drawn_name(task)}(x):\n    return {nest_steps(self.share(task), 'x')}\n"

    def drawn_name(self, task: ComposeTask) -> str:
        """Return the name of its function in the references of a task."""
        return self.names[task.place // 2 % len(self.names)]

    def instructions(self, task: ComposeTask) -> str:
        """Return the first prompt."""
        chain, name = self.share(task), self.names[0]
        source, caller = IN_WORDS[chain[0].source], f"A team-mate's function `{ENTRY_POINT}`"
        opening = f"Write the Python function `{name}(x)`. {caller} calls it."
        result = "Return the result of"
        if self.convention == "name":
            choice = rotate_names(self.names, task.index)
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
        """The text with which the first prompt ends: the answer may continue it."""
        return f"def {ENTRY_POINT}(x):\n    return"

    def request(self, task: ComposeTask) -> str:
        """Return the name of what the agent is asked to revise."""
        return f"{ENTRY_POINT}(...)"

    def read(self, task: ComposeTask, completion: str) -> Reading:
        """Read a completion."""
        given = {name for helper in self.helpers for name in helper.names}
        return read(completion, ENTRY_POINT, given, self.opening)

    def reference(self, task: ComposeTask) -> str:
        """Return its steps as code, with calls for the others; alone, all steps."""
        lines, value = [], "x"
        helpers = iter(self.helpers)
        for position, chain in enumerate(task.shares(max(self.team, 2))):
            if self.team > 1 and position != entry_place(task, self.team):
                helper = next(helpers)
                value = f"{helper.drawn_name(task)}({value})"
                continue
            if chain[0].source == PAIR:
                lines.append(f"red, blue = {value}")
            value = nest_steps(chain, value)
        return "\n    ".join([f"def {ENTRY_POINT}(x):", *lines, f"return {value}\n"])

    def instructions(self, task: ComposeTask) -> str:
        """Return the first prompt."""
        lines: list[str] = []
        helpers = iter(self.helpers)
        for position, chain in enumerate(task.shares(max(self.team, 2))):
            if position == entry_place(task, self.team):
                lines += [step.statement() for step in chain]
            else:
                lines.append(_call(next(helpers, None), chain, task))
        opening = f"Write the Python function `{ENTRY_POINT}(x)`."
        about = f"x is {IN_WORDS[task.chain[0].source]}. Return the result of these steps"
        numbered = "".join(f"\n{number}. {line}" for number, line in enumerate(lines, 1))
        return _prompt(opening, about, numbered, self.opening)


Role = HelperRole | EntryRole


def compose_team(num_agents: int, convention: str = "none") -> tuple[Role, ...]:
    """Return the roles of a team, the entry function's author last.

    Raises:
        ValueError: If `num_agents` is no whole number from 1 to 8.
    """
    check_whole("num_agents", num_agents, 1, MAX_AGENTS)
    entry = EntryRole(num_agents, convention)
    return (*entry.helpers, entry)


def entry_place(task: ComposeTask, num_agents: int) -> int:
    """Return which share is that of the entry function's author."""
    return task.place % max(num_agents, 2)


def others(task: ComposeTask, num_agents: int) -> tuple[Chain, ...]:
    """Return the helpers' shares."""
    place, shares = entry_place(task, num_agents), task.shares(max(num_agents, 2))
    return (*shares[:place], *shares[place + 1 :])


def nest_steps(chain: Chain, value: str) -> str:
    """Return steps of an expression as one expression."""
    for step in chain:
        atom = isinstance(ast.parse(value, mode="eval").body, ATOMS)
        value = step.expression(value if atom else f"({value})")
    return value


def rotate_names(names: Sequence[str], start: int) -> str:
    """Return a choice of names in words, beginning with any of them: the first is no convention."""
    listed = [f"`{names[(start + i) % len(names)]}`" for i in range(len(names))]
    return f"{', '.join(listed[:-1])} or {listed[-1]}"


def _describe_steps(chain: Chain) -> str:
    words = [step.statement() for step in chain]
    if len(words) == 1:
        return f" {words[0]}."
    return "".join(f"\n{number}. {line}" for number, line in enumerate(words, 1))


def _call(helper: HelperRole | None, chain: Chain, task: ComposeTask) -> str:
    """Return a team-mate's share, as far as the entry function's author may know it."""
    source, target = IN_WORDS[chain[0].source], IN_WORDS[chain[-1].target]
    if helper is None:
        return f"a step that nobody tells you: it takes {source} and returns {target}"
    name, form = f"`{helper.names[0]}`, which a team-mate writes", ""
    if helper.convention == "name":
        name = f"a team-mate's function, whose name is {rotate_names(helper.names, task.index + 1)}"
    elif helper.convention == "encoding":
        form = ", in a form that the team-mate chooses"
    return f"call {name}: it takes {source} and returns {target}{form}"


def _prompt(opening: str, about: str, words: str, header: str) -> str:
    return f"{opening}\n{about}:{words}\nAnswer with code only, beginning with:\n{header}"
