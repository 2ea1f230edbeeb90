"""Completing a class as a team, a composition of four parts: tasks, roles, reward, mode."""

from __future__ import annotations

from functools import partial

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.classeval.feedback import CLASS_FEEDBACK
from llm_decpomdp.envs.classeval.reward import ClassReward
from llm_decpomdp.envs.classeval.roles import class_team
from llm_decpomdp.envs.datasets.classeval import CLASSEVAL, load_classes
from llm_decpomdp.envs.datasets.loading import parse_split
from llm_decpomdp.envs.feedback.code_mode import CodeMode, CodeOptions
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.options import as_arguments

WANTED = "the code of your methods"


class ClassOptions(CodeOptions):
    """Options of `classeval`."""

    by: str = "balanced"
    """Rule by which the methods are divided: `balanced` (equal work), `parameters` (upstream's rule) or
    `dependency` (methods that call each other stay together); see `llm_decpomdp.envs.classeval.roles`."""
    answer_begins: bool = False
    """End each first prompt with the header of the agent's first method, behind "Your answer begins with:" on a
    line of its own. Models with `prefill_after: "Your answer begins with:\\n"` begin their answers with it."""
    external_mode: str = "code_feedback"
    exclude_known_issues: bool = False
    """Leaves out the classes of the split that are known to be wrong. Classes that need a package which is not
    installed are always left out; `metadata` names both."""
    allow_forgeable: bool = False
    """Takes classes of your own file whose tests only work inside the program's process, where it can forge
    their results. If not, they are left out, and `metadata` names them. Each class of a file of your own is tried
    out for that when it is loaded."""


@as_arguments(ClassOptions)
def classeval(options: ClassOptions) -> DecPOMDPEnv:
    """Complete one Python class as a team: `classeval-v0`.

    ## Description
    A class is given as a skeleton: signatures and docstrings. Each agent, `coder_0`, `coder_1`, ..., writes some
    of its methods. Every method has one agent, and no agent sees the others' code.

    ClassEval has 100 classes with 410 methods (Du et al. 2023, arXiv 2308.01861).

    ## Observation Space
    `UnicodeText`: the skeleton and the names of the agent's methods on the first turn; then the feedback of the
    external mode.

    ## Action Space
    `UnicodeText`: a completion. Any text is legal; methods are found in fences, in a class and amid prose.
    Imports, helper methods and functions of the agent's own are kept; see
    `llm_decpomdp.envs.source_code.class_completion` and `llm_decpomdp.envs.source_code.classes`.

    ## Rewards
    At most 6.0, each turn anew: methods written and parseable 2.0, tests 4.0, overlap down to -1.0; see
    `llm_decpomdp.envs.classeval.reward`. A team that wrote nothing gets 0. `solved` in the infos means full
    marks.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`.

    ## Episode End
    Terminates after `num_turns` turns, and after a turn with full marks if `stop_when_solved`.

    Raises:
        ValueError: If an argument has a bad value; bad data raises when it is first loaded.

    ## Version History
    - v0: first version.
    """
    split, source = options.split, options.source
    parse_split(split, CLASSEVAL.available_splits(source))
    team = class_team(options.num_agents, options.by, options.answer_begins)
    reward = ClassReward(team, Sandbox(isolation=options.isolation), options.allow_forgeable)
    refuse = None if options.allow_forgeable else reward.forgeable
    hides_tests = options.external_mode == "code_feedback"
    tasks = partial(load_classes, split, source, options.exclude_known_issues, refuse)
    return DecPOMDPEnv(
        "classeval_v0",
        tasks,
        roles=team,
        reward=reward,
        mode=CodeMode(team, CLASS_FEEDBACK, options, WANTED, hides_tests),
        num_turns=options.num_turns,
        stop_when_solved=options.stop_when_solved,
        discount=options.discount,
        render_mode=options.render_mode,
    )
