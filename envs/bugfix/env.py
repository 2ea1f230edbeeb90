"""The bug-fixing families, each a composition of four parts: tasks, roles, reward, mode."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.bugfix.catalogue import MAX_BUGS, bug_rows, split_of
from llm_decpomdp.envs.bugfix.execution import Runner
from llm_decpomdp.envs.bugfix.feedback import REPAIR_FEEDBACK, RepairMode
from llm_decpomdp.envs.bugfix.humanevalfix import HUMANEVALFIX
from llm_decpomdp.envs.bugfix.reward import RepairReward
from llm_decpomdp.envs.bugfix.roles import repair_team
from llm_decpomdp.envs.bugfix.tasks import BugTask, bug_task
from llm_decpomdp.envs.datasets.loading import (
    PACKAGE,
    Dataset,
    SplitRows,
    existing,
    is_path,
    load,
    parse_split,
    rows_of,
    select,
)
from llm_decpomdp.envs.modes.code_mode import FeedbackOptions
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.tasks import TaskLoader, TaskSet
from llm_decpomdp.validation import check_flags, unknown

SPREADS = ("any", "one", "across")
SPLITS = ("train", "test", "all")


def bugfix(
    *,
    num_agents: int = 2,
    bugs: int = 1,
    spread: str = "any",
    task_seed: int = 0,
    num_turns: int = 2,
    external_mode: str = "level_feedback",
    sandbox_slice: int | str | None = 1,
    original_prompt: bool = False,
    previous_response: bool = True,
    exception_text: bool = True,
    expert_model: str | None = None,
    expert_base_url: str | None = None,
    on_expert_failure: str = "raise",
    split: str = "train",
    source: str = "bundled",
    exclude_known_issues: bool = False,
    stop_when_solved: bool = True,
    discount: float = 1.0,
    isolation: str = "best_effort",
    render_mode: str | None = None,
) -> DecPOMDPEnv:
    """Repair a program of several functions as a team: `bugfix-v0`.

    ## Description
    A program holds one to three bugs. Every agent, `fixer_0`, `fixer_1`, ..., sees the whole program and what the
    mode tells of its tests, owns some of the functions, and submits these again; all do so at the same time.
    The bugs may lie in anybody's functions.

    They are made by changing a correct program by rule: an operator, a bound, a variable, a lost statement, and
    so on; see `llm_decpomdp.envs.programs.mutation`. `llm_decpomdp.envs.bugfix.programs` says which programs
    there are. Of a class, the methods are what is said here of functions.

    ## Observation Space
    `UnicodeText`: what the program shall do, the program, and its failing tests as the mode allows, on the first
    turn; then what the external mode says.

    ## Action Space
    `UnicodeText`: a completion. Any text is legal; code is found in fences and amid prose. Functions of team-mates
    in it are left out, and so is what gives their names another meaning; where two agents add helpers or
    variables of one name, that of the later agent counts for both (in classes, that of the earlier one).

    ## Rewards
    The components of `llm_decpomdp.envs.bugfix.reward`, each turn anew: at most 3.0. `solved` in the infos means
    that all functions were submitted and all tests pass, also with a larger change than needed.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`. Task number `index` of a
    `task_seed` is always the same one.

    ## Episode End
    Terminates after `num_turns` turns, and after a turn in which the program was repaired if
    `stop_when_solved`.

    Args:
        num_agents: `fixer_0` to `fixer_{N-1}`. `fixer_i` owns function i, i + N, i + 2N, ... of the program; only
            programs with at least N functions are used, and the longest has 8.
        bugs: How many bugs each program has: 1, 2 or 3.
        spread: Whether they lie in functions of one agent (`one`), of several (`across`) or anywhere (`any`).
        task_seed: Decides the order of the tasks.
        num_turns: Horizon, at least 1.
        external_mode: What the prompts tell of the tests, and what comes after each turn: `level_feedback`,
            `level_passed`, `passed`, `plain` or `expert_edits`.
        sandbox_slice: The tests whose outcome prompts may show, those that the bugs fail before all others: n the
            first n, -n the last n, 0, None or "all" all. The reward always counts every test.
        original_prompt: Whether later prompts repeat the first one.
        previous_response: Whether later prompts show the agent's own last code.
        exception_text: Whether feedback tells the text of exceptions, which is a line of the program's, or their
            type alone.
        expert_model: Name of the model that `expert_edits` asks; see `coding_env`.
        expert_base_url: Address of an OpenAI-compatible endpoint of your own for it.
        on_expert_failure: `raise`, or `continue` without edits and count it in the infos.
        split: `train`, `test` (other programs) or `all`, with a slice if wanted, such as `train[:50%]`.
        source: `bundled` (or `auto`), or the path of a JSONL, JSON or Parquet file with programs of your own,
            whose bugs are made and tried when it is loaded: columns `task_id`, `program`, `entry_point`,
            `test`, or those of ClassEval.
        exclude_known_issues: Whether to leave out the tasks of the split whose problems are known to be wrong;
            `metadata` names them with the reasons.
        stop_when_solved: Whether a repaired program ends the episode.
        discount: Discount factor of the model, in [0, 1].
        isolation: What to do if this system lacks a layer of the sandbox: `best_effort` warns once, `require`
            refuses to run; see docs/security.md.
        render_mode: `None`, `ansi` or `human`.

    Raises:
        ValueError: If an argument has a bad value; bad data raises when it is first loaded.

    ## Version History
    - v0: first version.
    """
    if isinstance(bugs, bool) or not isinstance(bugs, int) or not 1 <= bugs <= MAX_BUGS:
        raise ValueError(f"bugs must be a whole number from 1 to {MAX_BUGS}, got {bugs!r}")
    if spread not in SPREADS:
        raise ValueError(unknown("spread", spread, SPREADS))
    if isinstance(task_seed, bool) or not isinstance(task_seed, int) or task_seed < 0:
        raise ValueError(f"task_seed must be a whole number of at least 0, got {task_seed!r}")
    if source not in ("auto", "bundled") and not is_path(source):
        raise ValueError(
            f"source={source!r}: these tasks are made here; take 'bundled' or a file's path"
        )
    parse_split(split, SPLITS)
    check_flags(exclude_known_issues=exclude_known_issues)
    path = None if source in ("auto", "bundled") else source
    loader = _load_own if path is not None else _load_bundled
    return repair_env(
        "bugfix_v0",
        partial(loader, split, exclude_known_issues, num_agents, bugs, spread, task_seed, path),
        num_agents=num_agents,
        external_mode=external_mode,
        feedback=FeedbackOptions(
            sandbox_slice=sandbox_slice,
            original_prompt=original_prompt,
            previous_response=previous_response,
            exception_text=exception_text,
            expert_model=expert_model,
            expert_base_url=expert_base_url,
            on_expert_failure=on_expert_failure,
        ),
        isolation=isolation,
        num_turns=num_turns,
        stop_when_solved=stop_when_solved,
        discount=discount,
        render_mode=render_mode,
    )


def humanevalfix(
    *,
    num_agents: int = 1,
    num_turns: int = 2,
    external_mode: str = "level_feedback",
    sandbox_slice: int | str | None = 1,
    original_prompt: bool = False,
    previous_response: bool = True,
    exception_text: bool = True,
    expert_model: str | None = None,
    expert_base_url: str | None = None,
    on_expert_failure: str = "raise",
    split: str = "test",
    source: str = "auto",
    exclude_known_issues: bool = False,
    stop_when_solved: bool = True,
    discount: float = 1.0,
    isolation: str = "best_effort",
    render_mode: str | None = None,
) -> DecPOMDPEnv:
    """Repair a function alone: `humanevalfix-v0`, with the tasks of `llm_decpomdp.envs.bugfix.humanevalfix`.

    ## Description
    One agent, `fixer_0`, is shown a function of HumanEval with one bug and what the mode tells of its tests, and
    submits the function again.

    All is as in `bugfix`, and so are the arguments, but for `source`: `auto`, `hub`, `hub@COMMIT`, `bundled`, or
    the path of a file with the hub's columns. Nearly all of these programs are a single function, for one agent;
    more agents get the few that have as many functions.

    Raises:
        ValueError: If an argument has a bad value; bad data raises when it is first loaded.
    """
    parse_split(split, HUMANEVALFIX.splits_of(source))
    check_flags(exclude_known_issues=exclude_known_issues)
    return repair_env(
        "humanevalfix_v0",
        partial(_load_fixes, split, source, exclude_known_issues, num_agents),
        num_agents=num_agents,
        external_mode=external_mode,
        feedback=FeedbackOptions(
            sandbox_slice=sandbox_slice,
            original_prompt=original_prompt,
            previous_response=previous_response,
            exception_text=exception_text,
            expert_model=expert_model,
            expert_base_url=expert_base_url,
            on_expert_failure=on_expert_failure,
        ),
        isolation=isolation,
        num_turns=num_turns,
        stop_when_solved=stop_when_solved,
        discount=discount,
        render_mode=render_mode,
    )


def _load_own(
    split: str,
    exclude_known_issues: bool,
    num_agents: int,
    bugs: int,
    spread: str,
    seed: int,
    source: str | None,
) -> TaskSet:
    path = None if source is None else str(existing(source))
    dataset = Dataset(
        name="bugfix",
        hub="",
        filename="",
        bundled=partial(bug_rows, num_agents, bugs, spread, seed, path),
        to_task=bug_task,
        stand_in=False,
        splits=SPLITS[:-1],
        split_of=split_of,
    )
    name, _, _ = parse_split(split, SPLITS)
    rows = rows_of(dataset, name, dataset.bundled())
    return select(
        dataset,
        SplitRows(rows, path or PACKAGE, user_file=path is not None),
        split,
        exclude_known_issues,
    )


@lru_cache(maxsize=32)
def _load_bundled(*arguments: Any) -> TaskSet:
    """Load as `_load_own` does, once: the package's programs do not change."""
    return _load_own(*arguments)


def _load_fixes(split: str, source: str, exclude_known_issues: bool, num_agents: int) -> TaskSet:
    whole = load(HUMANEVALFIX, split, source, exclude_known_issues)
    tasks = [task for task in whole.tasks if isinstance(task, BugTask)]
    large = tuple(task for task in tasks if len(task.functions) >= num_agents)
    if not large:
        raise ValueError(f"no program has {num_agents} functions; take fewer agents")
    return replace(whole, tasks=large)


def repair_env(
    name: str,
    tasks: TaskLoader,
    *,
    num_agents: int,
    external_mode: str,
    feedback: FeedbackOptions,
    isolation: str,
    **options: Any,
) -> DecPOMDPEnv:
    """Put the four parts together; arguments as of `bugfix`."""
    runner = Runner(Sandbox(isolation=isolation))
    roles = repair_team(num_agents)
    return DecPOMDPEnv(
        name,
        tasks=tasks,
        roles=roles,
        reward=RepairReward(roles, runner),
        mode=RepairMode(
            *(external_mode, roles, REPAIR_FEEDBACK, feedback),
            wanted="the code of your functions",
            runner=runner,
        ),
        **options,
    )
