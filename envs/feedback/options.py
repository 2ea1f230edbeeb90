"""Options of the environments in which agents write code; a family adds its own, or has other defaults."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from llm_decpomdp.options import Options, option

Item = TypeVar("Item")


class CodeOptions(Options):
    """Options of a family; the roles, the mode and `DecPOMDPEnv` check those that are not checked here.

    Raises:
        ValueError: If a value is of another type or out of its range.
    """

    num_agents: int = option(2, ge=1)
    """Agents of the team; their roles are up to the environment."""
    num_turns: int = option(2, ge=1)
    """Turns of an episode, at most."""
    external_mode: str = "level_feedback"
    """Feedback after each turn, and about a program that is to be repaired: `level_feedback` (diagnostics),
    `level_passed` (each level passed or not), `passed` (all levels or not), `plain` (nothing), `expert_edits`
    (edits by another model; not for writing), and for ClassEval `code_feedback` (diagnostics with all tests)."""
    sandbox_slice: int | str | None = 1
    """Tests whose outcome feedback may show: n the first n, -n the last n; 0, `None` or `all` for all. Repairs
    show those first that the bugs fail; `code_feedback` shows none and counts all. The reward counts every test
    in any case."""
    original_prompt: bool = False
    """Repeat the first prompt in later ones."""
    previous_response: bool = True
    """Show the agent's own last answer in later prompts."""
    exception_text: bool = True
    """Show the text of exceptions, which is a line of the program's, besides their type."""
    expert_model: str | None = None
    """The model that `expert_edits` asks, such as `deepseek-coder`; its name decides whose key is needed: with
    "claude" `ANTHROPIC_API_KEY`, "deepseek" `DEEPSEEK_API_KEY`, "qwen" `DASHSCOPE_API_KEY`, else `OPENAI_API_KEY`
    and perhaps `OPENAI_BASE_URL`. Other modes ask nobody."""
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
        parse_slice(self.sandbox_slice)

    def visible_tests(self, tests: Sequence[Item]) -> tuple[Item, ...]:
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
