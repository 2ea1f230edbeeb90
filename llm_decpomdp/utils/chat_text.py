"""Find the answer in a completion: remove reasoning, later turns and invisible characters.

Text inside string literals, comments and Markdown's inline code is *quoted*: markers there stay, so that a program
that mentions `<think>` or `<|im_end|>` stays intact.

- **Reasoning** is the text between an opening and a closing tag of `REASONING`; their names may differ. A closing
  tag without an opening tag ends reasoning that began with the completion. After an opening tag that is never
  closed there is no answer. A tag in the middle of a sentence that is never closed is a mention of the tag.
- **The turn** ends at the first marker of `TURN_ENDS` after the beginning of the answer. Markers and names of
  roles before it are headers of the turn. A marker in a comment counts if another marker or nothing follows it.
- **Invisible characters** (`INVISIBLE`) outside string literals are removed. Unusual spaces (`BLANKS`) become
  ordinary spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

REASONING = tuple(
    "think thinking thought thoughts reason reasoning reflection analysis scratchpad seed:think "
    "inner_monologue".split()
)
"""Names of tags around reasoning, as `<think>` or `[THINK]`."""

TURN_ENDS = {
    "ChatML (Qwen, Yi, Hermes)": ("<|im_end|>", "<|im_start|>"),
    "GPT-2, StarCoder, OLMo": ("<|endoftext|>",),
    "Llama 3": ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|start_header_id|>"),
    "Llama 4": ("<|eot|>", "<|eom|>", "<|header_start|>"),
    "Llama 2, Mistral": ("</s>", "<s>", "[INST]", "[SYSTEM_PROMPT]"),
    "Gemma": ("<end_of_turn>", "<start_of_turn>", "<eos>", "<turn|>", "<|turn>"),
    "Phi": ("<|end|>", "<|user|>", "<|system|>", "<|endoftext|>"),
    "Zephyr, Falcon, Tulu, GLM": ("</s>", "<|user|>", "<|system|>", "<|observation|>"),
    "DeepSeek": ("<\uff5cend\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>", "<|EOT|>"),
    "Command-R": ("<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>", "<|END_RESPONSE|>"),
    "gpt-oss": ("<|return|>", "<|end|>", "<|start|>", "<|call|>"),
    "Granite": ("<|end_of_text|>", "<|start_of_role|>"),
    "EXAONE": ("[|endofturn|]", "[|user|]", "[|system|]"),
    "Seed": ("<seed:eos>", "<seed:bos>"),
    "others": ("<|eos|>", "<|end_of_turn|>", "<|endofturn|>", "<|separator|>", "<eos_token>"),
}
"""Markers of common chat templates at which a turn ends, or at which the next one begins."""

HEADERS = tuple(
    "[/INST] [|assistant|] <bos> <|begin_of_text|> <|startoftext|> <|assistant|> <|python_tag|> "
    "<|im_sep|> <|message|> <|end_header_id|> <|header_end|> <|end_of_role|> <|CHATBOT_TOKEN|> "
    "<|START_RESPONSE|> <\uff5cbegin\u2581of\u2581sentence\uff5c> <\uff5cAssistant\uff5c>".split()
)
"""Markers that introduce an answer. Any other `<|...|>` is removed like them."""

# Soft hyphen, zero-width spaces and joiners, marks of direction, byte order mark.
INVISIBLE = "\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
# No-break, thin and ideographic spaces, separators of lines and paragraphs.
BLANKS = "\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\u0085"

# A fence inside a triple-quoted string ends it here: the quotation mark was a stray one in prose.
_TRIPLE = r'"""(?:\\.|(?!"""|^[ \t]*```)[^\\])*"""' + r"|'''(?:\\.|(?!'''|^[ \t]*```)[^\\])*'''"
# A quote after a backslash opens no string, and so protects no marker: else each escaped quote of an open string
# would be tried to the end.
# The apostrophe of a word such as "don't" opens no string.
_STRING = (
    rf"(?<![\w\\])(?:[rbfuRBFU]{{1,2}})?(?:{_TRIPLE}"
    r'|"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*')"
)
_COMMENT = r"\#[^\n]*"
_QUOTED = rf"(?P<quoted>{_STRING}|{_COMMENT}|(?<!`)`[^`\n]+`(?!`))"
_FLAGS = re.MULTILINE | re.DOTALL

_NAMES = "|".join(map(re.escape, REASONING))
# Mistral's tag counts at the beginning of a line only: in code, a word in brackets is an index.
_OPEN = (
    rf"<(?:{_NAMES})>|^[ \t]*\[THINK\]|\u25c1think\u25b7|<\|START_THINKING\|>"
    r"|<\|channel\|>(?:analysis|commentary)\b[^<\n]*<\|message\|>|<\|inner_prefix\|>"
)
_CLOSE = rf"</(?:{_NAMES})>|\[/THINK\]|\u25c1/think\u25b7|<\|END_THINKING\|>|<\|inner_suffix\|>"
_FINAL = r"<\|channel\|>final[^<\n]*<\|message\|>"
# gpt-oss writes in channels: `analysis` and `commentary` are reasoning, `final` is the answer.
_HARMONY_END = re.compile(rf"<\|end\|>(?:<\|start\|>assistant)?(?:{_FINAL})?|{_FINAL}")
_TAG = re.compile(rf"{_QUOTED}|(?P<close>{_CLOSE})|(?P<open>{_OPEN})", _FLAGS | re.IGNORECASE)
_CLOSING_TAG = re.compile(_CLOSE, re.IGNORECASE)

_ENDS = "|".join(
    # In code, a word in brackets is an index: such a marker counts only at the beginning of a line.
    (r"^[ \t]*" if marker[0] == "[" and marker[1] != "|" else "") + re.escape(marker)
    for marker in dict.fromkeys(marker for markers in TURN_ENDS.values() for marker in markers)
)
_LAST_WORD = rf"(?=[<\[])(?:{_ENDS})\s*(?:<[|\uff5c/a-z]|\[\||\Z)"
"""A marker that ends the turn in a comment, too: another marker follows it, or nothing."""

_HEADERS = "|".join(map(re.escape, HEADERS))
_MARKER = re.compile(
    _QUOTED.replace(_COMMENT, rf"\#(?:(?!{_LAST_WORD})[^\n])*")
    + rf"|(?P<end>{_ENDS})|(?P<header>{_HEADERS}"
    r"|<\|[\w .:-]{1,40}\|>|<\uff5c[^\uff5c<>\n]{1,40}\uff5c>)",
    _FLAGS,
)
# A cheap test: most completions have no marker, and the long pattern takes time.
_ANY_MARKER = re.compile(r"<[|\uff5c/a-z]|\[/?(?:INST|SYSTEM_PROMPT)|\[\|")
_AFTER_MENTION = re.compile(r"[ ,.;:!?)]+\w")
_ROLE = re.compile(
    r"\s*(?:(?:assistant|model|chatbot|final|python)[ \t]*(?:\n|$)|(?<=\n)|$)", re.IGNORECASE
)
_OTHER_ROLE = re.compile(r"\s*(?:user|system|human|tool|ipython)[ \t]*(?:\n|$)", re.IGNORECASE)
# Models that are asked for a format put the answer into tags, which are no code.
_WRAPPER = re.compile(
    rf"{_QUOTED}|(?P<tag></?(?:answer|response|solution|code|python|output|final_answer)>"
    r"|^[ \t]*\[/?(?:PYTHON|ANSWER)\][ \t]*$)",
    _FLAGS | re.IGNORECASE,
)
_ODD = re.compile(f"[{INVISIBLE}{BLANKS}]")
_BLANK = re.compile(f"[{BLANKS}]")
_ODD_OR_STRING = re.compile(rf"(?P<quoted>{_STRING})|[{INVISIBLE}{BLANKS}]", _FLAGS)


@dataclass(frozen=True)
class Answer:
    """The answer in a completion, and the amount of text that was removed around it."""

    text: str
    reasoning: int = 0
    """Characters of reasoning."""
    after_turn: int = 0
    """Characters after the end of the turn."""
    invisible: int = 0
    """Characters that were removed, or became a space."""


def find_answer(completion: str) -> Answer:
    """Extract the answer of a completion, with line ends as on Unix. The time is linear in the length."""
    # One kind of line end, so that patterns and line numbers need no others.
    text = completion.replace("\r\n", "\n").replace("\r", "\n")
    # Before tags are looked for: an invisible character inside a tag would hide it.
    text, invisible = _remove_odd_characters(text)
    size = len(text)
    # Before the turn is cut: reasoning may quote the markers at which a turn ends.
    text = _remove_reasoning(text)
    reasoning = size - len(text)
    text, after_turn = _first_turn(text)
    if "<" in text or "[" in text:
        text = _WRAPPER.sub(lambda match: match[0] if match["quoted"] else "\n", text)
    return Answer(text, reasoning, after_turn, invisible)


def _remove_odd_characters(text: str) -> tuple[str, int]:
    """Return the text without invisible characters and unusual spaces, and their number."""
    if text.isascii() or not _ODD.search(text):
        return text, 0
    count = 0

    def usual(match: re.Match[str]) -> str:
        nonlocal count
        if match["quoted"]:
            return match[0]
        count += 1
        return " " if _BLANK.match(match[0]) else ""

    return _ODD_OR_STRING.sub(usual, text), count


def _remove_reasoning(text: str) -> str:
    if "<" not in text and "[" not in text and "\u25c1" not in text:
        return text
    parts: list[str] = []
    position = 0
    absent: set[re.Pattern[str]] = set()  # ends that do not follow: a text may mention many tags
    while match := next(_unquoted_matches(_TAG, text, position), None):
        if match["close"]:  # a template may have put the opening tag into the prompt
            parts, position = [], match.end()
            continue
        harmony = match[0].startswith("<|channel|>")
        end = _HARMONY_END if harmony else _CLOSING_TAG
        closing = None if end in absent else end.search(text, match.end())
        if closing is None:
            absent.add(end)
        if closing is None and _is_mention(text, match):
            parts.append(text[position : match.end()])
            position = match.end()
            continue
        parts.append(text[position : match.start()])
        if closing is None:
            return "".join(parts)
        position = closing.end()
    return "".join([*parts, text[position:]])


def _first_turn(text: str) -> tuple[str, int]:
    """Return the first turn that has an answer, without markers, and the number of characters after it."""
    if not _ANY_MARKER.search(text):
        return text, 0
    answer: list[str] = []
    position = 0

    def add(segment: str) -> None:
        # Between two markers before the answer stands a header, or another role's turn.
        if not answer and position:
            if _OTHER_ROLE.match(segment):
                return
            role = _ROLE.match(segment)
            segment = segment[role.end() :] if role else segment
        if answer or segment.strip():
            answer.append(segment)

    for match in _unquoted_matches(_MARKER, text):
        if match["end"] and _is_mention(text, match):
            continue
        add(text[position : match.start()])
        position = match.end()
        if answer and match["end"]:
            return "".join(answer), len(text) - position
    add(text[position:])
    return "".join(answer), 0


def _is_mention(text: str, marker: re.Match[str]) -> bool:
    """Check whether a marker stands amid a sentence: text, a blank, the marker, and text on the same line."""
    begin, end = marker.span()
    before = text[max(begin - 2, 0) : begin]
    return _AFTER_MENTION.match(text, end) is not None and (
        re.fullmatch(r"[^\s|>\]][ (]", before) is not None
    )


def _unquoted_matches(
    pattern: re.Pattern[str], text: str, position: int = 0
) -> Iterator[re.Match[str]]:
    return (match for match in pattern.finditer(text, position) if match["quoted"] is None)
