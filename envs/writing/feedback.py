"""What comes after a turn of writing: the external modes of `tldr-v1` and `arxiv-v1`.

Each agent is told what was measured of its own text, and what is measured of both together: the ratios of their
lengths and vocabularies, the overlap, and how many kinds of transitions they have. These joint measures stand in
the infos too. Nothing else leaves a team-mate's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from llm_decpomdp.envs.writing.grounded_reward import Assessment
from llm_decpomdp.envs.writing.roles import SoloRole, WriterRole, WritingTeam
from llm_decpomdp.envs.writing.source_overlap import Grounding
from llm_decpomdp.envs.writing.tasks import WritingTask
from llm_decpomdp.envs.writing.text_measures import Band, count_tokens
from llm_decpomdp.episode import Turn
from llm_decpomdp.validation import check_flags, unknown

PASSED = 0.9
"""The credit from which on a level counts as passed."""

NO_TEXT = "<empty>"

JOINT = ("length_ratio", "vocabulary_ratio", "overlap", "transition_kinds")
"""The measures of both texts together, as the infos name them."""

Places = tuple[int, ...]
"""Which of the two texts are an agent's own."""

Signals = Callable[[Assessment, Places], list[str]]


def level_feedback(found: Assessment, places: Places) -> list[str]:
    """What was measured, and what is wanted."""
    lines = ["Diagnostics:"]
    for place in places:
        lines += _own(found, place, _called(place, places))
    pair, scale = found.pair, found.scale
    where = "both texts" if scale.joins else "the second text"
    return [
        *lines,
        f"- Length ratio (second / first text): {pair.visible_ratio:.2f}, wanted {_wanted(scale.length)}",
        f"- Vocabulary ratio (different words, second / first text): {pair.vocabulary_ratio:.2f}, wanted "
        f"{_wanted(scale.vocabulary)}",
        f"- Shared content words of both texts: {pair.overlap:.1%}, wanted {scale.overlap.full:.0%} to "
        f"{scale.overlap.most:.0%}",
        f"- Kinds of transitions in {where}: {len(found.kinds)}, wanted 4 or more",
    ]


def _called(place: int, places: Places) -> str:
    return "your text" if len(places) == 1 else ("first paragraph", "second paragraph")[place]


def _own(found: Assessment, place: int, called: str) -> Iterator[str]:
    tokens, depth = found.scale.tokens, found.scale.depths[place]
    own: Grounding = found.groundings[place]
    length = count_tokens(found.pair.texts[place])
    yield f"- Length of {called}: {length} words, wanted {tokens.full} to {tokens.most}"
    if not found.finished[place]:
        yield "  It breaks off: end it with a whole sentence"
    yield (
        f"- Grounding of {called}: {found.grounded[place]:.2f} of 1: {own.words:.0%} of its content words are "
        f"the source's (wanted {depth.words.full:.0%}), it has {own.coverage:.0%} of the source's content words "
        f"(wanted {depth.coverage.full:.0%}) and {own.entities:.0%} of its names and numbers (wanted "
        f"{depth.entities.full:.0%})"
    )
    if own.unfounded:
        shown = ", ".join(own.unfounded[:5]) + (", ..." if len(own.unfounded) > 5 else "")
        yield f"  Numbers that the source does not have: {shown[:200]}"
    if own.copied > 0.3:
        yield f"  Copied word by word: {own.copied:.0%}, wanted at most 30%"
    if own.repeated > 0.1:
        yield f"  Repeated: {own.repeated:.0%} of its runs of three words, wanted at most 10%"


def _wanted(band: Band) -> str:
    return f"{band.full} to {band.most}" if band.most < float("inf") else f"at least {band.full}"


def level_passed(found: Assessment, places: Places) -> list[str]:
    """Whether each level is passed."""
    lines = ["Signals:"]
    for place in places:
        name = _called(place, places)
        lines += [
            f"- Length of {name}: {_said(found.tokens[place])}",
            f"- Ending of {name}: {_said(found.finished[place])}",
            f"- Grounding of {name}: {_said(found.grounded[place])}",
        ]
    joint = {"length": "Length ratio", "vocabulary": "Vocabulary ratio"}
    joint |= {"overlap": "Shared content words", "transitions": "Transitions"}
    return lines + [f"- {name}: {_said(found.credits[level])}" for level, name in joint.items()]


def _said(credit: float) -> str:
    return "passed" if credit >= PASSED else "not passed"


def passed(found: Assessment, places: Places) -> list[str]:
    """One signal for everything: all credits are high, and nothing is repeated."""
    everything = min(*found.credits.values(), *found.grounded, 1.0 - found.repeated) >= PASSED
    return [f"Signal: {'All levels passed' if everything else 'Not all levels passed'}"]


def plain(found: Assessment, places: Places) -> list[str]:
    """No signals."""
    return []


SIGNALS: dict[str, Signals] = {
    "level_feedback": level_feedback,
    "level_passed": level_passed,
    "passed": passed,
    "plain": plain,
}


@dataclass(frozen=True)
class WritingMode:
    """Writes later prompts: the source, the agent's last text, the signals, and a request to revise."""

    name: str
    team: WritingTeam
    original_prompt: bool = True
    previous_response: bool = True
    info_keys: tuple[str, ...] = JOINT

    def first(self, task: WritingTask) -> dict[str, str]:
        """Return the first prompt of each agent."""
        return {role.agent: role.instructions(task) for role in self.team}

    def __call__(self, task: WritingTask, turn: Turn) -> tuple[dict[str, str], dict[str, float]]:
        """Return the next prompt of each agent, and the joint measures."""
        found: Assessment = turn.verdict.analysis
        pair = found.pair
        measured = (
            pair.visible_ratio,
            pair.vocabulary_ratio,
            pair.overlap,
            float(len(found.kinds)),
        )
        prompts = {}
        for role in self.team:
            signals = SIGNALS[self.name](found, self.team.places(role.agent))
            prompts[role.agent] = self._prompt(task, role, turn.completions[role.agent], signals)
        return prompts, dict(zip(JOINT, measured, strict=True))

    def _prompt(
        self, task: WritingTask, role: WriterRole | SoloRole, last: str, signals: list[str]
    ) -> str:
        parts = []
        if self.original_prompt:
            parts.append(f"Original instructions:\n{role.instructions(task)}")
        if self.previous_response:
            parts.append(f"Your previous {role.title}:\n{last.strip() or NO_TEXT}")
        condition = "if needed" if self.name == "passed" else "accordingly"
        request = f"Revise your {role.title} {condition}. Answer with the new {role.title} alone."
        return "\n\n".join([*parts, "\n".join([*signals, request])])

    def secrets(self, task: WritingTask) -> list[str]:
        """None: a reference is no more right than other texts are."""
        return []


@dataclass(frozen=True)
class SingleTurn:
    """The mode of a family in which nothing comes after the first turn."""

    team: WritingTeam
    info_keys: tuple[str, ...] = ()

    def first(self, task: WritingTask) -> dict[str, str]:
        """Return the first prompt of each agent."""
        return {role.agent: role.instructions(task) for role in self.team}

    def __call__(self, task: WritingTask, turn: Turn) -> tuple[dict[str, str], dict[str, float]]:
        """Never called."""
        raise AssertionError("there is one turn only")

    def secrets(self, task: WritingTask) -> list[str]:
        """None."""
        return []


def writing_mode(
    name: str, team: WritingTeam, original_prompt: bool, previous_response: bool
) -> WritingMode:
    """The external mode of this name.

    Raises:
        ValueError: If a name or value is wrong.
    """
    if name == "expert_edits":
        raise ValueError(
            f"external_mode='expert_edits' is for code: experts edit functions, not texts; take one of "
            f"{', '.join(SIGNALS)}"
        )
    if name not in SIGNALS:
        raise ValueError(unknown("external_mode", name, SIGNALS))
    check_flags(original_prompt=original_prompt, previous_response=previous_response)
    return WritingMode(name, team, original_prompt, previous_response)
