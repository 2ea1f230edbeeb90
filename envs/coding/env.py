"""The code families, each a composition of four parts: tasks, roles, reward, mode.

A family of your own is a function like `coding_env` that names its four parts, and a line in `register`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.coding.feedback import FEEDBACK
from llm_decpomdp.envs.coding.reward import CodeReward
from llm_decpomdp.envs.coding.roles import coding_team
from llm_decpomdp.envs.datasets.loading import Dataset, load, parse_split
from llm_decpomdp.envs.modes.code_mode import CodeMode, FeedbackOptions, parse_slice
from llm_decpomdp.envs.problems.humaneval import COOPHUMANEVAL, HUMANEVAL
from llm_decpomdp.envs.problems.mbpp import MBPP
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.validation import check_flags


def coding_env(
    dataset: Dataset,
    name: str,
    *,
    num_agents: int = 2,
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
    roles: Mapping[str, Mapping[str, str]] | None = None,
    stop_when_solved: bool = True,
    discount: float = 1.0,
    isolation: str = "best_effort",
    render_mode: str | None = None,
) -> DecPOMDPEnv:
    """Write one Python function as a team: `humaneval-v0`, `coophumaneval-v0` and `mbpp-v0`.

    ## Description
    Two agents write one program at the same time: `aux_0` a helper function `aux`, `main_0` the entry
    function. Neither sees what the other writes. With `num_agents=1`, `main_0` writes alone; with more than
    two, `aux_0`, `aux_1`, ... each write a helper function that bears the agent's name.

    HumanEval has 164 problems (Chen et al. 2021, arXiv 2107.03374), CoopHumanEval 82 that divide well (arXiv
    2508.04652), the sanitized MBPP 427 (Austin et al. 2021, arXiv 2108.07732), in splits of its own.

    ## Observation Space
    `UnicodeText`: the problem, worded for the role, on the first turn; then what the external mode says.

    ## Action Space
    `UnicodeText`: a completion. Any text is legal; code is found in fences and amid prose.

    ## Rewards
    The levels of `llm_decpomdp.envs.coding.reward`, each turn anew: at most 4.0 for a team, 2.1 alone. `solved` in
    the infos means full marks.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`.

    ## Episode End
    Terminates after `num_turns` turns, and after a turn with full marks if `stop_when_solved`.

    Args:
        dataset: Where the problems come from.
        name: Name of the environment.
        num_agents: N for `aux_0` to `aux_{N-2}` and `main_0`; 1 for `main_0` alone.
        num_turns: Horizon, at least 1.
        external_mode: What comes after each turn: `level_feedback`, `level_passed`, `passed`, `plain` or
            `expert_edits`.
        sandbox_slice: The tests whose outcome feedback may show: n the first n, -n the last n, 0, None or
            "all" all. The reward always counts every test.
        original_prompt: Whether later prompts repeat the first one.
        previous_response: Whether later prompts show the agent's own last code.
        exception_text: Whether feedback tells the text of exceptions, which is a line of the program's, or their
            type alone.
        expert_model: Name of the model that `expert_edits` asks; the other modes ignore it. Names with
            "claude" need the key `ANTHROPIC_API_KEY`, with "deepseek" `DEEPSEEK_API_KEY`, with "qwen"
            `DASHSCOPE_API_KEY`, all others `OPENAI_API_KEY` and perhaps `OPENAI_BASE_URL`.
        expert_base_url: Address of an OpenAI-compatible endpoint of your own for it, with the key
            `OPENAI_API_KEY`.
        on_expert_failure: `raise`, or `continue` without edits and count it in the infos.
        split: Such as `test`, `test[16:]` or `test[:50%]`; for MBPP see `llm_decpomdp.envs.problems.mbpp`.
        source: `auto`, `hub`, `hub@COMMIT`, `bundled`, or the path of a JSONL, JSON or Parquet file with the
            hub's columns, whose splits are `train`, `test` and `all`, each the whole file.
        exclude_known_issues: Whether to leave out the tasks of the split that are known to be wrong; `metadata`
            names them with the reasons.
        roles: Agents that are to have another name or first prompt, such as `{"aux_0": {"name": "helper_0",
            "template": "helper.txt"}}`; `llm_decpomdp.envs.coding.prompt_templates` lists a template's fields.
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
    parse_split(split, dataset.splits_of(source))
    check_flags(exclude_known_issues=exclude_known_issues)
    team = coding_team(num_agents, roles)
    options = FeedbackOptions(
        sandbox_slice=sandbox_slice,
        original_prompt=original_prompt,
        previous_response=previous_response,
        exception_text=exception_text,
        expert_model=expert_model,
        expert_base_url=expert_base_url,
        on_expert_failure=on_expert_failure,
    )
    return DecPOMDPEnv(
        name,
        tasks=partial(load, dataset, split, source, exclude_known_issues),
        roles=team,
        reward=CodeReward(
            team, Sandbox(isolation=isolation), shown=max(parse_slice(sandbox_slice), 0)
        ),
        mode=CodeMode(external_mode, team, FEEDBACK, options),
        num_turns=num_turns,
        stop_when_solved=stop_when_solved,
        discount=discount,
        render_mode=render_mode,
    )


humaneval = partial(coding_env, HUMANEVAL, "humaneval_v0")
coophumaneval = partial(coding_env, COOPHUMANEVAL, "coophumaneval_v0")
mbpp = partial(coding_env, MBPP, "mbpp_v0")
