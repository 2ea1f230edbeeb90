"""The prompts of all families in which agents write code: external modes, and the options of these families.

The external mode writes every prompt. A later prompt is put together from, in this order: the first prompt again
(`original_prompt`), the agent's own last code (`previous_response`), feedback, and a request to revise. No
template is put around it.

| mode             | feedback                                                                          |
|------------------|-----------------------------------------------------------------------------------|
| `level_feedback` | diagnostics: definitions, syntax with line and column, failing tests, use of `aux` |
| `level_passed`   | the same levels as passed or not                                                   |
| `passed`         | one signal: all levels passed, or not all                                          |
| `plain`          | none                                                                               |
| `expert_edits`   | edits by an outside model                                                          |

Line numbers count in the agent's own code. A team-mate's code is never quoted; what leaves it is the outcome of
the tests that `sandbox_slice` shows, with the text of an exception that the joint program raised: one line,
without the markup of chat templates (`foreign_line`), or its type alone with `exception_text=False`.

A family has a table of functions that write its feedback from the reward's analysis.

One text that programs have written gets into prompts: the message of a shown test that failed
(`Outcome.message`). It is the name of an exception's class and its text, which may contain anything: values as
`repr` writes them, operands of a comparison, names, messages of `SyntaxError`. To a tokenizer such a text could
be the end of a message and the beginning of the system's, so its markup is broken up. What programs print gets
into no prompt.
"""

from __future__ import annotations

import builtins
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from typing_extensions import Self

from llm_decpomdp.envs.feedback.experts import Expert, ExpertError, MissingKey, RemoteExpert
from llm_decpomdp.envs.sandbox import Outcome
from llm_decpomdp.interfaces import Info, Role, Turn
from llm_decpomdp.options import Options, option
from llm_decpomdp.validation import unknown

logger = logging.getLogger(__name__)

Item = TypeVar("Item")

MAX_AGENTS = 64


class CodeOptions(Options):
    """Options of a family; the roles, the mode and `DecPOMDPEnv` check those that are not checked here.

    Raises:
        ValueError: If a value is of another type or out of its range.
    """

    num_agents: int = option(2, ge=1)
    """Agents of the team; their roles are up to the environment. The code families take at most 64."""
    num_turns: int = option(2, ge=1)
    """Turns of an episode, at most."""
    external_mode: str = "level_feedback"
    """Feedback after each turn, and about a program that is to be repaired: `level_feedback` (diagnostics),
    `level_passed` (each level passed or not), `passed` (all levels or not), `plain` (nothing), `expert_edits`
    (edits by another model; not for writing), for ClassEval `code_feedback` (diagnostics with all tests), or
    `module:NAME` of your own."""
    sandbox_slice: int | str | None = 1
    """Tests whose outcome feedback may show: n the first n, -n the last n; 0, `None` or `all` for all. Repairs
    show failing tests first. `code_feedback` shows no test and counts all. The reward always counts every test."""
    original_prompt: bool = False
    """Repeat the first prompt in later ones."""
    previous_response: bool = True
    """Show the agent's own last answer in later prompts."""
    exception_text: bool = True
    """Show the text of exceptions, which is a line of the program's, besides their type."""
    expert_model: str | None = None
    """The model that `expert_edits` asks, such as `deepseek-coder`; its name decides whose key is needed: with
    "claude" `ANTHROPIC_API_KEY`, "deepseek" `DEEPSEEK_API_KEY`, "qwen" `DASHSCOPE_API_KEY`, else `OPENAI_API_KEY`
    and optionally `OPENAI_BASE_URL`. Other modes do not use it."""
    expert_base_url: str | None = None
    """Address of an OpenAI-compatible endpoint that serves it, with the key `OPENAI_API_KEY`."""
    on_expert_failure: str = option("raise", choices=("raise", "continue"))
    """If the expert does not answer: `raise` ends the run, `continue` goes on without edits and counts it in the
    infos."""
    split: str = "test"
    """Part of the data, with a slice if wanted: `test`, `test[16:]` or `test[:50%]`."""
    source: str = "auto"
    """`auto`, `hub`, `hub@COMMIT`, `bundled`, or the path of a JSONL, JSON or Parquet file with the hub's columns,
    whose splits are `train`, `test` and `all`, each the whole file."""
    exclude_known_issues: bool = False
    """Leaves out the tasks of the split that are known to be wrong; `metadata` names them with the reasons."""
    stop_when_solved: bool = True
    """End an episode at full marks, before its last turn."""
    discount: float = 1.0
    """Discount factor of the model, in [0, 1]."""
    isolation: str = "best_effort"
    """Protection of the machine from programs: `best_effort` warns of what the system lacks, `require` refuses to
    run them without all layers of protection."""
    render_mode: str | None = None
    """`None`, `ansi` or `human`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_agents > MAX_AGENTS:
            raise ValueError(
                f"num_agents must be at most {MAX_AGENTS}, got {self.num_agents}: the team divides one program, "
                "which has no work for more, so take fewer agents"
            )
        parse_slice(self.sandbox_slice)

    def visible_tests(self, tests: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items of the tests that prompts may show."""
        count = parse_slice(self.sandbox_slice)
        return tuple(tests[count:] if count < 0 else tests[: count or None])


def parse_slice(value: object) -> int:
    """Return `sandbox_slice` as a number: n first tests, -n last, 0 all; None and "all" mean 0.

    Raises:
        ValueError: If `value` is none of these.
    """
    if value is None or (isinstance(value, str) and value.lower() in ("all", "none")):
        return 0
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]+", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(
            f"sandbox_slice must be a whole number (n first tests, -n last), 0, None or 'all', got {value!r}"
        )
    return value


NO_CODE = "<no implementation found>"

SIMULTANEOUS = " at the same time"
"""When team-mates write, in the sentences of first prompts about them; empty if agents act in an order."""

EXPERT = "expert_edits"


class Writer(Role, Protocol):
    """A role whose agent is shown its own code again and asked to revise it."""

    @property
    def original_agent(self) -> str:
        """The agent's id before any user renamed it, by which an expert knows it."""
        return self.agent

    @property
    def title(self) -> str:
        """Name of its implementation, such as `main `, with a space at the end; empty where there is no other."""
        return ""

    def instructions(self, task: Any, timing: str = SIMULTANEOUS) -> str:
        """Return the first prompt; `timing` is when team-mates write."""
        ...

    def request(self, task: Any) -> str:
        """Return the names of what it writes, such as `aux(...)`."""
        ...


Feedback = Mapping[str, Callable[[Any, Any], list[str]]]
"""For each mode the function that writes the lines for a role, given the analysis of the turn.

An analysis is a dataclass with the outcomes `tests`, here those that may be shown. `all_passed` is true if every
level is passed, as far as they show. `code(agent)` is empty where a completion has none of what was asked for."""


def pass_signal(analysis: Any, role: object) -> list[str]:
    """Write one signal for everything."""
    return [f"Signal: {'All levels passed' if analysis.all_passed else 'Not all levels passed'}"]


def plain(analysis: object, role: object) -> list[str]:
    """Write nothing."""
    return []


SHORT_FEEDBACK: Feedback = {"passed": pass_signal, "plain": plain}
"""The feedback that all families share."""


@dataclass(frozen=True)
class CodeMode:
    """Writes prompts with feedback from the verdict, or with edits of each agent's code by an outside model.

    The infos of `expert_edits` count the turns on which the expert failed (`expert_failed`), which is possible
    only with `on_expert_failure="continue"`.

    Raises:
        ValueError: If there is no mode of this name, or no expert where one is needed.
    """

    roles: Sequence[Writer]
    feedback: Feedback
    options: CodeOptions
    wanted: str = "the function code"
    """Content of an answer."""
    hides_tests: bool = False
    """Prompts may name and count all tests, and show none."""
    expert: Expert | None = None
    """The outside model of `expert_edits`; made from the options if it is not given."""
    timing: str = SIMULTANEOUS
    """When team-mates write."""

    def __post_init__(self) -> None:
        names = (*self.feedback, *SHORT_FEEDBACK, EXPERT)
        if self.name not in names:
            raise ValueError(unknown("external_mode", self.name, names))
        if self.name != EXPERT or self.expert is not None:
            return
        if not self.options.expert_model:
            message = "external_mode='expert_edits' needs expert_model, such as 'deepseek-coder'"
            raise ValueError(message)
        try:
            expert = RemoteExpert(self.options.expert_model, base_url=self.options.expert_base_url)
        except MissingKey as error:
            raise MissingKey(
                f"{error}, ask another model (expert_model=...), or none (external_mode='level_feedback'); in a "
                "configuration external.expert_model=..., or external.mode=level_feedback"
            ) from None
        object.__setattr__(self, "expert", expert)  # the class is frozen

    @property
    def name(self) -> str:
        """The mode: a key of `feedback` or `SHORT_FEEDBACK`, or `expert_edits`."""
        return self.options.external_mode

    @property
    def info_keys(self) -> tuple[str, ...]:
        """Names of the mode's own infos."""
        return () if self.expert is None else ("expert_failed",)

    def sequential(self) -> Self:
        """Return the mode for agents that act in an order."""
        return replace(self, timing="")

    def first(self, task: Any) -> dict[str, str]:
        """Return the first prompt of each agent."""
        return {role.agent: role.instructions(task, self.timing) for role in self.roles}

    def __call__(self, task: Any, turn: Turn) -> tuple[dict[str, str], Info]:
        """Return the next prompt of each agent, and whether the expert failed.

        Raises:
            ExpertError: If the expert fails and `on_expert_failure` is `raise`.
        """
        analysis: Any = turn.verdict.analysis
        infos: Info = {}
        if self.expert is None:
            tests = self.sanitize(self.visible_tests(task, analysis.tests))
            visible = replace(analysis, tests=tests)
            write = {**self.feedback, **SHORT_FEEDBACK}[self.name]
            lines = {role.agent: write(visible, role) for role in self.roles}
        else:
            lines, infos = self._edits(self.expert, task, analysis)
        first = self.first(task) if self.options.original_prompt else {}
        condition = "if needed" if self.name == "passed" else "accordingly"
        strict = self.name.endswith("feedback") or self.expert is not None
        extra = " with no extra text" if strict else ""
        prompts = {}
        for role in self.roles:
            parts = []
            if self.options.original_prompt:
                parts.append(f"Original problem and instructions:\n{first[role.agent]}")
            if self.options.previous_response:
                code = analysis.code(role.agent) or NO_CODE
                parts.append(f"Your previous {role.title}implementation:\n{code}")
            request = (
                f"Revise your {role.request(task)} {condition}. Output ONLY {self.wanted}{extra}."
            )
            parts.append("\n".join([*lines.get(role.agent, ()), request]))
            prompts[role.agent] = "\n\n".join(parts)
        return prompts, infos

    def _edits(self, expert: Expert, task: Any, analysis: Any) -> tuple[dict[str, list[str]], Info]:
        """Return the expert's edits for each agent, none if it fails, and whether it does."""
        code = {role.original_agent: analysis.code(role.agent) or NO_CODE for role in self.roles}
        try:
            edits = expert.edits(task.prompt, code)
        except ExpertError as error:
            if self.options.on_expert_failure == "raise":
                raise
            # The run goes on: a failed request must not end hours of training if the user says so.
            logger.warning("no edits for %s: %s", task.task_id, error)
            return {}, {"expert_failed": 1.0}
        article = "an " if len(self.roles) == 1 else ""
        title = f"Here is {article}edited snippet from an expert model:"
        lines = {role.agent: [title, edits[role.original_agent]] for role in self.roles}
        return lines, {"expert_failed": 0.0}

    def visible_tests(self, task: Any, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items of the tests of a task that prompts may show."""
        return tuple(items) if self.hides_tests else self.options.visible_tests(items)

    def sanitize(self, tests: Sequence[Outcome]) -> tuple[Outcome, ...]:
        """Return outcomes in the form that prompts may show."""
        return tuple(presentable(test, self.options.exception_text) for test in tests)

    def secrets(self, task: Any) -> list[str]:
        """Return texts of the tests that no prompt may contain: of all of them where an expert edits."""
        # Prompts may quote the data's own text, which sometimes contains a test as an example.
        cases = list(task.tests.cases)
        if self.hides_tests or self.expert is not None:
            return cases
        # A shown test is no secret.
        public = (*self.public(task), *self.visible_tests(task, cases))
        return [case for case in cases if not any(case in text for text in public)]

    def public(self, task: Any) -> tuple[str, ...]:
        """Return the texts of a task that every prompt may contain."""
        return (task.prompt,)


# Text that programs have written, on its way into prompts


MAX_LINE = 200
"""Longest text that a prompt shows, in characters."""

BY_PROGRAMS = ("failed", "error", "memory", "forbidden")
"""Statuses whose messages are a program's words; those of the others are the sandbox's."""

_MARKUP = re.compile(
    r"(?<=[<\uff1c\ufe64])(?=[^\s='\"])"
    r"|(?<=[>\[\]\uff1e\ufe65\uff3b\uff3d\ufe47\ufe48])(?=[^\W\d]|[/|~!#@$<>]|[^\x00-\x7f])"
)
"""Places at which a bracket, also a wide or small one, stands directly before a word or a mark."""


def foreign_line(text: str) -> str:
    """Return a text as one line of at most `MAX_LINE` printable characters, without markup of chats."""
    # Cut before the work: an exception may hold megabytes. Four times, as white space shrinks.
    text = " ".join(text[: 4 * MAX_LINE].split())
    text = "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text)
    # The markup of every chat template has no space after its bracket, such as `<|im_start|>` or `[INST]`.
    text = _MARKUP.sub(" ", text)
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 3] + "..."


def presentable(outcome: Outcome, exception_text: bool = True) -> Outcome:
    """Return an outcome in the form that prompts may show.

    Args:
        outcome: The outcome of a test that may be shown.
        exception_text: Show the text of an exception. Without it the message is the name of the exception's
            builtin type alone.
    """
    message = outcome.message
    if not exception_text and outcome.status in BY_PROGRAMS:
        name = message.partition(":")[0]
        kind = vars(builtins).get(name)
        # The name of a class is a text of the program, too, unless it is a builtin one.
        builtin = isinstance(kind, type) and issubclass(kind, BaseException)
        message = name if builtin else "an exception"
    return replace(outcome, message=foreign_line(message))
