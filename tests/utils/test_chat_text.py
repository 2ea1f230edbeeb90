"""The answer in a completion: without reasoning, later turns and invisible characters."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_decpomdp.utils.chat_text import REASONING, TURN_ENDS, find_answer

CODE = "def sq(x):\n    return x * x\n"
MARKERS = sorted({marker for markers in TURN_ENDS.values() for marker in markers})


@pytest.mark.parametrize("name", REASONING)
def test_reasoning_is_removed_by_its_tags(name):
    for text in (
        f"<{name}>a\nb</{name}>{CODE}",
        f"a\nb</{name}>{CODE}",
        f"<{name.upper()}>a</{name}>{CODE}",
    ):
        answer = find_answer(text)
        assert answer.text == CODE
        assert answer.reasoning == len(text) - len(CODE)


@pytest.mark.parametrize(
    "text",
    [
        f"[THINK]draft[/THINK]{CODE}",
        f"\u25c1think\u25b7draft\u25c1/think\u25b7{CODE}",
        f"<|START_THINKING|>draft<|END_THINKING|><|START_RESPONSE|>{CODE}<|END_RESPONSE|>",
        f"<|channel|>analysis<|message|>draft<|end|><|start|>assistant<|channel|>final<|message|>{CODE}<|return|>",
        f"<think>I close with </think> later. Draft</think>{CODE}",
        f"<think>a<think>b</think>c</think>{CODE}",
        f"<think>one</think>{CODE}<think>more</think>",
        f"<think>It's an \"open</think>{CODE}",
        f"I don't know</think>{CODE}",
    ],
)
def test_reasoning_of_other_templates_and_in_odd_places_is_removed(text):
    assert find_answer(text).text == CODE


def test_after_a_tag_that_stays_open_there_is_no_answer():
    assert find_answer(f"<think>Let's see.\n{CODE}").text == ""
    assert find_answer(f"{CODE}<think>Let's see.\n{CODE}").text == CODE


@pytest.mark.parametrize("marker", MARKERS)
def test_the_turn_ends_at_markers_of_chat_templates(marker):
    for after in ("", "\n", "user\nNow cube it.\n", f"\n{marker}user\n{CODE}"):
        answer = find_answer(f"{CODE}{marker}{after}")
        assert answer.text == CODE
        assert answer.after_turn == len(after)


@pytest.mark.parametrize(
    "text",
    [
        f"<|im_start|>assistant\n{CODE}<|im_end|>",
        f"<|start_header_id|>assistant<|end_header_id|>\n{CODE}<|eot_id|>",
        f"<start_of_turn>model\n{CODE}<end_of_turn>",
        f"<s>{CODE}</s>",
        f"<|assistant|>\n{CODE}<|end|>",
        f"<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{CODE}<|END_OF_TURN_TOKEN|>",
        f"<\uff5cAssistant\uff5c>{CODE}<\uff5cend\u2581of\u2581sentence\uff5c>",
        f"<|im_start|>user\nSquare it.<|im_end|>\n<|im_start|>assistant\n{CODE}<|im_end|>",
    ],
)
def test_headers_of_the_turn_are_no_part_of_the_answer(text):
    assert find_answer(text).text == CODE


@pytest.mark.parametrize("marker", [*MARKERS, "<think>", "</think>", "[THINK]", "<reasoning>"])
def test_markers_that_are_quoted_stay(marker):
    for text in (
        f"x = '{marker}'\n",
        f'x = "a" + f"{marker}" + "b"\n',
        f'x = """\n{marker}\n"""\ny = 1\n',
        f"x = 1  # {marker} or not\n",
        f"It splits at `{marker}`:\n\n{CODE}",
    ):
        assert find_answer(text).text == text


def test_a_marker_amid_a_sentence_is_a_mention():
    for text in (
        f"It cuts at <|im_end|> and strips.\n{CODE}",
        f"It removes the <think> tag.\n{CODE}",
    ):
        assert find_answer(text).text == text


def test_invisible_characters_are_removed_and_odd_blanks_are_spaces_outside_of_strings():
    text = "\ufeffdef sq(x):\u200b\n\u00a0\u00a0\u3000return '\u200b\u00a0'\u2060 * x\n"
    answer = find_answer(text)
    assert answer.text == "def sq(x):\n   return '\u200b\u00a0' * x\n"
    assert answer.invisible == 6


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([*MARKERS, "<think>", "</think>", "'", '"""', "\n", "a ", "`", "#"]))
)
def test_no_text_raises_and_none_grows(parts):
    text = "".join(parts)
    assert len(find_answer(text).text) <= len(text)


@pytest.mark.parametrize(
    "text", ["`a", '"\\', "<think>", "</think>", "<|im_end|>", "'''\"", "[INST", "\ufeff'"]
)
def test_a_long_text_takes_no_longer_than_its_length(text):
    find_answer(text * (1_000_000 // len(text)))


@pytest.mark.parametrize(
    "rest",
    [
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nnext",
        "<|im_end|>\n<|im_start|>user\nnext",
        "<end_of_turn>\n<start_of_turn>user\nnext",
        "</s>",
    ],
)
def test_a_turn_ends_in_a_comment_too(rest: str) -> None:
    code = "def f(x):\n    return x  # done"
    assert find_answer(code + rest).text == code


def test_a_comment_may_mention_a_marker() -> None:
    code = "def f(x):\n    # cut at <|im_end|>\n    return x  # or at </s>\n\n\nprint(f(1))\n"
    assert find_answer(code).text == code
