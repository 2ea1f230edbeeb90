"""Roles of writing: the two of each genre, a single agent, and their first prompts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from llm_decpomdp.envs.writing.paragraphs import DELIMITER, paragraphs
from llm_decpomdp.envs.writing.tasks import WritingTask
from llm_decpomdp.envs.writing.text_measures import Pair

MAX_READ = 20_000
"""Characters of each text that are read; the longest text with full points has 384 words."""


@dataclass(frozen=True)
class Part:
    """One of the two texts of a genre, with the words of its prompt."""

    agent: str
    title: str
    """Name of the text in prompts, such as `summary`."""
    opening: str
    heading: str
    """Heading above the source."""
    rules: tuple[str, ...]
    joint_rule: str
    """The same request to an agent that writes both texts."""


@dataclass(frozen=True)
class Genre:
    """Two texts about one source."""

    name: str
    parts: tuple[Part, Part]
    alone: str
    """Opening of the prompt of an agent that writes both."""


TLDR = Genre(
    "tldr",
    (
        Part(
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
        Part(
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
        Part(
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
        Part(
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
class WriterRole:
    """Writes one of the two texts."""

    part: Part

    @property
    def agent(self) -> str:
        """The agent's id."""
        return self.part.agent

    @property
    def title(self) -> str:
        """Name of the agent's text."""
        return self.part.title

    def instructions(self, task: WritingTask) -> str:
        """Return the request, the source, and the rules."""
        return _prompt(self.part.opening, self.part.heading, task, self.part.rules)

    def reference(self, task: WritingTask) -> str | None:
        """Return the data's text for this role."""
        return task.references.get(self.agent)


@dataclass(frozen=True)
class SoloRole:
    """Writes both texts as paragraphs of one completion."""

    genre: Genre
    agent: str = "writer_0"
    title: str = "text"

    def instructions(self, task: WritingTask) -> str:
        """Return the request, the source, the rules, and the division into paragraphs."""
        first, second = self.genre.parts
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
        """Return both of the data's texts, divided; None where it lacks one."""
        texts = [task.references.get(part.agent) for part in self.genre.parts]
        if None in texts:
            return None
        return f"\n{DELIMITER}\n".join(str(text) for text in texts)


@dataclass(frozen=True)
class WritingTeam:
    """Roles of a team; reads the two texts from its completions."""

    roles: tuple[WriterRole, WriterRole] | tuple[SoloRole]

    def __iter__(self) -> Iterator[WriterRole | SoloRole]:
        return iter(self.roles)

    def read(self, completions: Mapping[str, str]) -> Pair:
        """Return the two texts of a joint completion, each cut to `MAX_READ`."""
        texts = [completions[role.agent] for role in self.roles]
        pair = paragraphs(texts[0]) if len(texts) == 1 else Pair(*texts)
        return Pair(pair.first[:MAX_READ], pair.second[:MAX_READ])

    def places(self, agent: str) -> tuple[int, ...]:
        """Return the indices of the texts that an agent writes: 0, 1 or both."""
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
        first, second = genre.parts
        return WritingTeam((WriterRole(first), WriterRole(second)))
    raise ValueError(f"num_agents must be 1 or 2, as there are two texts, got {num_agents!r}")


def _prompt(opening: str, heading: str, task: WritingTask, rules: tuple[str, ...]) -> str:
    listed = "\n".join(f"- {rule}" for rule in rules)
    return f"{opening}\n\n{heading}\n{task.prompt.strip()}\n\nIMPORTANT INSTRUCTIONS:\n{listed}"
