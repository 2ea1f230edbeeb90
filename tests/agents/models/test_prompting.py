from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.agents.inference.options import Prompting, Sampling
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.engine import ModelEngine
from llm_decpomdp.agents.saved_team import load_saved_team, save_team
from llm_decpomdp.policy import SKIPPED, PromptTooLong, policy_attribute
from tests.agents.conftest import tiny_model, tiny_tokenizer

TEMPLATE = (
    "{% for m in messages %}{{ m.role }}, {{ m.content }}\n{% endfor %}"
    "{% if mood is defined %}be {{ mood }}\n{% endif %}"
)
REFUSING = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{{ messages[0].content }}"
)
DROPPING = (
    "{% for m in messages %}{% if m.role == 'user' %}[{{ m.content }}]{% endif %}{% endfor %}"
)
IN_PARTS = (
    "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}"
)
"""Of models for pictures too, whose content is a list."""


def asked(template: str | None = TEMPLATE, max_new_tokens: int = 12, **prompting: Any) -> CausalLM:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    engine = ModelEngine(tiny_model(0), tokenizer, compute_dtype="float32")
    sampling = Sampling(max_new_tokens=max_new_tokens)
    return CausalLM(engine, sampling, prompting=Prompting(**prompting))


def seen(policy: CausalLM, prompt: str) -> str:
    return str(policy.tokenizer.decode(policy.encode(prompt)))


def test_a_system_prompt_and_variables_go_through_the_template() -> None:
    assert seen(asked(), "hello") == "user, hello\n"
    policy = asked(system_prompt="act", chat_template_kwargs={"mood": "calm"})
    assert seen(policy, "hello") == "system, act\nuser, hello\nbe calm\n"
    assert seen(asked(system_prompt=""), "hello") == "system, \nuser, hello\n"
    said = policy.encoder.describe()
    assert said == (
        "prompts are user messages of the chat template after a system prompt of 3 characters, mood='calm'"
    )
    assert "sent as they are" in asked(None).encoder.describe()


@pytest.mark.parametrize(
    ("template", "prompting", "message"),
    [
        (None, {"system_prompt": "act"}, "no chat template that would read system_prompt"),
        (None, {"chat_template_kwargs": {"mood": "calm"}}, "would read mood"),
        (TEMPLATE, {"chat_template_kwargs": {"moood": "calm"}}, "takes no 'moood'"),
        (TEMPLATE, {"chat_template_kwargs": {"messages": []}}, "takes no 'messages'"),
        (REFUSING, {"system_prompt": "act"}, "takes no system_prompt: no system"),
        (DROPPING, {"system_prompt": "act"}, "leaves out the system message"),
        (DROPPING, {"system_prompt": ""}, "leaves out the system message"),
        (IN_PARTS, {}, "leaves out the user message"),
    ],
)
def test_what_no_template_reads_is_refused(
    template: str | None, prompting: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        asked(template, **prompting)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"max_prompt_tokens": 0}, "at least 1, got 0"), ({"on_long_prompt": "drop"}, "skip")],
)
def test_values_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Prompting(**options)


def test_a_prompt_that_is_too_long_is_an_error_that_says_what_fits() -> None:
    policy = asked()
    assert policy_attribute(policy, "overflow") and policy_attribute(policy, "on_long_prompt")
    assert policy.overflow("a" * 109) is None
    assert policy.overflow("a" * 110) == (117, 116)
    with pytest.raises(PromptTooLong, match=r"117 tokens .* takes 116 \(its context of 128 less"):
        policy.generate(["ab", "a" * 110])
    with pytest.raises(PromptTooLong, match=r"takes 10 \(max_prompt_tokens\)"):
        asked(max_prompt_tokens=10).encode("abcd")


def test_a_skipped_prompt_is_answered_by_nothing_and_changes_no_other() -> None:
    policy, short = asked(on_long_prompt="skip"), asked(on_long_prompt="skip")
    first, long, last = policy.generate(["ab", "a" * 110, "cd"], 3)
    assert long == [SKIPPED] * 3 and long[0].skipped and long[0].text == ""
    assert [first, last] == short.generate(["ab", "cd"], 3)
    assert not any(one.skipped or one.long_prompt for one in (*first, *last))
    assert policy.generate(["a" * 110], 2) == [[SKIPPED] * 2]


@pytest.mark.parametrize("template", [TEMPLATE, None])
def test_the_left_of_a_long_prompt_is_cut_off_and_the_template_stays_whole(
    template: str | None,
) -> None:
    policy = asked(template, max_prompt_tokens=12, on_long_prompt="truncate_left")
    frame = "user, {}\n" if template else "{}"
    room = 12 - len(frame.format(""))
    text = "the end is near"
    assert seen(policy, text) == frame.format(text[-room:])
    assert seen(policy, text[-room:]) == frame.format(text[-room:])
    (cut,) = policy.generate([text], 2)
    assert all(one.long_prompt and one.tokens and not one.skipped for one in cut)
    log_probs, _ = policy.log_probs(text, cut[:1])
    assert torch.allclose(log_probs[0], torch.tensor(cut[0].log_probs), atol=1e-4)


def test_where_the_template_alone_is_too_long_nothing_can_be_cut() -> None:
    policy = asked(system_prompt="a" * 20, max_prompt_tokens=12, on_long_prompt="truncate_left")
    with pytest.raises(PromptTooLong):
        policy.encode("hello")


def test_a_saved_team_is_asked_as_before(tmp_path: Path) -> None:
    policy = asked(
        system_prompt="act",
        chat_template_kwargs={"mood": "calm"},
        max_prompt_tokens=40,
        on_long_prompt="skip",
    )
    save_team({"x": policy}, tmp_path / "team")
    back = load_saved_team(tmp_path / "team")["x"]
    assert isinstance(back, CausalLM)
    assert back.encoder.prompting == policy.encoder.prompting
    assert back.encode("hello") == policy.encode("hello")
