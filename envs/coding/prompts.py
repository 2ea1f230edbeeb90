"""The prompts of the first turn of a team that writes one function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llm_decpomdp.envs.datasets.code_task import CodeTask

HELPER = "aux"
"""Name of the helper function of a team of two."""


def template_fields(task: CodeTask, helpers: Iterable[str]) -> dict[str, str]:
    """Return the values of the fields of all templates; `helpers` are the names of the helper functions."""
    return {
        "problem": task.prompt.strip("\n"),
        "entry_point": task.entry_point,
        "signature": task.signature,
        "helpers": ", ".join(helpers),
    }


def helper_number(helper: str) -> int:
    """Return the number at the end of the name of a helper function; 0 without."""
    return int(helper.rpartition("_")[2]) if "_" in helper else 0


def _prompt(opening: str, task: CodeTask, rules: list[str], header: str) -> str:
    only_code = (
        "Answer with Python code only: no explanations, no examples, no tests, no Markdown fences."
    )
    lines = [opening, "", "Problem:", task.prompt.strip("\n"), "", "Rules:"]
    lines += [f"- {line}" for line in (*rules, only_code)]
    lines += ["", "Format:", f"{header}:", "    # your code here", "    return result"]
    return "\n".join(lines)


def helper_prompt(task: CodeTask, helper: str, others: Sequence[str]) -> str:
    """Return the problem, and the description of a good helper; `others` are the helpers of team-mates."""
    main = f"`{task.entry_point}`"
    mates = f"A team-mate writes {main} at the same time and may call your helper."
    rules = [
        f"Name the function `{helper}` and choose the parameters that serve the problem.",
        f"Return data from which {main} can build its answer.",
    ]
    if others:
        kind = "helper" if len(others) == 1 else "helpers"
        mates = (
            f"Team-mates write {main}, which may call your helper, and the {kind} "
            f"{' and '.join(f'`{name}`' for name in others)} at the same time."
        )
        rules.append("Take a part of the problem that is of use by itself; define no other helper.")
    opening = f"Write a helper function named `{helper}` for the coding problem below. {mates}"
    return _prompt(opening, task, rules, f"def {helper}(...)")


def main_prompt(task: CodeTask, helpers: Sequence[str]) -> str:
    """Return the problem, and the rules for the use of helpers."""
    entry_point = task.entry_point
    rules = [f"Define `{entry_point}` with exactly the signature shown."]
    if not helpers:
        rules.append("Be complete: handle every case that the problem names.")
    elif len(helpers) == 1:
        rules += [
            f"A team-mate writes a helper function `{HELPER}(...)` for this problem at the same time. "
            f"You may call it and assign its result to a variable; do not define `{HELPER}` yourself.",
            f"Do work of your own beside the call: `{entry_point}` must not only return what "
            f"`{HELPER}` returns.",
        ]
    else:
        calls = ", ".join(f"`{helper}(...)`" for helper in helpers)
        rules += [
            f"Team-mates write the helper functions {calls} for this problem at the same time. You may "
            "call each of them and assign its result to a variable; do not define them yourself.",
            f"Do work of your own beside the calls: `{entry_point}` must not only return what the "
            "helpers return.",
        ]
    opening = f"Solve the coding problem below by writing the function `{entry_point}`."
    return _prompt(opening, task, rules, task.signature)
