"""The text of the expert's exchange: what it is asked, and how its answer is read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping

NOTHING_TO_CHANGE = "No changes needed."
"""The expert's answer about code that is right."""

_DECODER = json.JSONDecoder(strict=False)  # raw newlines and tabs inside strings are fine

_TEAM = """\
Two agents solved a Python programming problem together. `aux` wrote a helper function named \
`aux`; `main` wrote the function that the problem asks for, and should call `aux` if that helps."""

_LARGER_TEAM = """\
{number} agents solved a Python programming problem together. {others} each wrote a helper \
function that bears the agent's name; `main` wrote the function that the problem asks for, and should \
call the helpers if that helps."""

_ALONE = """\
An agent, `main`, solved a Python programming problem: it wrote the function that \
the problem asks for."""

_OTHER_TEAMS = {
    "coder": "{who} completed a Python class: each agent wrote some of the methods that the skeleton leaves open, "
    "and no method was asked of two.",
    "fixer": "{who} repaired a Python program with one or more bugs: each agent submitted the functions that are "
    "its own again, changed or not, and no function was asked of two.",
}
"""The work of a team whose agents all have the same role, by that role."""

_INSTRUCTION = """\
You are an experienced Python programmer who reviews other people's code. {who}

The problem:
<problem>
{problem}
</problem>

The code as it was written:
{code}

For each agent, say what it should change so that the program is correct:
- If what it should have written is missing, give a minimal correct implementation.
- If its code needs changes, give concise edits: only the lines that change, with enough \
context to place them.
- If nothing should change, answer "{nothing}"

Answer with one JSON object and nothing else: no Markdown fences, no text around it. Its keys are \
exactly {keys}; every value is one string with your text for that agent. Escape quotes and \
newlines as JSON demands."""


def expert_prompt(task_prompt: str, code: Mapping[str, str]) -> str:
    """Return the request for edits. It shows the problem and the agents' code, never a test.

    Args:
        task_prompt: The problem as the data set states it.
        code: Each agent's code by the key that the expert shall use, such as `aux` and `main`.
    """
    return _INSTRUCTION.format(
        who=_who(list(code)),
        problem=task_prompt.strip(),
        code="\n".join(f"<{key}>\n{text.strip()}\n</{key}>" for key, text in code.items()),
        nothing=NOTHING_TO_CHANGE,
        keys=" and ".join(f'"{key}"' for key in code),
    )


def _who(keys: list[str]) -> str:
    role = keys[0].partition("_")[0]
    if role in _OTHER_TEAMS:
        return _OTHER_TEAMS[role].format(
            who="An agent" if len(keys) == 1 else f"{len(keys)} agents"
        )
    if keys == ["main"]:
        return _ALONE
    if set(keys) == {"aux", "main"}:
        return _TEAM
    others = " and ".join(f"`{key}`" for key in keys if key != "main")
    return _LARGER_TEAM.format(number=len(keys), others=others)


def short_names(agents: Collection[str]) -> dict[str, str]:
    """Return the expert's name of each agent: its role where no other agent has the same, else its id."""
    roles = Counter(agent.rpartition("_")[0] for agent in agents)
    names = {agent: agent.rpartition("_")[0] for agent in agents}
    return {agent: name if roles[name] == 1 else agent for agent, name in names.items()}


def message_text(body: str) -> str:
    """Return the model's text in the body of an OpenAI-compatible or Anthropic response.

    A body without one (a web page, a refusal, a broken server) is returned as it is, for an error
    to quote.
    """
    try:
        response = json.loads(body)
        if "choices" in response:
            parts = [response["choices"][0]["message"]["content"]]
        else:
            parts = [part["text"] for part in response["content"] if part["type"] == "text"]
        return "".join(parts)
    except (ValueError, LookupError, TypeError, RecursionError):
        return body


def read_reply(reply: str, keys: Collection[str]) -> dict[str, str] | None:
    """Return the first JSON object in `reply` that holds a string for every one of `keys`.

    Each opening brace is tried with a real decoder, so braces inside strings, fences, and text or
    further objects around the answer do no harm. Other keys of the object are dropped.

    Returns:
        One UTF-8 encodable text for each key, or None where there is no such object.
    """
    start = reply.find("{")
    while start >= 0:
        try:
            answer, _ = _DECODER.raw_decode(reply, start)
        except (ValueError, RecursionError):  # a number may have too many digits
            answer = {}
        if all(isinstance(answer.get(key), str) for key in keys):
            return {key: answer[key].encode("utf-8", "replace").decode() for key in keys}
        start = reply.find("{", start + 1)
    return None
