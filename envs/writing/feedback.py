"""Feedback after a turn of writing: the external modes of `tldr-v1` and `arxiv-v1`.

Each agent sees the measures of its own text, and those of both texts together: the ratios of their lengths and
vocabularies, their overlap, and the number of kinds of transitions. These joint measures are also in the infos.
Nothing else about a teammate's text is revealed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from llm_decpomdp.envs.writing.grounded_reward import COPIED, Assessment
from llm_decpomdp.envs.writing.roles import SoloRole, WriterRole, WritingTeam
from llm_decpomdp.envs.writing.source_overlap import Grounding
from llm_decpomdp.envs.writing.tasks import WritingTask
from llm_decpomdp.envs.writing.text_measures import Interval, count_tokens
from llm_decpomdp.interfaces import Turn
from llm_decpomdp.validation import check_flags, unknown

PASSED = 0.9
"""Minimum credit of a passed level."""

NO_TEXT = "<empty>"

JOINT = ("length_ratio", "vocabulary_ratio", "overlap", "transition_kinds")
"""Names of the joint measures in the infos."""

Places = tuple[int, ...]
"""Indices of the texts that an agent writes: 0, 1 or both."""

Signals = Callable[[Assessment, Places], list[str]]


def level_feedback(assessment: Assessment, places: Places) -> list[str]:
    """List each measure with its target."""
    lines = ["Diagnostics:"]
    for place in places:
        lines += _own(assessment, place, _text_label(place, places))
    pair, scale = assessment.pair, assessment.scale
    where = "both texts" if scale.joins else "the second text"
    return [
        *lines,
        f"- Length ratio (second / first text): {pair.visible_ratio:.2f}, wanted "
        f"{_describe_interval(scale.length)}",
        f"- Vocabulary ratio (different words, second / first text): {pair.vocabulary_ratio:.2f}, wanted "
        f"{_describe_interval(scale.vocabulary)}",
        f"- Shared content words of both texts: {pair.overlap:.1%}, wanted {scale.overlap.full:.0%} to "
        f"{scale.overlap.most:.0%}",
        f"- Kinds of transitions in {where}: {len(assessment.kinds)}, wanted 4 or more",
    ]


def _text_label(place: int, places: Places) -> str:
    return "your text" if len(places) == 1 else ("first paragraph", "second paragraph")[place]


def _own(assessment: Assessment, place: int, called: str) -> Iterator[str]:
    tokens, depth = assessment.scale.tokens, assessment.scale.depths[place]
    grounding: Grounding = assessment.groundings[place]
    length = count_tokens(assessment.pair.texts[place])
    yield f"- Length of {called}: {length} words, wanted {tokens.full} to {tokens.most}"
    if not assessment.ends_in_sentences[place]:
        yield "  It breaks off: end it with a whole sentence"
    yield (
        f"- Grounding of {called}: {assessment.grounding[place]:.2f} of 1: {grounding.words:.0%} of its "
        f"content words are the source's (wanted {depth.words.full:.0%}), it has {grounding.coverage:.0%} of "
        f"the source's content words (wanted {depth.coverage.full:.0%}) and {grounding.entities:.0%} of its "
        f"names and numbers (wanted {depth.entities.full:.0%})"
    )
    if numbers := grounding.unfounded:
        listed = ", ".join(numbers[:5]) + (", ..." if len(numbers) > 5 else "")
        yield f"  Numbers that the source does not have: {listed[:200]}"
    if depth.fluency(grounding) < PASSED:
        yield (
            f"  Its words look put together at random: {grounding.phrases:.0%} of the pairs of neighbors are the "
            f"source's (wanted {depth.phrases.full:.0%}), the order of the others has {grounding.order:.2f} "
            f"(wanted {depth.order.full:.2f}), {grounding.cohesion:.0%} of neighboring content words share a "
            f"sentence of the source (wanted {depth.cohesion.full:.0%}), {grounding.extracted:.0%} of the words "
            f"are beside a neighbor that they have in the source (wanted at most {depth.extracted.most:.0%})"
        )
    if grounding.copied > COPIED.most:
        yield f"  Copied word by word: {grounding.copied:.0%}, wanted at most {COPIED.most:.0%}"
    if grounding.repeated > 0.1:
        yield f"  Repeated: {grounding.repeated:.0%} of its runs of three words, wanted at most 10%"


def _describe_interval(band: Interval) -> str:
    return f"{band.full} to {band.most}" if band.most < float("inf") else f"at least {band.full}"


def level_passed(assessment: Assessment, places: Places) -> list[str]:
    """List each level as passed or not."""
    lines = ["Signals:"]
    for place in places:
        name = _text_label(place, places)
        lines += [
            f"- Length of {name}: {_state(assessment.tokens[place])}",
            f"- Ending of {name}: {_state(assessment.ends_in_sentences[place])}",
            f"- Grounding of {name}: {_state(assessment.grounding[place])}",
        ]
    joint = {"length": "Length ratio", "vocabulary": "Vocabulary ratio"}
    joint |= {"overlap": "Shared content words", "transitions": "Transitions"}
    return lines + [
        f"- {name}: {_state(assessment.credits[level])}" for level, name in joint.items()
    ]


def _state(credit: float) -> str:
    return "passed" if credit >= PASSED else "not passed"


def pass_signal(assessment: Assessment, places: Places) -> list[str]:
    """Return a single signal: all credits are high, and nothing is repeated."""
    credits = (*assessment.credits.values(), *assessment.grounding, 1.0 - assessment.repetition)
    return [f"Signal: {'All' if min(credits) >= PASSED else 'Not all'} levels passed"]


def plain(assessment: Assessment, places: Places) -> list[str]:
    """Return no signals."""
    return []


SIGNALS: dict[str, Signals] = {
    "level_feedback": level_feedback,
    "level_passed": level_passed,
    "passed": pass_signal,
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
        assessment: Assessment = turn.verdict.analysis
        pair = assessment.pair
        kinds = float(len(assessment.kinds))
        measures = (pair.visible_ratio, pair.vocabulary_ratio, pair.overlap, kinds)
        prompts = {}
        for role in self.team:
            signals = SIGNALS[self.name](assessment, self.team.places(role.agent))
            prompts[role.agent] = self._prompt(task, role, turn.completions[role.agent], signals)
        return prompts, dict(zip(JOINT, measures, strict=True))

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
        """Return none: many texts are as good as a reference."""
        return []


def writing_mode(
    name: str, team: WritingTeam, original_prompt: bool, previous_response: bool
) -> WritingMode:
    """Return the external mode of this name.

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
