"""The code families, each a composition of four parts: tasks, roles, reward, mode.

`make("coophumaneval-v0", num_turns=1)` calls `coophumaneval(num_turns=1)`, which is `coding_env` with its data set
and name. `as_arguments` makes `CodingOptions` of the keyword arguments; `make_coding_env` builds the environment.

Those of `-v1`, whose reward is for shared work, are in `llm_decpomdp.envs.coding.shared_work`.

A family of your own is a function like `coding_env` that names its four parts, and a line in `register`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.coding.feedback import FEEDBACK
from llm_decpomdp.envs.coding.reward import CodeReward
from llm_decpomdp.envs.coding.roles import coding_team
from llm_decpomdp.envs.coding.templates import change_roles
from llm_decpomdp.envs.datasets.humaneval import COOPHUMANEVAL, HUMANEVAL
from llm_decpomdp.envs.datasets.loading import Dataset, load, parse_split
from llm_decpomdp.envs.datasets.mbpp import MBPP
from llm_decpomdp.envs.feedback.code_mode import CodeMode, CodeOptions, parse_slice
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.interfaces import TaskSet
from llm_decpomdp.options import as_arguments, option_of


class CodingOptions(CodeOptions):
    """Options of `coding_env`."""

    num_agents: int = option_of(CodeOptions, "num_agents")
    """N for `aux_0` to `aux_{N-2}` and `main_0`; 1 for `main_0` alone."""
    split: str = "test"
    """Such as `test`, `test[16:]`, `test[:50%]` or `train+test[16:]`; for MBPP see
    `llm_decpomdp.envs.datasets.mbpp`."""
    roles: Mapping[str, Any] | None = None
    """Agents that are to have another name or first prompt, such as `{"aux_0": {"name": "helper_0", "template":
    "helper.txt"}}`; `llm_decpomdp.envs.coding.templates` lists a template's fields."""


@as_arguments(CodingOptions)
def coding_env(dataset: Dataset, name: str, options: CodingOptions) -> DecPOMDPEnv:
    """Write one Python function as a team: `humaneval-v0`, `coophumaneval-v0` and `mbpp-v0`.

    ## Description
    Two agents write one program at the same time: `aux_0` a helper function `aux`, `main_0` the entry
    function. Neither sees the other's code. With `num_agents=1`, `main_0` writes alone; with more than
    two, `aux_0`, `aux_1`, ... each write a helper function named after the agent.

    HumanEval has 164 problems (Chen et al. 2021, arXiv 2107.03374), CoopHumanEval 82 that divide well (arXiv
    2508.04652), the sanitized MBPP 427 (Austin et al. 2021, arXiv 2108.07732), with its own splits.

    ## Observation Space
    `UnicodeText`: the problem, worded for the role, on the first turn; then the feedback of the external mode.

    ## Action Space
    `UnicodeText`: a completion. Any text is legal; code is found in fences and amid prose, by the rule of
    `llm_decpomdp.envs.source_code.completion`.

    ## Rewards
    The levels of `llm_decpomdp.envs.coding.reward`, each turn anew: at most 4.0 for a team, 2.1 alone. `solved` in
    the infos means full marks.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`.

    ## Episode End
    Terminates after `num_turns` turns, and after a turn with full marks if `stop_when_solved`.

    Raises:
        ValueError: If an argument has a bad value; bad data raises when it is first loaded.

    ## Version History
    - v1: the reward is for tests that need both sides, and every row can be divided.
    - v0: first version.
    """
    sandbox = Sandbox(isolation=options.isolation)
    tasks = partial(load, dataset, options.split, options.source, options.exclude_known_issues)
    return make_coding_env(dataset, name, options, CodeReward, sandbox, tasks)


def make_coding_env(
    dataset: Dataset,
    name: str,
    options: CodingOptions,
    reward: type[CodeReward],
    sandbox: Sandbox,
    tasks: Callable[[], TaskSet],
) -> DecPOMDPEnv:
    """Return the environment of a family with a reward and tasks of its own; `sandbox` runs its programs."""
    parse_split(options.split, dataset.available_splits(options.source))
    team = coding_team(options.num_agents)
    if options.roles:
        team = change_roles(team, options.roles)
    return DecPOMDPEnv(
        name,
        tasks,
        roles=team,
        reward=reward(team, sandbox, shown=max(parse_slice(options.sandbox_slice), 0)),
        mode=CodeMode(team, FEEDBACK, options),
        num_turns=options.num_turns,
        stop_when_solved=options.stop_when_solved,
        discount=options.discount,
        render_mode=options.render_mode,
    )


humaneval = partial(coding_env, HUMANEVAL, "humaneval_v0")
coophumaneval = partial(coding_env, COOPHUMANEVAL, "coophumaneval_v0")
mbpp = partial(coding_env, MBPP, "mbpp_v0")
