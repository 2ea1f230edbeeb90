"""Metrics of preference pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from torch import Tensor

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.preferences.pairs import PreferencePair


class PairMetrics:
    """Sums over the pairs of one pass, over all processes.

    Args:
        agents: The agents that learn.
        pairs: The pairs of this process.
        total: Number of pairs of all processes.
    """

    def __init__(
        self, agents: Collection[str], pairs: Sequence[PreferencePair], total: float
    ) -> None:
        self.agents = list(agents)
        self._pairs, self._total = pairs, total
        self._sums: dict[str, float] = defaultdict(float)

    def add_margins(self, margins: Tensor, losses: Tensor) -> None:
        """Add margins and losses, both (P,)."""
        self._sums["pair_loss"] += float(losses.sum())
        self._sums["pair_margin"] += float(margins.sum())
        self._sums["pair_accuracy"] += float((margins > 0).sum())

    def add_agent(
        self,
        agent: str,
        loss: float,
        signs: Tensor,
        log_probs: Tensor,
        reference: Tensor,
        tokens: Sequence[int],
    ) -> None:
        """Add completions of an agent to one prompt: signs (C, P), log-probabilities (C,), and their lengths."""
        lengths = log_probs.new_tensor(tokens)
        wins, losses = ((signs * side > 0).sum(1).to(log_probs) for side in (1, -1))  # (C,)
        parts = {
            "loss": loss,
            "pairs": signs.shape[1],
            "tokens": float((wins + losses) @ lengths),
            "winner_tokens": float(wins @ lengths),
            "winner_nll": -float(wins @ log_probs),
            "winner_log_ratio": float(wins @ (log_probs - reference)),
            "loser_log_ratio": float(losses @ (log_probs - reference)),
        }
        for name, value in parts.items():
            self._sums[f"{name}/{agent}"] += value

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the pass, all of them from before its step.

        - `pairs`: number of pairs.
        - `compared_pairs`: number of those with one side of another team; not there if it is 0.
        - `comparator_wins`: share of these in which that side is the better one.
        - `pair_gap`: mean difference of the returns of a pair.
        - `pair_loss`: mean of -log sigmoid(m), in nats.
        - `pair_margin`, `pair_accuracy`: mean of m, and the share of pairs in which it is above 0.
        - `loss/<agent>`: the agent's part of the loss: that of the pairs in which it said different things.
        - `equal_answers/<agent>`: number of pairs in which it did not, and learns nothing.
        - `winner_nll/<agent>`: mean of -log pi over the tokens of its winners.
        - `winner_log_ratio/<agent>`, `loser_log_ratio/<agent>`: mean of log pi - log reference of a winner, and of
          a loser: both fall where a team unlearns what it could.
        - `completion_tokens`: tokens of the winners and losers in the loss, of all agents.

        Means over no pairs are left out.
        """
        total, agents = self._total, self.agents
        gaps = processes.total(sum(pair.gap for pair in self._pairs))
        metrics = {"pairs": total, "completion_tokens": self._over("tokens")}
        means = {"pair_gap": gaps} | {
            name: processes.total(self._sums[name])
            for name in ("pair_loss", "pair_margin", "pair_accuracy")
        }
        metrics |= {name: value / total for name, value in means.items() if total}
        metrics |= self._opponent_metrics()
        for agent in agents:
            sums = {
                name: processes.total(self._sums[f"{name}/{agent}"])
                for name in (
                    *("loss", "pairs", "winner_tokens"),
                    *("winner_nll", "winner_log_ratio", "loser_log_ratio"),
                )
            }
            metrics[f"loss/{agent}"] = sums["loss"]
            metrics[f"equal_answers/{agent}"] = total - sums["pairs"]
            if sums["pairs"]:
                metrics[f"winner_nll/{agent}"] = sums["winner_nll"] / sums["winner_tokens"]
                metrics |= {
                    f"{name}/{agent}": sums[name] / sums["pairs"]
                    for name in ("winner_log_ratio", "loser_log_ratio")
                }
        return metrics

    def _opponent_metrics(self) -> dict[str, float]:
        # Summed over processes even if this one has no pairs, because all take part in a sum.
        sides = [pair.comparator for pair in self._pairs]
        won, lost = (processes.total(sides.count(side)) for side in ("winner", "loser"))
        if not won + lost:
            return {}
        return {"compared_pairs": won + lost, "comparator_wins": won / (won + lost)}

    def _over(self, name: str) -> float:
        return processes.total(sum(self._sums[f"{name}/{agent}"] for agent in self.agents))
