"""Options of the environments in which agents write code; a family adds its own, or has other defaults."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

from llm_decpomdp.validation import check_flags, unknown

Item = TypeVar("Item")


@dataclass(frozen=True)
class CodeOptions:
    """Options of a family; the roles, the mode and `DecPOMDPEnv` check those that are not checked here.

    Raises:
        ValueError: If a flag is none, or `on_expert_failure` or `sandbox_slice` is wrong.
    """

    num_agents: int = 2
    """Agents of the team, 1 or more."""
    num_turns: int = 2
    """Horizon, at least 1."""
    external_mode: str = "level_feedback"
    """Feedback after each turn, and about a program that is to be repaired: `level_feedback`, `level_passed`,
    `passed`, `plain` or `expert_edits`; see `llm_decpomdp.envs.modes.code_mode`."""
    sandbox_slice: int | str | None = 1
    """The tests whose outcome prompts may show: n the first n, -n the last n, 0, None or "all" all. The reward
    always counts every test. Repairs show those first that the bugs fail; `code_feedback` shows none, and counts
    all."""
    original_prompt: bool = False
    """Later prompts repeat the first one."""
    previous_response: bool = True
    """Later prompts show the agent's own last code."""
    exception_text: bool = True
    """Feedback tells the text of exceptions, which is a line of the program's, not their type alone."""
    expert_model: str | None = None
    """Name of the model that `expert_edits` asks; the other modes ignore it. Names with "claude" need the key
    `ANTHROPIC_API_KEY`, with "deepseek" `DEEPSEEK_API_KEY`, with "qwen" `DASHSCOPE_API_KEY`, all others
    `OPENAI_API_KEY` and perhaps `OPENAI_BASE_URL`."""
    expert_base_url: str | None = None
    """Address of an OpenAI-compatible endpoint of your own for it, with the key `OPENAI_API_KEY`."""
    on_expert_failure: str = "raise"
    """`raise`, or `continue` without edits and count it in the infos."""
    split: str = "test"
    """Part of the data, with a slice if wanted: `test`, `test[16:]` or `test[:50%]`."""
    source: str = "auto"
    """`auto`, `hub`, `hub@COMMIT`, `bundled`, or the path of a JSONL, JSON or Parquet file with the hub's columns,
    whose splits are `train`, `test` and `all`, each the whole file."""
    exclude_known_issues: bool = False
    """Leaves out the tasks of the split that are known to be wrong; `metadata` names them with the reasons."""
    stop_when_solved: bool = True
    """A solved task ends the episode."""
    discount: float = 1.0
    """Discount factor of the model, in [0, 1]."""
    isolation: str = "best_effort"
    """Reaction to a system that lacks a layer of the sandbox: `best_effort` warns once, `require` refuses to run;
    see docs/security.md."""
    render_mode: str | None = None
    """`None`, `ansi` or `human`."""

    def __post_init__(self) -> None:
        flags = [declared.name for declared in fields(self) if declared.type == "bool"]
        check_flags(**{name: getattr(self, name) for name in flags})
        if self.on_expert_failure not in ("raise", "continue"):
            raise ValueError(
                unknown("on_expert_failure", self.on_expert_failure, ("raise", "continue"))
            )
        parse_slice(self.sandbox_slice)

    def shown(self, tests: Sequence[Item]) -> tuple[Item, ...]:
        """Return the part of the tests, or of what belongs to them, that prompts may tell of."""
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
