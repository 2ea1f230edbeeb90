"""Episodes of evaluations: the usual way for a team to act, and the rows that are written down.

Other ways to act are in `llm_decpomdp.benchmarks.evaluation.baselines`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from threading import Lock
from typing import Any

from llm_decpomdp.agents.remote.endpoint import Endpoint
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Completions, Group, Parent, Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import Move, Prompts, Timer, sample
from llm_decpomdp.algorithms.training.metrics import episode_row
from llm_decpomdp.policy import Completion, Team, shared_engine

_ONE_AT_A_TIME = Lock()  # for policies of this process, which are not made for threads


def at_once(
    team: Team, envs: Sequence[TextEnv], prompts: Sequence[Prompts], timer: Timer
) -> list[Move]:
    """Let all agents answer at the same time; they see nothing of one another.

    Agents that are sampled in one batch have their seconds in common, under a name such as `aux_0+main_0`.
    """
    answers: list[Completions] = [{} for _ in prompts]
    for agents in sampled_together(team):
        alone = nullcontext() if isinstance(team[agents[0]], Endpoint) else _ONE_AT_A_TIME
        part = [{agent: texts[agent] for agent in agents} for texts in prompts]
        with alone, timer("+".join(agents)):
            samples = sample({agent: team[agent] for agent in agents}, envs, part, 1)
        for completions, groups in zip(answers, samples, strict=True):
            completions |= groups
    return [
        Move(dict(texts), {agent: completions[agent] for agent in texts})
        for texts, completions in zip(prompts, answers, strict=True)
    ]


def sampled_together(team: Team) -> list[list[str]]:
    """Group the agents whose policies are one object or have one engine."""
    groups: dict[int, list[str]] = {}
    for agent, policy in team.items():
        key = shared_engine(policy) or policy
        groups.setdefault(id(key), []).append(agent)
    return list(groups.values())


def sample_row(rollout: Rollout, number: int) -> dict[str, Any]:
    """Return an episode as a row of `episodes.jsonl`.

    It has `sample`, the number among the episodes of its start; in `tokens` those that each agent sampled in each
    turn, and in `prompt_tokens` those that it was asked with (`None` where nobody knows).
    """
    return {
        **episode_row(rollout, 0, "eval"),
        "sample": number,
        "tokens": [_sums(group, "num_tokens") for group in rollout.groups],
        "prompt_tokens": [_sums(group, "prompt_tokens") for group in rollout.groups],
    }


def _sums(group: Group, count: str) -> dict[str, int | None]:
    """Add up a count over the answers of each agent, drafts included; `None` if one of them is not known."""
    sums: dict[str, int | None] = {}
    for agent in group.completions:
        answers = [c for groups in (group.completions, *group.drafts) for c in groups[agent]]
        counts = [getattr(answer, count) for answer in answers]
        sums[agent] = None if None in counts else sum(counts)
    return sums


def rollout_of(row: Mapping[str, Any]) -> Rollout:
    """Build the rollout of a row of `episodes.jsonl`, with tokens if they were recorded."""
    groups = []
    for group in row["groups"]:
        reasons, tokens = group["finish_reasons"], group.get("token_ids", {})
        completions = {
            agent: tuple(
                Completion(text, tuple(ids), finish_reason=reason)
                for text, reason, ids in zip(
                    *(texts, reasons[agent], tokens.get(agent, [()] * len(texts))), strict=True
                )
            )
            for agent, texts in group["completions"].items()
        }
        groups.append(
            Group(
                turn=group["turn"],
                parent=Parent(**group["parent"]) if group["parent"] else None,
                prompts=group["prompts"],
                completions=completions,
                joint=tuple(map(tuple, group["joint"])),
                rewards=tuple(group["rewards"]),
                infos=tuple(group["infos"]),
                chosen=group["chosen"],
                anchors=tuple(map(tuple, group.get("anchors", ()))),
                scores=tuple(group.get("scores", ())),
            )
        )
    return Rollout(
        Start(**row["start"]), tuple(groups), row["final"], pooled=row.get("pooled", False)
    )
