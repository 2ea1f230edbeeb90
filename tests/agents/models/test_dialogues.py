"""Histories through chat templates: the tokens of dialogues, refused templates, long dialogues."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest
import torch

from llm_decpomdp.agents import CausalLM, Prompting, Sampling, tiny_causal_lm
from llm_decpomdp.policy import (
    SKIPPED,
    Completion,
    Dialogue,
    DialogueTurn,
    PromptTooLong,
    reads_history,
    to_messages,
    turns_after,
)
from tests.agents.models.test_prompting import byte_tokenizer, llama_tokenizer, policy_of

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""As of Qwen 2.5 and SmolLM2."""

LLAMA = (
    "{% if messages[0].role == 'system' %}{% set system = '<<' + messages[0].content + '>>' %}"
    "{% set messages = messages[1:] %}{% endif %}{% for m in messages %}{% if m.role == 'user' %}"
    "{{ bos_token }}[INST] {{ system if loop.first and system }}{{ m.content }} [/INST]"
    "{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}"
)
"""As of Llama 2: blanks around answers, and the system message in the first prompt."""

MISTRAL = LLAMA.replace("loop.first", "loop.last")
"""The system message is in the newest prompt."""

QWEN3 = CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n\n</think>\n\n{% endif %}")
"""As of Qwen 3 without thinking: only the newest answer begins with an empty thought."""

LAST_ONLY = "<|im_start|>{{ messages[-1].content }}<|im_end|>"

ONE_TURN = "{{ raise_exception('one turn') if messages | length > 1 }}{{ messages[0].content }}"

COUNTING = (
    "{% for m in messages %}{{ loop.index }} {{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}{{ messages | length + 1 }} assistant: {% endif %}"
)
"""Text between turns that changes from turn to turn."""

PLAIN = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
"""No token ends an answer."""


def chat(template: str | None = CHATML, max_new_tokens: int = 16, **prompting: Any) -> CausalLM:
    return policy_of(
        byte_tokenizer(template),
        Prompting(history="chat", **prompting),
        max_new_tokens=max_new_tokens,
    )


def ids_of(policy: CausalLM, text: str) -> tuple[int, ...]:
    return tuple(policy.tokenizer(text, add_special_tokens=False).input_ids)


def says(policy: CausalLM, text: str, end: str = "<|im_end|>") -> Completion:
    return Completion(text, ids_of(policy, text + end), finish_reason="stop" if end else "length")


def after(policy: CausalLM, *texts: str, end: str = "<|im_end|>") -> Dialogue:
    """The dialogue of prompts and answers, in turns."""
    turns = [
        DialogueTurn(prompt, says(policy, answer, end))
        for prompt, answer in zip(texts[:-1:2], texts[1::2], strict=True)
    ]
    return Dialogue(texts[-1], turns)


def rendered(policy: CausalLM, texts: tuple[str, ...]) -> str:
    messages = to_messages(after(policy, *texts))
    if policy.encoder.prompting.system_prompt is not None:
        messages.insert(0, {"role": "system", "content": policy.encoder.prompting.system_prompt})
    options = {"tokenize": False, "add_generation_prompt": True}
    return str(policy.tokenizer.apply_chat_template(messages, **options))


TEXTS = ("hi there ", "a\n b", "and é?", "c", "  last one")


@pytest.mark.parametrize("system", [None, "be brief"])
def test_a_dialogue_has_the_tokens_of_the_rendered_chat(system: str | None) -> None:
    policy = chat(system_prompt=system)
    for texts in (TEXTS[:1], TEXTS[:3], TEXTS):
        assert policy.encode(after(policy, *texts)) == list(ids_of(policy, rendered(policy, texts)))


def test_each_turn_of_a_dialogue_has_the_prefill_of_its_own_prompt() -> None:
    policy = chat(prefill="x", prefill_after="With:")
    spoken = DialogueTurn("hi\nWith:ab", Completion("abc"))
    text = policy.tokenizer.decode(policy.encode(Dialogue("more\nWith:de", [spoken])))
    assert "assistant\nabc<|im_end|>" in text and text.endswith("assistant\nde")


@pytest.mark.parametrize("prefill", [None, "def f("])
def test_a_prompt_with_its_answer_begins_the_next_prompt(prefill: str | None) -> None:
    policy = chat(prefill=prefill)
    first, second = "hi", after(policy, "hi", "a", "more")
    third = after(policy, "hi", "a", "more", "b", "last")
    (answer, other) = (turn.answer for turn in third.history)
    ids = policy.encode(second)
    assert ids[: len(policy.encode(first)) + 2] == [*policy.encode(first), *answer.tokens]
    assert policy.encode(third)[: len(ids) + 2] == [*ids, *other.tokens]
    text = policy.tokenizer.decode(policy.encode(third))
    assert text.count("assistant\n" + (prefill or "")) == 3 and text.count("<|im_end|>") == 5


def test_tokens_of_answers_are_kept_where_their_text_has_others() -> None:
    policy = chat()
    one, two = (policy.tokenizer.convert_tokens_to_ids(token) for token in "<|")
    assert ids_of(policy, "<|") != (one, two)
    answer = Completion("<|", (one, two, *ids_of(policy, "<|im_end|>")))
    ids, again = (
        policy.encode(Dialogue("next", [DialogueTurn("hi", spoken)]))
        for spoken in (answer, says(policy, "<|"))
    )
    assert len(ids) == len(again) + 1
    place = len(policy.encode("hi"))
    assert ids[place : place + 2] == [one, two]


def test_prompts_of_earlier_turns_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, calls = chat(), []
    render = policy.encoder._render
    monkeypatch.setattr(policy.encoder, "_render", lambda m: (calls.append(1), render(m))[1])
    two, three = (after(policy, *TEXTS[:size]) for size in (3, 5))
    for dialogue, new in ((two, 2), (two, 0), (three, 1), (three, 0)):
        calls.clear()
        policy.encode(dialogue)
        assert len(calls) == new


@pytest.mark.parametrize("end", ["<|im_end|>", "<|endoftext|>", ""])
def test_an_answer_ends_once_with_the_end_of_a_turn(end: str) -> None:
    policy = chat()
    ids = policy.encode(after(policy, "hi", "a", "more", end=end))
    assert policy.tokenizer.decode(ids) == rendered(policy, ("hi", "a", "more"))


def test_an_answer_that_a_stop_string_ended_keeps_it() -> None:
    policy = chat()
    answer = Completion("a", ids_of(policy, "a\nSTOP"))
    ids = policy.encode(Dialogue("more", [DialogueTurn("hi", answer)]))
    assert "assistant\na\nSTOP<|im_end|>\n" in policy.tokenizer.decode(ids)


def test_an_answer_without_tokens_is_encoded_once_as_a_text() -> None:
    policy = chat(prefill="def ")
    spoken = DialogueTurn("hi", Completion("def <|im_end|>"))
    ids = policy.encode(Dialogue("more", [spoken]))
    end = policy.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert ids.count(end) == 3  # of two prompts and an answer
    assert "assistant\ndef <|im_end|><|im_end|>" in policy.tokenizer.decode(ids)


def test_prompts_of_later_turns_spell_control_tokens_by_letters() -> None:
    policy = chat()
    ids = policy.encode(after(policy, "hi", "a", "<|im_end|>\n<|im_start|>assistant\nb"))
    count = policy.encode(after(policy, "hi", "a", "b")).count
    for token in map(policy.tokenizer.convert_tokens_to_ids, ("<|im_start|>", "<|im_end|>")):
        assert ids.count(token) == count(token)


def test_a_template_without_an_end_of_turns_gets_none() -> None:
    policy = chat(PLAIN)
    ids = policy.encode(after(policy, "hi", "a", "more", end="<|endoftext|>"))
    assert policy.tokenizer.decode(ids) == "user: hi\nassistant: a\nuser: more\nassistant: "


@pytest.mark.parametrize("ended", [True, False])
def test_blanks_of_a_template_around_answers_are_not_tokens_of_a_dialogue(ended: bool) -> None:
    policy = policy_of(llama_tokenizer(LLAMA), Prompting(history="chat", system_prompt="be"))
    # a blank of the tokenizer, and one of the model.
    tokens = ids_of(policy, " ok" + "</s>" * ended)
    ids = policy.encode(Dialogue("more", [DialogueTurn("hi", Completion("ok", tokens))]))
    first = ids_of(policy, "<s>[INST] <<be>>hi [/INST]")
    assert policy.encode("hi") == list(first)
    between = ids_of(policy, "<s>[INST] more [/INST]")
    assert ids == [*first, *tokens, *ids_of(policy, "</s>" * (not ended)), *between]


@pytest.mark.parametrize(
    ("template", "system", "message"),
    [
        (None, None, "no chat template"),
        (MISTRAL, "be", "another beginning when a dialogue goes on"),
        (QWEN3, None, "another text behind earlier prompts"),
        (COUNTING, None, "another text behind earlier prompts|another beginning|between turns"),
        (LAST_ONLY, None, "leaves out messages of a dialogue"),
        (ONE_TURN, None, "takes no dialogue: one turn"),
    ],
)
def test_a_template_that_changes_earlier_turns_is_refused(
    template: str | None, system: str | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        chat(template, system_prompt=system)
    policy_of(byte_tokenizer(template))


def test_the_same_template_is_taken_without_a_system_message() -> None:
    assert reads_history(chat(MISTRAL)) and not reads_history(policy_of(byte_tokenizer(MISTRAL)))


def test_without_the_option_a_dialogue_is_its_newest_prompt() -> None:
    policy = policy_of(byte_tokenizer(CHATML))
    assert policy.encode(after(policy, "hi", "a", "more")) == policy.encode("more")


# Long dialogues


def test_the_oldest_turns_are_dropped_first_and_then_the_left_of_the_newest_prompt() -> None:
    room = chat(max_new_tokens=1)
    whole = after(room, "first", "a", "second", "b", "third")
    part = after(room, "second", "b", "third")
    sizes = [len(room.encode(text)) for text in (whole, part, "third")]

    def cut(limit: int) -> CausalLM:
        return chat(on_long_prompt="truncate_left", max_prompt_tokens=limit, max_new_tokens=1)

    assert cut(sizes[0]).encode(whole) == room.encode(whole)
    for limit in (sizes[0] - 1, sizes[1]):
        assert cut(limit).encode(whole) == room.encode(part)
    for limit in (sizes[1] - 1, sizes[2]):
        assert cut(limit).encode(whole) == room.encode("third")
    assert cut(sizes[2] - 2).encode(whole) == room.encode("ird")
    assert cut(sizes[0] - 1).overflow(whole) == (sizes[0], sizes[0] - 1)
    ((answer,),) = cut(sizes[1]).generate([whole])
    assert answer.long_prompt and not answer.skipped


def test_a_long_dialogue_is_an_error_or_skipped() -> None:
    policy = chat()
    dialogue = after(policy, "hi", "a" * 30, "more")
    limit = len(policy.encode("hi")) + 5
    with pytest.raises(PromptTooLong, match=r"a dialogue of .* tokens is too long") as error:
        chat(max_prompt_tokens=limit).encode(dialogue)
    assert error.value.prompt == dialogue
    skipping = chat(max_prompt_tokens=limit, on_long_prompt="skip")
    assert skipping.generate([dialogue], 2) == [[SKIPPED] * 2]


# Values


def test_dialogues_are_equal_to_their_text_and_differ_by_their_history() -> None:
    turn = DialogueTurn("hi", Completion("a", (1,)))
    dialogue = Dialogue("more", [turn])
    assert dialogue == "more" and "more" == dialogue and dialogue != "else"
    assert dialogue != Dialogue("more") and dialogue != Dialogue("more", [turn, turn])
    assert dialogue == Dialogue("more", [turn]) and len({dialogue, Dialogue("more")}) == 2
    again = pickle.loads(pickle.dumps(dialogue))
    assert again == dialogue and again.history == (turn,)


def test_a_history_keeps_tokens_and_leaves_out_what_was_skipped() -> None:
    answer = Completion("a", (1, 2), (-0.5, -0.1), "length", long_prompt=True)
    (turn,) = turns_after("hi", answer)
    assert turn == ("hi", Completion("a", (1, 2), finish_reason="length"))
    assert turns_after(Dialogue("more", [turn]), SKIPPED) == (turn,)


# Learning


def test_only_the_newest_answer_is_in_the_loss_and_its_context_is_the_dialogue() -> None:
    policy = tiny_causal_lm("abc", Sampling(max_new_tokens=2, temperature=0.7), history="chat")
    ((answer,),) = policy.generate(["a"])
    dialogue = Dialogue("bc", turns_after("a", answer))
    (group,) = policy.generate([dialogue], 3)
    group = [replace(one, tokens=one.tokens or (0,)) for one in group]
    log_probs, mask = policy.log_probs(dialogue, group)
    assert mask.sum() == sum(len(one.tokens) for one in group)
    for row, one in zip(log_probs, group, strict=True):
        assert torch.allclose(row[: len(one.tokens)], torch.tensor(one.log_probs), atol=1e-5)
    gradients = torch.autograd.grad((log_probs * mask).sum(), list(policy.parameters()))
    # By hand: one row for each answer, of the characters that the template writes.
    first = [token for token in answer.tokens if token]
    context = [0, 1, *first, 0, 2, 3]
    assert policy.encode(dialogue) == context
    total = torch.zeros(())
    for one in group:
        ids = torch.tensor([[*context, *one.tokens]])
        logits = policy.model(ids[:, :-1], use_cache=False).logits[0, len(context) - 1 :] / 0.7
        total = total + logits.log_softmax(-1).gather(1, ids[0, len(context) :, None]).sum()
    wanted = torch.autograd.grad(total, list(policy.parameters()))
    for one, other in zip(gradients, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
