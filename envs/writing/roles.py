"""Roles of writing: two for each genre, one for a single agent, and their first prompts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from llm_decpomdp.envs.writing.tasks import WritingTask
from llm_decpomdp.envs.writing.text_measures import TextPair
from llm_decpomdp.utils.chat_text import find_answer

MAX_READ = 20_000
"""Number of characters of a text that count. Texts with points have at most 384 words."""

DELIMITER = "[PARAGRAPH_SPLIT]"

DELIMITERS = (
    re.compile(r"\\?\[PARAGRAPH(?:\\?_| )SPLIT\\?\]|\bPARAGRAPH\\?_SPLIT\b", re.IGNORECASE),
    re.compile(
        r"(?:paragraph 2|^[*_# \t]{0,9}second paragraph)[*_]*:|<second paragraph>",
        re.IGNORECASE | re.MULTILINE,
    ),
)
"""Forms of the delimiter, and separators in a text without it."""

LABEL = re.compile(
    r"[*_#\s]*(?:(?:paragraph [12]|(?:first|second) paragraph)[*_]*:[*_]*|<(?:first|second) paragraph>)",
    re.IGNORECASE,
)
"""What may stand before a paragraph."""

EDGES = " \t\n*_`#>"
"""Blanks and marks of Markdown around the delimiter."""


@dataclass(frozen=True)
class WriterRole:
    """Writes one of the two texts of a genre."""

    agent: str
    title: str
    """Name of the text in prompts, such as `summary`."""
    opening: str
    heading: str
    """Heading above the source."""
    rules: tuple[str, ...]
    joint_rule: str
    """The request in the prompt of an agent that writes both texts."""

    def instructions(self, task: WritingTask) -> str:
        """Return the request, the source, and the rules."""
        return _prompt(self.opening, self.heading, task, self.rules)

    def reference(self, task: WritingTask) -> str | None:
        """Return the data's text for this role, if there is one."""
        return task.references.get(self.agent)


@dataclass(frozen=True)
class Genre:
    """Two texts about one source."""

    name: str
    writers: tuple[WriterRole, WriterRole]
    alone: str
    """Opening of the prompt of an agent that writes both texts."""


TLDR = Genre(
    "tldr",
    (
        WriterRole(
            "summarizer_0",
            "summary",
            "Write a concise summary of the forum post below.",
            "Query:",
            (
                "Use one sentence or a few short ones.",
                "Say what matters most, and only what the post says.",
                "Answer with the summary alone: no heading, no list, no remarks.",
            ),
            "The first paragraph is a concise summary in one sentence or a few short ones.",
        ),
        WriterRole(
            "elaborator_0",
            "elaboration",
            "Write a detailed summary of the forum post below.",
            "Original Query:",
            (
                "Go into the details: two to three times as much text as a short summary would need.",
                "Use a rich vocabulary, with many different words, and some transition words.",
                "Say only what the post says.",
                "Answer with the text alone: no heading, no list, no remarks.",
            ),
            "The second paragraph is a detailed summary, two to three times as long, with a rich vocabulary and "
            "some transition words.",
        ),
    ),
    "Summarize the forum post below in two paragraphs.",
)

ARXIV = Genre(
    "arxiv",
    (
        WriterRole(
            "background_0",
            "background paragraph",
            "Expand the abstract below into the introduction of a paper. Write only its background and "
            "motivation: what is known, what is missing, and why it matters.",
            "Abstract:",
            (
                "Another agent writes about the method and its implications: do not repeat that.",
                "Write one paragraph of 130 to 180 words, with transition words.",
                "Stay with the topic and the facts of the abstract.",
                "Answer with the paragraph alone: no heading, no list, no remarks.",
            ),
            "The first paragraph, 130 to 180 words, has background and motivation only.",
        ),
        WriterRole(
            "method_0",
            "method paragraph",
            "Expand the abstract below into the introduction of a paper. Write only about its method and "
            "implications: what was done, what was found, and what follows.",
            "Abstract:",
            (
                "Another agent writes the background and motivation: do not repeat that.",
                "Write one paragraph of 170 to 240 words, with transition words.",
                "Stay with the topic and the facts of the abstract.",
                "Answer with the paragraph alone: no heading, no list, no remarks.",
            ),
            "The second paragraph, 170 to 240 words, has method and implications only.",
        ),
    ),
    "Expand the abstract below into the introduction of a paper, in two paragraphs.",
)


@dataclass(frozen=True)
class SoloRole:
    """Writes both texts as paragraphs of one completion."""

    genre: Genre
    agent: str = "writer_0"
    title: str = "text"

    def instructions(self, task: WritingTask) -> str:
        """Return the request, the source, the rules, and the division into paragraphs."""
        first, second = self.genre.writers
        rules = (
            first.joint_rule,
            second.joint_rule,
            "Say only what the source says.",
            f"Put {DELIMITER} on a line of its own between the two, and no heading, list or remark anywhere.",
        )
        stub = f"<first paragraph>\n{DELIMITER}\n<second paragraph>"
        prompt = _prompt(self.genre.alone, first.heading, task, rules)
        return f"{prompt}\n\nYour answer should look like this:\n{stub}"

    def reference(self, task: WritingTask) -> str | None:
        """Return both of the data's texts with the delimiter; None if one is missing."""
        texts = [task.references.get(writer.agent) for writer in self.genre.writers]
        return None if None in texts else f"\n{DELIMITER}\n".join(map(str, texts))


@dataclass(frozen=True)
class WritingTeam:
    """Roles of a team; reads the two texts from its completions."""

    roles: tuple[WriterRole, WriterRole] | tuple[SoloRole]

    def __iter__(self) -> Iterator[WriterRole | SoloRole]:
        return iter(self.roles)

    def read(self, completions: Mapping[str, str]) -> TextPair:
        """Return the two texts of a joint completion without reasoning and fences, each cut to `MAX_READ`."""
        texts = [_unwrap(find_answer(completions[role.agent]).text) for role in self.roles]
        pair = paragraphs(texts[0]) if len(texts) == 1 else TextPair(*texts)
        # Bounds the time of the measures for huge completions.
        return TextPair(pair.first[:MAX_READ], pair.second[:MAX_READ])

    def places(self, agent: str) -> tuple[int, ...]:
        """Return the indices of an agent's texts: 0, 1 or both."""
        agents = [role.agent for role in self.roles]
        return (0, 1) if len(agents) == 1 else (agents.index(agent),)


def writing_team(genre: Genre, num_agents: object) -> WritingTeam:
    """Return the roles of a team of this size.

    Raises:
        ValueError: If it is neither 1 nor 2.
    """
    if num_agents == 1:
        return WritingTeam((SoloRole(genre),))
    if num_agents == 2:
        return WritingTeam(genre.writers)
    raise ValueError(f"num_agents must be 1 or 2, as there are two texts, got {num_agents!r}")


def _prompt(opening: str, heading: str, task: WritingTask, rules: tuple[str, ...]) -> str:
    listed = "\n".join(f"- {rule}" for rule in rules)
    return f"{opening}\n\n{heading}\n{task.prompt.strip()}\n\nIMPORTANT INSTRUCTIONS:\n{listed}"


def paragraphs(text: str) -> TextPair:
    """Divide a completion into two paragraphs; equal completions give equal paragraphs.

    The first delimiter separates them, and later delimiters are removed. Without a delimiter `Paragraph 2:`
    separates them, without both the only blank line, and without that the end of the first third. White space,
    marks of Markdown around the delimiter, and labels such as `Paragraph 1:` before the paragraphs are removed.
    """
    for form in DELIMITERS:
        if mark := form.search(text):
            first, second = text[: mark.start()], text[mark.end() :]
            second = DELIMITERS[0].sub(" ", second)
            return TextPair(_bare(first.rstrip(EDGES)), _bare(second.lstrip(EDGES)))
    if len(halves := text.strip().split("\n\n")) == 2:
        return TextPair(*map(_bare, halves))
    third = len(text) // 3
    return TextPair(_bare(text[:third]), _bare(text[third:]))


def _unwrap(text: str) -> str:
    """Return what is between the fences of a text that is one block, and other texts as they are."""
    parts = text.strip().split("```")
    if len(parts) != 3 or parts[0] or parts[2]:
        return text.strip()
    language, _, rest = parts[1].partition("\n")
    return (parts[1] if len(language.split()) > 1 else rest).strip()


def _bare(text: str) -> str:
    text = text.strip()
    label = LABEL.match(text)
    return text[label.end() :].strip() if label else text
