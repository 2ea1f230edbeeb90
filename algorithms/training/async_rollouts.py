"""A fixed lag: updates learn from what the weights of some updates before have sampled.

With a lag k update u learns from rollouts of its own starts, which the weights after update max(0, u - 1 - k)
have sampled: always, and not "whatever has arrived". Sampling and learning may then go on at the same time, and a
run still is a function of its options and its seed. What it learns from is no longer the present policy's own,
which `importance_sampling.py` is for.

Before update u learns, the weights that it changes sample for update u + k, so that k batches wait between two
updates. They are part of a checkpoint.

Degenerate cases: the first k + 1 updates all learn from what the first weights have sampled. The last k updates
sample nothing. If a finished run is to go on for longer, the first updates after the old end have no batch
waiting, and learn from what the present weights sample; `lag` in their rows says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollouts.rollout import from_text, to_text
from llm_decpomdp.algorithms.rollouts.sampling import Timer
from llm_decpomdp.algorithms.training.rollout_source import Batch, Played


class Waiting(NamedTuple):
    """A batch that waits for its update."""

    batch: Batch
    version: int
    """Number of complete updates of the weights that sampled it."""
    seconds: dict[str, float]
    """Spent on it, by activity."""


class Lagged:
    """Rollouts of earlier weights.

    Args:
        source: Plays them.
        lag: k, at least 1.
        updates: Number of all updates of the run.
        ahead: Whether the source may begin with a batch while the update before learns. Then no weight may change
            before `complete`.
    """

    def __init__(self, source: Played, lag: int, updates: int, ahead: bool = False) -> None:
        self.source, self.lag, self.updates, self.ahead = source, lag, updates, ahead
        self._waiting: dict[int, Waiting] = {}
        self._begun: tuple[int, int] | None = None  # an update, and the version that samples for it

    def batch(self, update: int, timer: Timer) -> Batch:
        """Return the rollouts of an update, counted from 1, and let the present weights sample for a later one.

        The clock is given the seconds that were spent on what is returned.
        """
        version, newest = update - 1, min(update + self.lag, self.updates)
        self._waiting = {of: batch for of, batch in self._waiting.items() if of >= update}
        for earlier in range(update, newest):  # none but in the first update and after an old end
            self._play(earlier, version)
        self._begun = (newest, version)
        if self.ahead and newest > update:
            self.source.prefetch(newest)
        else:
            self.complete()
        batch, version, seconds = self._waiting[update]
        for activity, number in seconds.items():
            timer.seconds[activity] = timer.seconds.get(activity, 0.0) + number
        return batch._replace(metrics={**batch.metrics, "lag": update - 1 - version})

    def complete(self) -> None:
        """Play what was begun to its end, with the weights that have begun it."""
        if self._begun is not None:
            self._play(*self._begun)
            self._begun = None

    def _play(self, update: int, version: int) -> None:
        """Play the batch of an update, unless it waits already."""
        if update not in self._waiting:
            timer = Timer()
            batch = self.source.batch(update, timer)
            self._waiting[update] = Waiting(batch, version, timer.seconds)

    def state_dict(self) -> dict[str, Any]:
        """Return what waits after the last complete update, in the first process: text, numbers and containers.

        Before the first update nothing waits: a run that goes on from there plays it again.
        """
        update = self.source.learner.updates
        last = min(update + self.lag, self.updates) if update else 0
        return {"batches": [self._row(of) for of in range(update + 1, last + 1)]}

    def _row(self, update: int) -> dict[str, Any]:
        batch, version, seconds = self._waiting[update]
        return {
            "update": update,
            "version": version,
            "seconds": seconds,
            "metrics": batch.metrics,
            "texts": list(map(to_text, batch.rollouts)),
            "shares": [list(share) for share in batch.shares],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value.

        Raises:
            ValueError: If it is of another number of processes, or an earlier version.
        """
        rank, size = processes.rank(), processes.world_size()
        self._begun, self._waiting = None, {}
        for row in state["batches"]:
            shares = row["shares"]
            if len(shares) != size:
                raise ValueError(
                    f"the batches that wait (lag={self.lag}) are those of {len(shares)} processes, and there are "
                    f"{size}: go on in as many"
                )
            if "texts" not in row:
                raise ValueError(
                    "the batches that wait (lag) are of an earlier version of llm_decpomdp: finish the run with "
                    "that one, or begin anew"
                )
            rollouts = list(map(from_text, row["texts"]))
            lessons = self.source.rewarded([rollouts[place] for place in shares[rank]])
            writes = (rollouts, row["metrics"], shares) if rank == 0 else ([], row["metrics"], ())
            self._waiting[row["update"]] = Waiting(
                Batch(lessons, *writes), row["version"], row["seconds"]
            )
