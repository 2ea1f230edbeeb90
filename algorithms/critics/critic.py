"""The critic: values of later states for chains, where an action's own turn does not show its later effect.

The return of joint sample j of a group becomes

    R_j = r_j + discount V(x'_j),    x'_j the state after it; V = 0 if the episode is over

The group remains the baseline, so an inaccurate V adds variance or bias only to the future part. x is the
environment's state with the histories of all agents: with the state alone the gradient is biased under partial
observability (Baisero and Amato, arXiv 2105.11674); histories remove this bias, whatever else is read (arXiv
2509.26000). Critics exist in training only (centralized training, decentralized execution).

**Gate.** The critic of a turn is used while its explained variance is above 0, over the newest states before the
current batch, each predicted before the critic was trained on it. Otherwise R_j = r_j, as in a chain without a
critic, and targets use the mean return of the turn. If the current batch decided, the gradient would be biased.

**Targets** along a chain are TD(lambda) (Sutton and Barto 2018, chapter 12). With x_t the state before turn t,
J joint samples with rewards r_j there, x'_j the state after each, and c the sample that continues:

    y_t = (1/J) sum_j [r_j + discount V(x'_j)] + discount lambda (n/J) (y_{t+1} - V(x'_c))

n is the number of joint samples after which the episode continues. The last term is 0 at the end of the chain.
With J = 1 this is TD(lambda). With J > 1 the mean replaces a single sample, and the last term corrects V by the
later returns; the J - n samples that end the episode need no correction. Assumption: c was drawn at random. With
`branch_selection=best` the values are those of continuing with the best sample.

`Critic` is used with `critic=joint` or `own` beside a group baseline; those of actor-critics build on it.
Degenerate cases: with one turn there is no later state and nothing changes; too few states leave the gate closed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from llm_decpomdp.algorithms.critics.head import TrunkHead, TrunkOptimizer, ValueHead
from llm_decpomdp.algorithms.critics.options import DEFAULT_INPUT, CriticOptions
from llm_decpomdp.algorithms.critics.states import Features, StatePosition, States, read_states
from llm_decpomdp.algorithms.rollouts.rollout import Rollout

Array = NDArray[np.float64]
ValueTargets = dict[str, list[Array]]  # returns of each group's joint samples, (J,), by agent
ROUNDING = 1e-12  # rounding error of differences, as a share of the largest return
Gather = Callable[[Sequence[Any]], list[Any]]
"""Collects the items of all processes."""
Item = TypeVar("Item")
Key = tuple[str, int]
"""Name of a critic, and a turn."""

logger = logging.getLogger(__name__)


class ChainTurn(NamedTuple):
    """A turn of a chain."""

    rewards: Array  # reward of each joint sample, (J,)
    following: Array  # value of the state after each, (J,); 0 if the episode is over
    chosen: int  # the joint sample that continues
    going: float = 1.0  # share of the joint samples after which the episode continues (n/J)

    def correction(self, following: float | None, discount: float, trace: float) -> float:
        """Return discount lambda (y_{t+1} - V(x'_c)); 0 at the end of the chain, where y_{t+1} is `None`."""
        if following is None:
            return 0.0
        return float(discount * trace * (following - self.following[self.chosen]))


def lambda_targets(chain: Sequence[ChainTurn], discount: float, trace: float) -> list[float]:
    """Return the target y_t of the value before each turn; `trace` is lambda."""
    targets: list[float] = []
    # Backwards, because each target contains the target of the following turn.
    for turn in reversed(chain):
        following = targets[-1] if targets else None
        mean_return = float(np.mean(turn.rewards + discount * turn.following))
        targets.append(mean_return + turn.going * turn.correction(following, discount, trace))
    return targets[::-1]


def sample_returns(
    chain: Sequence[ChainTurn], targets: Sequence[float], discount: float, trace: float
) -> list[Array]:
    """Return y of the joint samples of each turn, (J,): TD(lambda) for the one that continues, TD(0) for others.

        y_j = r_j + discount V(x'_j),    for c also    + discount lambda (y_{t+1} - V(x'_c))

    With J = 1 these are the targets of `lambda_targets`.
    """
    returns = []
    for turn, following in zip(chain, [*targets[1:], None], strict=True):
        values = turn.rewards + discount * turn.following
        values[turn.chosen] += turn.correction(following, discount, trace)
        returns.append(values)
    return returns


def less(returns: Array, baseline: float | Array) -> Array:
    """Subtract a baseline from returns, (J,)."""
    difference: Array = returns - baseline
    # Adam divides by the scale of the gradient, and would take a full step along a rounding error.
    noise = ROUNDING * float(np.abs(returns).max(initial=0.0))
    return np.where(np.abs(difference) <= noise, 0.0, difference)


class Record(NamedTuple):
    """A state on which a head is evaluated and then trained."""

    key: Key
    features: Tensor
    prediction: float
    target: float
    text: str = ""  # for a trained trunk, which reads it again


class Values(NamedTuple):
    """The states of a batch as one critic reads them, and their predicted values."""

    read: States
    predictions: dict[StatePosition, float]


class Critic:
    """Values of states, with a head for each turn.

    Args:
        options: Scope, input, targets, steps.
        features: Features of each critic by its name: an agent, or any name for the critic of the team. A
            `TrunkOptimizer` is trained with the heads.
        agents: The agents that learn.
        discount: Weight of a reward one turn later.
        gather: Collects the items of all processes.
    """

    reads_first = False
    """Whether it reads the first state of an episode, which only a baseline needs."""

    def __init__(
        self,
        options: CriticOptions,
        features: Mapping[str, Features],
        agents: Collection[str],
        *,
        discount: float,
        gather: Gather = list,
    ) -> None:
        self.options = options
        self.agents = list(agents)
        self.discount = discount
        self._features = dict(features)
        self._trunks = {n: f for n, f in features.items() if isinstance(f, TrunkOptimizer)}
        self._gather = gather
        self._heads: dict[Key, ValueHead] = {}
        self._pending: dict[Key, list[Record]] = {}
        self._warned = False

    def assess(self, rollouts: Sequence[Rollout]) -> tuple[list[ValueTargets], dict[str, float]]:
        """Return the value targets of each rollout, and metrics; heads change only in `learn`."""
        self._check_state(rollouts)
        states = {name: self._read(name, rollouts) for name in self._features}
        records = [
            [r for name in states for r in self._records(name, states[name], number, rollout)]
            for number, rollout in enumerate(rollouts)
        ]
        self._pending, explained = self._evaluate(rollouts, records)
        value_targets = self._targets(states, rollouts)
        cut_parts = sum(self._gather([values.read.cut_parts for values in states.values()]))
        return value_targets, self._metrics(explained, cut_parts)

    def learn(self) -> None:
        """Train on the states of the newest `assess`, equally in all processes."""
        for key, records in self._pending.items():
            features = torch.stack([record.features for record in records])
            if key not in self._heads:
                # The width of a head is known from the features of the first batch.
                self._heads[key] = self._new_head(key, features.shape[1])
            texts = [record.text for record in records]
            self._heads[key].learn(features, _pairs(records), self.options.epochs, texts)
        self._pending = {}

    def _new_head(self, key: Key, width: int) -> ValueHead:
        rate, trunk = self.options.learning_rate, self._trunks.get(key[0])
        return ValueHead(width, rate) if trunk is None else TrunkHead(width, rate, trunk)

    def _collect(self, rollouts: Sequence[Rollout], items: Sequence[Sequence[Item]]) -> list[Item]:
        """Collect the items of each rollout, of all processes, in the order of the update's starts.

        The order decides the minibatches of the heads, so it must not depend on the number of processes.
        """
        pairs = zip(rollouts, items, strict=True)
        gathered = self._gather([(rollout.place, list(of)) for rollout, of in pairs])
        return [item for _, of in sorted(gathered, key=lambda pair: pair[0]) for item in of]

    def _evaluate(
        self, rollouts: Sequence[Rollout], records: Sequence[Sequence[Record]]
    ) -> tuple[dict[Key, list[Record]], dict[Key, float]]:
        """Return the records of all processes by head, and the explained variance of each head with them."""
        pending: dict[Key, list[Record]] = {}
        for record in self._collect(rollouts, records):
            pending.setdefault(record.key, []).append(record)
        explained = {
            key: self._heads[key].evaluate(_pairs(of_head)) if key in self._heads else 0.0
            for key, of_head in pending.items()
        }
        return pending, explained

    def _check_state(self, rollouts: Sequence[Rollout]) -> None:
        kind = self.options.input or DEFAULT_INPUT
        views = (group.view for rollout in rollouts for group in rollout.groups[:1])
        if "state" in kind and any(view is not None and not view.state for view in views):
            if kind == "state":
                raise ValueError("critic.input=state, and the environment has none: set history")
            if not self._warned:
                logger.warning("the environment has no state(): the critic reads histories alone")
            self._warned = True

    def _read(self, name: str, rollouts: Sequence[Rollout]) -> Values:
        """Read the states of a critic, and predict their values."""
        agents = [name] if self.options.scope == "own" else []
        features = self._features[name]
        states = read_states(rollouts, self.options, features, agents, first=self.reads_first)
        places: dict[int, list[StatePosition]] = {}
        for place in states.features:
            turn = rollouts[place.rollout].groups[place.group].turn
            # The state after a joint sample is the one before the next turn.
            places.setdefault(turn + (place.sample is not None), []).append(place)
        predictions = dict.fromkeys(states.features, 0.0)
        for turn, of_turn in places.items():
            if head := self._heads.get((name, turn)):
                values = head.predict(torch.stack([states.features[place] for place in of_turn]))
                predictions |= zip(of_turn, values.tolist(), strict=True)
        return Values(states, predictions)

    def _records(self, name: str, states: Values, number: int, rollout: Rollout) -> list[Record]:
        """Return the states of a chain from which the heads learn, with their targets."""
        chain = self._chain(name, states, number, rollout)
        targets = lambda_targets(chain, self.discount, self.options.td_lambda)
        records = []
        for index, target in enumerate(targets):
            place = StatePosition(number, index)
            features = states.read.features.get(place)
            if features is not None:
                key = (name, rollout.groups[index].turn)
                text = states.read.texts[place] if name in self._trunks else ""
                records.append(Record(key, features, states.predictions[place], target, text))
        return records

    def _chain(
        self, name: str, states: Values, number: int, rollout: Rollout, closed: float | None = None
    ) -> list[ChainTurn]:
        """Return the turns of a chain with the values of later states, as a critic reads them.

        While the gate is closed a value is `closed`, by default the mean of the turn.
        """
        turns = []
        for index, group in enumerate(rollout.groups):
            key = (name, group.turn + 1)
            places = (StatePosition(number, index, sample) for sample in range(len(group.joint)))
            predictions = [states.predictions.get(place) for place in places]
            following = [0.0 if v is None else self._gate(key, v, closed) for v in predictions]
            assert group.chosen is not None, "the critic learns from chains"
            rewards = np.array(group.rewards, dtype=np.float64)
            turns.append(ChainTurn(rewards, np.array(following), group.chosen, group.going_share))
        return turns

    def _targets(
        self, states: Mapping[str, Values], rollouts: Sequence[Rollout]
    ) -> list[ValueTargets]:
        """Return the value targets of each rollout."""
        value_targets: list[ValueTargets] = [{} for _ in rollouts]
        for name in states:
            for number, rollout in enumerate(rollouts):
                chain = self._chain(name, states[name], number, rollout, closed=0.0)
                returns = [turn.rewards + self.discount * turn.following for turn in chain]
                value_targets[number] |= dict.fromkeys(self._readers(name), returns)
        return value_targets

    def _readers(self, name: str) -> list[str]:
        """Return the agents that use a critic."""
        return [name] if self.options.scope == "own" else self.agents

    def _is_open(self, key: Key) -> bool:
        # A head's explained variance changes in `learn` only. A gate that depended on the samples which it gates
        # would make the baseline depend on them.
        return not self.options.gate or (key in self._heads and self._heads[key].explained > 0)

    def _gate(self, key: Key, value: float, closed: float | None) -> float:
        """Return a value if the gate of its turn is open, else `closed`, by default the mean of the turn."""
        if self._is_open(key):
            return value
        if closed is not None or key not in self._heads:
            return closed or 0.0
        return self._heads[key].mean

    def _metrics(self, explained: Mapping[Key, float], cut_parts: int) -> dict[str, float]:
        pending = [record for records in self._pending.values() for record in records]
        metrics = {"critic/cut_parts": float(cut_parts)}
        if not pending:
            return metrics
        errors = [(record.prediction - record.target) ** 2 for record in pending]
        is_open = [self._is_open(key) for key in explained]
        metrics |= {"critic/loss": float(np.mean(errors)), "critic/gate": float(np.mean(is_open))}
        for turn in sorted({turn for _, turn in explained}):
            values = [value for (_, of), value in explained.items() if of == turn]
            metrics[f"turn_{turn + 1}/explained_variance"] = float(np.mean(values))
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the heads, and those of trained trunks."""
        heads = [
            {"name": name, "turn": turn, "state": head.state_dict()}
            for (name, turn), head in self._heads.items()
        ]
        trunks = {name: trunk.state_dict() for name, trunk in self._trunks.items()}
        return {"heads": heads, **({"trunks": trunks} if trunks else {})}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the value of `state_dict`."""
        self._heads, self._pending = {}, {}
        for part in state["heads"]:
            key = part["name"], part["turn"]
            self._heads[key] = self._new_head(key, len(part["state"]["weight"]))
            self._heads[key].load_state_dict(part["state"])
        for name, trunk in self._trunks.items():
            trunk.load_state_dict(state["trunks"][name])


def require_views(rollouts: Sequence[Rollout]) -> None:
    """Raise a `ValueError` unless the states before all groups are recorded."""
    if any(group.view is None for rollout in rollouts for group in rollout.groups):
        raise ValueError("the critic compares states, and rollouts have none: use views=True")


def _pairs(records: Sequence[Record]) -> Tensor:
    """Return predictions and targets, (B, 2)."""
    values = [(record.prediction, record.target) for record in records]
    return torch.tensor(values, dtype=torch.float64)
