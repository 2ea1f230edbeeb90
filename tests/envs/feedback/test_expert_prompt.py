"""The expert's instruction and the reading of its reply."""

from __future__ import annotations

import json

import pytest

from llm_decpomdp.envs.feedback.experts import expert_prompt, message_text, read_reply, short_names

ANSWER = {"aux": "return {'a': {1: {2}}}", "main": 'use "aux" }{ here'}
GOOD = json.dumps(ANSWER)


def test_the_prompt_keeps_braces_of_problem_and_code() -> None:
    prompt = expert_prompt("Return {0} or {who}.", {"aux": "{x!r}", "main": "{}"})
    assert "Return {0} or {who}." in prompt and "{x!r}" in prompt


def test_the_prompt_itself_holds_no_readable_reply() -> None:
    assert read_reply(expert_prompt("Write solve(n).", {"aux": "", "main": ""}), ["main"]) is None


@pytest.mark.parametrize(
    ("agents", "told", "untold"),
    [
        (["aux_0", "main_0"], ["Two agents", "named `aux`", "`main`"], "class"),
        (["main_0"], ["An agent, `main`"], "aux"),
        (["aux_0", "aux_1", "main_0"], ["3 agents", "`aux_0` and `aux_1`"], "class"),
        (["coder_0", "coder_1"], ["2 agents completed a Python class"], "`main`"),
        (["coder_0"], ["An agent completed a Python class"], "`main`"),
        (
            ["fixer_0", "fixer_1"],
            ["2 agents repaired a Python program with one or more bugs"],
            "class",
        ),
        (["fixer_0"], ["An agent repaired a Python program"], "class"),
    ],
)
def test_the_prompt_says_what_the_team_did(agents: list[str], told: list[str], untold: str) -> None:
    keys = list(short_names(agents).values())
    prompt = expert_prompt("The text.", dict.fromkeys(keys, "CODE"))
    assert all(words in prompt for words in (*told, *(f"<{key}>\nCODE" for key in keys)))
    assert untold not in prompt
    assert " and ".join(f'"{key}"' for key in keys) in prompt


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        f"```json\n{json.dumps(ANSWER, indent=2)}\n```",
        f"Sure {{here}} it is:\n{GOOD}\nHope that {{helps}}!",
        f'{GOOD}\nAn example: {{"x": 1}}',
        f'First, {{"x": 1}}; then {GOOD}',
        f"{GOOD}{json.dumps({'aux': 'later', 'main': 'later'})}",
        json.dumps({"edits": ANSWER}),
        json.dumps({**ANSWER, "note": {"a": {"b": {"c": 1}}}}),
        f'{{"aux": {"1" * 5000}, "main": "x"}} {GOOD}',
    ],
    ids=["plain", "fenced", "prose", "example", "after", "first", "nested", "extra", "huge number"],
)
def test_the_first_object_with_every_key_is_read(reply: str) -> None:
    assert read_reply(reply, ["aux", "main"]) == ANSWER


@pytest.mark.parametrize(
    "code",
    [
        "d = {1: {2: {3: {}}}}",
        'print("{")',
        "```python\nx = {}\n```",
        "}}}",
        '{"main": "not this"}',
        "\\d+\t'\"",
        "\u00e9\u4e2d\U0001f600",
        "",
    ],
)
def test_any_code_survives(code: str) -> None:
    reply = f"```json\n{json.dumps({'main': code})}\n```"
    assert read_reply(reply, ["main"]) == {"main": code}


def test_raw_newlines_and_tabs_inside_strings_are_read() -> None:
    assert read_reply('{"main": "def f():\n\treturn {}"}', ["main"]) == {
        "main": "def f():\n\treturn {}"
    }


def test_lone_surrogates_become_encodable() -> None:
    assert read_reply('{"main": "a\\ud800b"}', ["main"]) == {"main": "a?b"}


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "no edits",
        '{"aux": "a"}',
        '{"aux": "a", "main": 1}',
        '{"aux": "a", "main": null}',
        '{"aux": "a", "main": ["b"]}',
        '["aux", "main"]',
        '{"aux": "a", "main": "cut of',
        '{"a":' * 5_000,
    ],
    ids=["empty", "prose", "missing", "number", "null", "list", "array", "cut", "deep"],
)
def test_replies_without_every_string_are_unreadable(reply: str) -> None:
    assert read_reply(reply, ["aux", "main"]) is None


def test_a_refusal_without_content_keeps_its_body_for_the_error() -> None:
    body = '{"choices": [{"message": {"content": null, "refusal": "no"}}]}'
    assert message_text(body) == body
