"""The bug-fixing families, each a composition of four parts: tasks, roles, reward, mode."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.bugfix.feedback import REPAIR_FEEDBACK, RepairMode
from llm_decpomdp.envs.bugfix.humanevalfix import HUMANEVALFIX
from llm_decpomdp.envs.bugfix.programs import MAX_BUGS, bug_rows, find_split
from llm_decpomdp.envs.bugfix.reward import RepairReward
from llm_decpomdp.envs.bugfix.roles import repair_team
from llm_decpomdp.envs.bugfix.tasks import BugTask, bug_task
from llm_decpomdp.envs.datasets.loading import (
    PACKAGE,
    Dataset,
    existing,
    is_path,
    load,
    parse_split,
)
from llm_decpomdp.envs.feedback.code_mode import CodeOptions
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.interfaces import TaskLoader, TaskSet
from llm_decpomdp.options import as_arguments, option_of
from llm_decpomdp.validation import check_whole, unknown

SPREADS = ("any", "one", "across")
SPLITS = ("train", "test", "all")


class BugOptions(CodeOptions):
    """Options of `bugfix`."""

    num_agents: int = option_of(CodeOptions, "num_agents")
    """N for `fixer_0` to `fixer_{N-1}`. `fixer_i` owns function i, i + N, i + 2N, ... of the program; only
    programs with at least N functions are used, and the longest has 8."""
    bugs: int = 1
    """Number of bugs in each program: 1, 2 or 3."""
    spread: str = "any"
    """Place of the bugs: in functions of one agent (`one`), of several (`across`) or anywhere (`any`)."""
    task_seed: int = 0
    """Decides the order of the tasks."""
    split: str = "train"
    """`train`, `test` (other programs) or `all`, with a slice if wanted, such as `train[:50%]`."""
    source: str = "bundled"
    """`bundled` (or `auto`), or the path of a JSONL, JSON or Parquet file with programs of your own, whose bugs
    are made and tried when it is loaded: columns `task_id`, `program`, `entry_point`, `test`, or those of
    ClassEval."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("bugs", self.bugs, 1, MAX_BUGS)
        check_whole("task_seed", self.task_seed, 0)
        if self.spread not in SPREADS:
            raise ValueError(unknown("spread", self.spread, SPREADS))
        if self.source not in ("auto", "bundled") and not is_path(self.source):
            raise ValueError(
                f"source={self.source!r}: these tasks are made here; take 'bundled' or a file's path"
            )
        parse_split(self.split, SPLITS)


class FixOptions(CodeOptions):
    """Options of `humanevalfix`."""

    num_agents: int = option_of(CodeOptions, "num_agents", 1)
    """N for `fixer_0` to `fixer_{N-1}`. Nearly all of these programs are a single function, for one agent; more
    agents get the few that have as many functions."""


@as_arguments(BugOptions)
def bugfix(options: BugOptions) -> DecPOMDPEnv:
    """Repair a program of several functions as a team: `bugfix-v0`.

    ## Description
    A program has one to three bugs. Every agent, `fixer_0`, `fixer_1`, ..., sees the whole program and the
    feedback of the mode about its tests. The agent owns some of the functions and submits these again, at the
    same time as its team-mates. The bugs may be in any agent's functions.

    Bugs are rule-based changes of a correct program: of an operator, a bound, a variable, a lost statement, and
    so on; see `llm_decpomdp.envs.source_code.mutation`. `llm_decpomdp.envs.bugfix.programs` lists the programs.
    If the program is a class, agents own and repair its methods.

    ## Observation Space
    `UnicodeText`: the purpose of the program, the program, and its failing tests as the mode allows, on the first
    turn; then the feedback of the external mode.

    ## Action Space
    `UnicodeText`: a completion. Any text is legal; code is found in fences and amid prose, by the rule of
    `llm_decpomdp.envs.source_code.completion`. Functions of team-mates in it are left out, and so are
    statements that bind their names. If two agents add helpers or variables of one name, the later agent's
    counts for both (in classes, the earlier agent's).

    ## Rewards
    The components of `llm_decpomdp.envs.bugfix.reward`, each turn anew: at most 3.0. `solved` in the infos means
    that all functions were submitted and all tests pass, also with a larger change than needed.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`. Task number `index` of a
    `task_seed` is always the same one.

    ## Episode End
    Terminates after `num_turns` turns, and after a turn in which the program was repaired if
    `stop_when_solved`.

    Raises:
        ValueError: If an argument has a bad value; bad data raises when it is first loaded.

    ## Version History
    - v0: first version.
    """
    bundled = options.source in ("auto", "bundled")
    kind = (options.num_agents, options.bugs, options.spread, options.task_seed)
    tasks = partial(
        _load_bundled if bundled else _load,
        None if bundled else options.source,
        options.split,
        options.exclude_known_issues,
        kind,
    )
    return _repair_env("bugfix_v0", tasks, options)


@as_arguments(FixOptions)
def humanevalfix(options: FixOptions) -> DecPOMDPEnv:
    """Repair a function alone: `humanevalfix-v0`, with the tasks of `llm_decpomdp.envs.bugfix.humanevalfix`.

    ## Description
    One agent, `fixer_0`, sees a function of HumanEval with one bug and the feedback of the mode about its tests,
    and submits the function again. All else is as in `bugfix`.

    Raises:
        ValueError: If an argument has a bad value; bad data raises when it is first loaded.
    """
    parse_split(options.split, HUMANEVALFIX.available_splits(options.source))
    return _repair_env("humanevalfix_v0", partial(_load_fixes, options), options)


def _load(
    source: str | None, split: str, exclude_known_issues: bool, kind: tuple[int, int, str, int]
) -> TaskSet:
    """Load the tasks of one kind: number of agents, bugs, spread, seed; `source` is a file of the user's."""
    path = None if source is None else str(existing(source))
    dataset = Dataset(
        name="bugfix",
        hub="",
        filename="",
        bundled=partial(bug_rows, *kind, path),
        to_task=bug_task,
        stand_in=False,
        splits=SPLITS[:-1],
        find_split=find_split,
        origin=path or PACKAGE,
    )
    return load(dataset, split, "bundled", exclude_known_issues)


@lru_cache(maxsize=32)
def _load_bundled(*arguments: Any) -> TaskSet:
    """Load as `_load` does, once for each kind: the package's programs do not change."""
    return _load(*arguments)


def _load_fixes(options: FixOptions) -> TaskSet:
    whole = load(HUMANEVALFIX, options.split, options.source, options.exclude_known_issues)
    tasks = [task for task in whole.tasks if isinstance(task, BugTask)]
    large = tuple(task for task in tasks if len(task.functions) >= options.num_agents)
    if not large:
        raise ValueError(f"no program has {options.num_agents} functions; take fewer agents")
    return replace(whole, tasks=large)


def _repair_env(name: str, tasks: TaskLoader, options: CodeOptions) -> DecPOMDPEnv:
    sandbox, roles = Sandbox(isolation=options.isolation), repair_team(options.num_agents)
    wanted = "the code of your functions"
    return DecPOMDPEnv(
        name,
        tasks,
        roles=roles,
        reward=RepairReward(roles, sandbox),
        mode=RepairMode(roles, REPAIR_FEEDBACK, options, wanted, sandbox=sandbox),
        num_turns=options.num_turns,
        stop_when_solved=options.stop_when_solved,
        discount=options.discount,
        render_mode=options.render_mode,
    )
