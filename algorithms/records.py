"""The rows of `metrics.jsonl` and `episodes.jsonl`, as pure functions of chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from llm_decpomdp.algorithms.rollout import Chain, GroupTurn


def reward_metrics(chains: Sequence[Chain]) -> dict[str, float]:
    """Means over the joint samples of some chains.

    With <x> = `reward_mean`, `solved` and each `reward/<component>` of the infos:

    - `<x>`: mean over all turns, in which every chain counts the same.
    - `turn_<k>/<x>`: mean over the chains that reached turn k, counted from 1.
    - `last/<x>`: mean over the last turn that each chain reached.
    - `reward_std`: standard deviation over all joint samples.
    - `turn_<k>/groups`: number of chains that reached turn k.
    - `stopped_early`: share of the chains that stopped early.
    """
    longest = max(len(chain.turns) for chain in chains)
    metrics = _means("", [list(chain.turns) for chain in chains])
    samples = [reward for chain in chains for turn in chain.turns for reward in turn.rewards]
    metrics["reward_std"] = float(np.std(samples))
    metrics["stopped_early"] = float(np.mean([chain.stopped_early for chain in chains]))
    for k in range(longest):
        reached = [[chain.turns[k]] for chain in chains if len(chain.turns) > k]
        metrics |= _means(f"turn_{k + 1}/", reached)
        metrics[f"turn_{k + 1}/groups"] = len(reached)
    return metrics | _means("last/", [[chain.turns[-1]] for chain in chains])


def evaluation_metrics(chains: Sequence[Chain]) -> dict[str, Any]:
    """`reward_metrics` of an evaluation, with standard errors and `n`, the number of chains.

    `reward_standard_error` belongs to `reward_mean`, `last/reward_standard_error` to
    `last/reward_mean`; both are `None` for a single chain.
    """
    means = [_mean(list(chain.turns), _rewards) for chain in chains]
    last = [_mean([chain.turns[-1]], _rewards) for chain in chains]
    return {
        **reward_metrics(chains),
        "reward_standard_error": _standard_error(means),
        "last/reward_standard_error": _standard_error(last),
        "n": len(chains),
    }


def count_tokens(chains: Sequence[Chain]) -> int:
    """All sampled tokens, of every agent that has a tokenizer."""
    return sum(
        len(completion.tokens)
        for chain in chains
        for turn in chain.turns
        for completions in turn.completions.values()
        for completion in completions
    )


def episode_row(chain: Chain, update: int, phase: str) -> dict[str, Any]:
    """A chain as a row of `episodes.jsonl`; `phase` is `train` or `eval`."""
    return {
        "update": update,
        "phase": phase,
        "start": asdict(chain.start),
        "turns": [_turn(turn) for turn in chain.turns],
        "stopped_early": chain.stopped_early,
        "final": chain.final,
    }


def _turn(turn: GroupTurn) -> dict[str, Any]:
    return {
        "prompts": turn.prompts,
        "completions": {
            agent: [c.text for c in group] for agent, group in turn.completions.items()
        },
        "finish_reasons": {
            agent: [c.finish_reason for c in group] for agent, group in turn.completions.items()
        },
        "rewards": list(turn.rewards),
        "infos": list(turn.infos),
        "chosen": turn.chosen,
    }


Values = Callable[[GroupTurn], Sequence[float]]


def _rewards(turn: GroupTurn) -> Sequence[float]:
    return turn.rewards


def _means(prefix: str, chains: Sequence[list[GroupTurn]]) -> dict[str, float]:
    """Means over samples, then turns, then chains, of the reward and the infos they all have."""
    infos = [info for turns in chains for turn in turns for info in turn.infos]
    shared = set(infos[0]).intersection(*infos)
    keys = [key for key in infos[0] if key in shared]
    keys = [key for key in keys if key == "solved" or key.startswith("reward/")]
    values: dict[str, Values] = {"reward_mean": _rewards}
    values |= {key: _info(key) for key in keys}
    return {
        f"{prefix}{name}": float(np.mean([_mean(turns, of) for turns in chains]))
        for name, of in values.items()
    }


def _info(key: str) -> Values:
    return lambda turn: [info[key] for info in turn.infos]


def _mean(turns: list[GroupTurn], of: Values) -> float:
    return float(np.mean([np.mean(of(turn)) for turn in turns]))


def _standard_error(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
