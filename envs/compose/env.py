"""The composition family `compose-v0`: its options, and its tasks, roles, reward and mode."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, ClassVar

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.compose.chains import CONVENTIONS, TYPES
from llm_decpomdp.envs.compose.feedback import FEEDBACK, ComposeMode
from llm_decpomdp.envs.compose.reward import ComposeReward
from llm_decpomdp.envs.compose.roles import compose_team
from llm_decpomdp.envs.compose.tasks import MAX_AGENTS, compose_rows, compose_task, row_split
from llm_decpomdp.envs.datasets.loading import Dataset, load, parse_split
from llm_decpomdp.envs.feedback.code_mode import CodeOptions
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.interfaces import TaskSet
from llm_decpomdp.options import as_arguments
from llm_decpomdp.utils.text import warn
from llm_decpomdp.validation import check_whole, unknown

SPLITS = ("train", "test", "all")

FEW = 50
"""Number of tasks below which a warning says that a split is small."""


class ComposeOptions(CodeOptions):
    """Options of `compose`."""

    num_agents: int = 2
    """N for `aux_0` to `aux_{N-2}` and `main_0`, 2 to 8; 1 for `main_0` alone, with the prompt of a pair's."""
    num_turns: int = 1
    """Maximum number of turns."""
    length: int = 2
    """Number of steps of a program, at least one for each agent. There are at most 6,000 tasks, and at most 600
    with more than three steps."""
    types: str = "all"
    """Types of all values: `numbers`, `lists`, `text`, or `all`. Single types have fewer tasks."""
    convention: str = "none"
    """The open question of the prompts: `none`, the `name` of helpers, or the `encoding` of two integers (two
    steps, at most two agents)."""
    sandbox_slice: int | str | None = 0
    """Tests that feedback counts but never shows: n the first n, -n the last n; 0, `None` or `all` for all."""
    task_seed: int = 0
    """Seed of the tasks."""
    split: str = "train"
    """`train`, `test` (with pairs of kinds of steps that no training task has) or `all`, optionally sliced, such
    as `train[:50%]`."""
    source: str = "bundled"
    """`bundled` or `auto`: these tasks are generated."""
    exception_text: ClassVar[bool] = False  # type: ignore[misc]  # not an option: it would reveal values

    def __post_init__(self) -> None:
        check_whole(
            "num_agents", self.num_agents, 1, MAX_AGENTS
        )  # before the larger limit of all families
        super().__post_init__()
        check_whole("length", self.length, 2, MAX_AGENTS)
        if self.length < self.num_agents:
            raise ValueError(
                f"num_agents={self.num_agents} need a step each, got length={self.length}: take "
                f"length={self.num_agents} or more"
            )
        check_whole("task_seed", self.task_seed, 0)
        if self.types not in TYPES:
            raise ValueError(unknown("types", self.types, TYPES))
        if self.convention not in CONVENTIONS:
            raise ValueError(unknown("convention", self.convention, CONVENTIONS))
        if self.convention == "encoding" and (self.length, self.types) != (2, "all"):
            raise ValueError(
                f"convention='encoding' has chains of two steps, from a list to a number, for at most two agents: "
                f"take length=2 and types='all', got length={self.length} and types={self.types!r}"
            )
        if self.source not in ("auto", "bundled"):
            raise ValueError(f"source={self.source!r}: these tasks are made here; take 'bundled'")
        parse_split(self.split, SPLITS)


@as_arguments(ComposeOptions)
def compose(options: ComposeOptions) -> DecPOMDPEnv:
    """Compose a program whose steps are known to different agents: `compose-v0`.

    ## Description
    A program is a chain of small steps on numbers, lists and strings. `aux_0` knows some of the
    steps and writes them as a function, the helper; `main_0` knows the other steps and writes the entry function,
    which calls the helper. No agent knows the steps of another, so none can solve the task alone. A `convention`
    leaves one thing open, which both agents must choose alike without communication: the helper's name, or the
    format of its result.

    Tasks are generated: every chain of `llm_decpomdp.envs.compose.chains` whose tests detect the work of every
    step. Each chain of the split `test` has two kinds of steps next to each other that no training task has so.

    ## Observation Space
    `UnicodeText`: on the first turn the agent's own steps, and the types of the others'; then
    the prompts of the external mode. No prompt shows a test or the text of an exception, since both can contain
    another agent's results.

    ## Action Space
    `UnicodeText`: a completion. Any text is legal. Code is found in fences and in prose, by the rule of
    `llm_decpomdp.envs.source_code.completion`.

    ## Rewards
    The components of `llm_decpomdp.envs.compose.reward`, in each turn: at most 4.0 for a team, 1.25 for one agent.
    `solved` in the infos means the maximum.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`. Task number `index` of a
    `task_seed` is always the same.

    ## Episode End
    Terminates after `num_turns` turns, and after a turn with the maximum reward if `stop_when_solved`.

    Raises:
        ValueError: If an argument has a bad value.

    ## Version History
    - v0: first version.
    """
    roles = compose_team(options.num_agents, options.convention)
    kind = (options.length, options.types, options.convention, options.task_seed)
    tasks = partial(_load, options.split, options.exclude_known_issues, *kind)
    return DecPOMDPEnv(
        "compose_v0",
        tasks,
        roles=roles,
        reward=ComposeReward(roles, Sandbox(isolation=options.isolation)),
        mode=ComposeMode(roles, FEEDBACK, options),
        num_turns=options.num_turns,
        stop_when_solved=options.stop_when_solved,
        discount=options.discount,
        render_mode=options.render_mode,
    )


@lru_cache(maxsize=16)
def _load(split: str, exclude_known_issues: bool, *kind: Any) -> TaskSet:
    dataset = Dataset(
        name="compose",
        hub="",
        filename="",
        bundled=partial(compose_rows, *kind),
        to_task=compose_task,
        stand_in=False,
        splits=SPLITS[:-1],
        find_split=row_split,
    )
    tasks = load(dataset, split, "bundled", exclude_known_issues)
    # A slice is small on purpose.
    if len(tasks.tasks) < FEW and "[" not in split:
        length, types, convention, _ = kind
        warn(
            f"split={split!r} has only {len(tasks.tasks)} task(s): few chains fit length={length}, "
            f"types={types!r} and convention={convention!r}"
        )
    return tasks
