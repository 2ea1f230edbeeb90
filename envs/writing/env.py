"""The writing families `tldr` and `arxiv`, in two versions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.loading import Dataset, parse_split
from llm_decpomdp.envs.writing.feedback import WritingMode, writing_mode
from llm_decpomdp.envs.writing.grounded_reward import ARXIV_SCALE, TLDR_SCALE, GroundedReward, Scale
from llm_decpomdp.envs.writing.reward import ARXIV_KNOTS, TLDR_KNOTS, LevelIntervals, LevelReward
from llm_decpomdp.envs.writing.roles import ARXIV, TLDR, Genre, writing_team
from llm_decpomdp.envs.writing.tasks import ABSTRACTS, POSTS, load_texts
from llm_decpomdp.envs.writing.text_measures import MATCHINGS
from llm_decpomdp.validation import unknown


@dataclass(frozen=True)
class Family:
    """Data set and scales of a genre, shared by both versions."""

    genre: Genre
    dataset: Dataset
    knots: LevelIntervals
    scale: Scale


def writing_v0(
    family: Family,
    *,
    num_agents: int = 2,
    num_turns: int = 1,
    matching: str = "substring",
    split: str = "train",
    source: str = "auto",
    discount: float = 1.0,
    render_mode: str | None = None,
) -> DecPOMDPEnv:
    """Write about a source as a team, with a reward for form only: `tldr-v0` and `arxiv-v0`.

    ## Description
    Two agents write at the same time, and neither sees the other's text. TLDR: `summarizer_0` writes a concise
    summary of a forum post, and `elaborator_0` a detailed one. arXiv: `background_0` writes the background and
    motivation of the introduction to an abstract, and `method_0` its method and implications. With `num_agents=1`,
    `writer_0` writes both as paragraphs separated by `[PARAGRAPH_SPLIT]`.

    ## Observation Space
    `UnicodeText`: the source, and what to write about it.

    ## Action Space
    `UnicodeText`: a completion. Any text is legal.

    ## Rewards
    The levels of `llm_decpomdp.envs.writing.reward`, at most 2.98. They compare the two texts with each other and
    not with the source. Use v1 for new work.

    ## Starting State
    A source drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`.

    ## Episode End
    Terminates after one turn.

    Args:
        family: TLDR or arXiv.
        num_agents: 2, or 1 for `writer_0` alone.
        num_turns: 1.
        matching: How transitions are found: `substring` (also inside words, as in CoMLRL) or `word`.
        split: Such as `train`, `train[:1000]` or `test[:50%]`; TLDR has `train` and `test`, arXiv `train` and
            `val`, and both `all`.
        source: `auto`, `hub`, `hub@COMMIT`, `bundled`, or the path of a JSONL, JSON or Parquet file with the
            hub's columns, whose splits are `train`, `test` and `all`, each the whole file.
        discount: Discount factor of the model, in [0, 1].
        render_mode: `None`, `ansi` or `human`.

    Raises:
        ValueError: If an argument has a bad value; bad data raises when it is first loaded.

    ## Version History
    - v1: the texts must be about their source, the reward is continuous, and more turns are possible.
    - v0: first version.
    """
    name = family.genre.name
    parse_split(split, family.dataset.available_splits(source))
    if isinstance(num_turns, bool) or num_turns != 1:
        raise ValueError(
            f"num_turns must be 1: {name}-v0 has a single turn, got {num_turns!r}; {name}-v1 has more"
        )
    if matching not in MATCHINGS:
        raise ValueError(unknown("matching", matching, MATCHINGS))
    team = writing_team(family.genre, num_agents)
    return DecPOMDPEnv(
        f"{name}_v0",
        tasks=partial(load_texts, family.dataset, split, source),
        roles=team.roles,
        reward=LevelReward(team, family.knots, matching),
        mode=WritingMode("plain", team, info_keys=()),
        num_turns=1,
        discount=discount,
        render_mode=render_mode,
    )


def writing_v1(
    family: Family,
    *,
    num_agents: int = 2,
    num_turns: int = 1,
    external_mode: str = "level_feedback",
    original_prompt: bool = True,
    previous_response: bool = True,
    split: str = "train",
    source: str = "auto",
    stop_when_solved: bool = True,
    discount: float = 1.0,
    render_mode: str | None = None,
) -> DecPOMDPEnv:
    """Write about a source as a team, with a reward for form and content: `tldr-v1` and `arxiv-v1`.

    ## Description
    Two agents write at the same time, and neither sees the other's text. TLDR: `summarizer_0` writes a concise
    summary of a forum post, and `elaborator_0` a detailed one. arXiv: `background_0` writes the background and
    motivation of the introduction to an abstract, and `method_0` its method and implications. With `num_agents=1`,
    `writer_0` writes both as paragraphs separated by `[PARAGRAPH_SPLIT]`.

    ## Observation Space
    `UnicodeText`: the source, and what to write about it; in later turns the prompts of the external mode.

    ## Action Space
    `UnicodeText`: a completion. Any text is legal.

    ## Rewards
    The levels of `llm_decpomdp.envs.writing.grounded_reward`, in each turn: at most 4.0. `solved` in the infos
    means the maximum.

    ## Starting State
    A source drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`.

    ## Episode End
    Terminates after `num_turns` turns, and after a turn with the maximum reward if `stop_when_solved`.

    Args:
        family: TLDR or arXiv.
        num_agents: 2, or 1 for `writer_0` alone.
        num_turns: Horizon, at least 1.
        external_mode: Feedback in later prompts: `level_feedback`, `level_passed`, `passed` or `plain`.
        original_prompt: Whether later prompts repeat the first one, which has the source.
        previous_response: Whether later prompts show the agent's own last text.
        split: As in `writing_v0`.
        source: `auto`, `hub`, `hub@COMMIT`, `bundled`, or the path of a JSONL, JSON or Parquet file with the
            hub's columns, whose splits are `train`, `test` and `all`, each the whole file.
        stop_when_solved: Whether the maximum reward ends the episode.
        discount: Discount factor of the model, in [0, 1].
        render_mode: `None`, `ansi` or `human`.

    Raises:
        ValueError: If an argument has a bad value; bad data raises when it is first loaded.

    ## Version History
    - v1: first version of this reward.
    """
    parse_split(split, family.dataset.available_splits(source))
    team = writing_team(family.genre, num_agents)
    return DecPOMDPEnv(
        f"{family.genre.name}_v1",
        tasks=partial(load_texts, family.dataset, split, source),
        roles=team.roles,
        reward=GroundedReward(team, family.scale),
        mode=writing_mode(external_mode, team, original_prompt, previous_response),
        num_turns=num_turns,
        stop_when_solved=stop_when_solved,
        discount=discount,
        render_mode=render_mode,
    )


TLDR_FAMILY = Family(TLDR, POSTS, TLDR_KNOTS, TLDR_SCALE)
ARXIV_FAMILY = Family(ARXIV, ABSTRACTS, ARXIV_KNOTS, ARXIV_SCALE)

tldr_v0 = partial(writing_v0, TLDR_FAMILY)
tldr_v1 = partial(writing_v1, TLDR_FAMILY)
arxiv_v0 = partial(writing_v0, ARXIV_FAMILY)
arxiv_v1 = partial(writing_v1, ARXIV_FAMILY)
