"""Completing a class as a team, a composition of four parts: tasks, roles, reward, mode."""

from __future__ import annotations

from functools import partial

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.classeval.feedback import CLASS_FEEDBACK
from llm_decpomdp.envs.classeval.reward import ClassReward
from llm_decpomdp.envs.classeval.roles import class_team
from llm_decpomdp.envs.datasets.loading import parse_split
from llm_decpomdp.envs.modes.code_mode import CodeMode, FeedbackOptions
from llm_decpomdp.envs.problems.classeval import CLASSEVAL, load_classes
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.validation import check_flags

WANTED = "the code of your methods"


def classeval(
    *,
    num_agents: int = 2,
    by: str = "balanced",
    num_turns: int = 2,
    external_mode: str = "code_feedback",
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
    allow_forgeable: bool = False,
    stop_when_solved: bool = True,
    discount: float = 1.0,
    isolation: str = "best_effort",
    render_mode: str | None = None,
) -> DecPOMDPEnv:
    """Complete one Python class as a team: `classeval-v0`.

    ## Description
    A class is given as a skeleton: signatures and docstrings. Each agent, `coder_0`, `coder_1`, ..., writes some
    of its methods, and no method is asked of two; neither sees what the others write.

    ClassEval has 100 classes with 410 methods (Du et al. 2023, arXiv 2308.01861).

    ## Observation Space
    `UnicodeText`: the skeleton and the names of the agent's methods on the first turn; then what the external
    mode says.

    ## Action Space
    `UnicodeText`: a completion. Any text is legal; methods are found in fences, in a class and amid prose.
    Imports, helper methods and functions of the agent's own are kept; see
    `llm_decpomdp.envs.programs.classes.merge`.

    ## Rewards
    At most 6.0, each turn anew: methods written and parseable 2.0, tests 4.0, overlap down to -1.0; see
    `llm_decpomdp.envs.classeval.reward`. A team that wrote nothing earns 0. `solved` in the infos means full
    marks.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`.

    ## Episode End
    Terminates after `num_turns` turns, and after a turn with full marks if `stop_when_solved`.

    Args:
        num_agents: 1 or more.
        by: How the methods are divided: `balanced` (equal work), `parameters` (upstream's rule) or `dependency`
            (methods that call each other stay together); see `llm_decpomdp.envs.classeval.division`.
        num_turns: Horizon, at least 1.
        external_mode: What comes after each turn: `code_feedback`, `level_feedback`, `level_passed`, `passed`,
            `plain` or `expert_edits`.
        sandbox_slice: The tests whose outcome feedback may show: n the first n, -n the last n, 0, None or
            "all" all. `code_feedback` shows none and counts all, as the reward does.
        original_prompt: Whether later prompts repeat the first one.
        previous_response: Whether later prompts show the agent's own last methods.
        exception_text: Whether feedback tells the text of exceptions, which is a line of the program's, or their
            type alone.
        expert_model: Name of the model that `expert_edits` asks; see `coophumaneval-v0`.
        expert_base_url: Address of an OpenAI-compatible endpoint of your own for it.
        on_expert_failure: `raise`, or `continue` without edits and count it in the infos.
        split: Such as `test`, `test[:66]` or `test[:50%]`.
        source: `auto`, `hub`, `hub@COMMIT`, `bundled`, or the path of a JSONL, JSON or Parquet file with the
            hub's columns, whose splits are `train`, `test` and `all`, each the whole file.
        exclude_known_issues: Whether to leave out the classes of the split that are known to be wrong. Classes
            that need a package which is not installed are always left out; `metadata` names both.
        allow_forgeable: Whether to take classes of your own file whose tests only work inside the program's
            process, where it can forge their results. If not, they are left out, and `metadata` names them. Each
            class of a file of your own is tried out for that when it is loaded.
        stop_when_solved: Whether full marks end the episode.
        discount: Discount factor of the model, in [0, 1].
        isolation: What to do if this system lacks a layer of the sandbox: `best_effort` warns once, `require`
            refuses to run; see docs/security.md.
        render_mode: `None`, `ansi` or `human`.

    Raises:
        ValueError: If an argument has a bad value; bad data raises when it is first loaded.

    ## Version History
    - v0: first version.
    """
    parse_split(split, CLASSEVAL.splits_of(source))
    check_flags(exclude_known_issues=exclude_known_issues, allow_forgeable=allow_forgeable)
    team = class_team(num_agents, by)
    reward = ClassReward(team, Sandbox(isolation=isolation), allow_forgeable)
    refuse = None if allow_forgeable else reward.forgeable
    options = FeedbackOptions(
        sandbox_slice=sandbox_slice,
        original_prompt=original_prompt,
        previous_response=previous_response,
        exception_text=exception_text,
        expert_model=expert_model,
        expert_base_url=expert_base_url,
        on_expert_failure=on_expert_failure,
    )
    hides_tests = external_mode == "code_feedback"
    return DecPOMDPEnv(
        "classeval_v0",
        tasks=partial(load_classes, split, source, exclude_known_issues, refuse),
        roles=team,
        reward=reward,
        mode=CodeMode(external_mode, team, CLASS_FEEDBACK, options, WANTED, hides_tests),
        num_turns=num_turns,
        stop_when_solved=stop_when_solved,
        discount=discount,
        render_mode=render_mode,
    )
