"""The critic: values of later states for chains, which alone say what an answer is worth beyond its own turn.

Of each joint sample j of a group the return becomes

    R_j = r_j + discount V(x'_j),    x'_j the state after it; V = 0 where the episode is over

and siblings stay the baseline, so V supplies the future and nothing else: a wrong one costs variance or bias of
that part. x is the environment's state with all agents' histories: with the state alone the gradient is biased
where agents see less (Baisero and Amato, arXiv 2105.11674), and histories repair that, whatever else is read
(arXiv 2509.26000). Critics exist in training alone (centralised training, decentralised execution).

A critic of a turn counts while its explained variance is above 0, over the newest states before the present batch.
Each state is measured before the critic is trained on it. Otherwise R_j = r_j, as in a chain without a critic, and
targets use the mean return of the turn. If the present batch decided the gate, the gradient would be biased.

This is the critic of `critic=joint` or `own` beside a group baseline; those of actor-critics build on it.
Degenerate cases: one turn has no later state, so that nothing changes; too few states leave the gate closed.
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


ROUNDING = 1e-12
"""Rounding error of differences, as a share of the largest return."""


class ChainTurn(NamedTuple):
    """A turn of a chain."""

    rewards: Array
    """Reward of each joint sample, (J,)."""
    following: Array
    """Value of the state after each, (J,); 0 where the episode is over."""
    chosen: int
    """The joint sample that goes on."""
    going: float = 1.0
    """Share of the joint samples after which the episode goes on (n/J)."""


ValueTargets = dict[str, list[Array]]
"""Returns of the joint samples, (J,), of each group of a rollout by agent, with the critic's part; less its
baseline where it has one."""


def lambda_targets(chain: Sequence[ChainTurn], discount: float, trace: float) -> list[float]:
    """Return the target y_t of the value before each turn.

    Args:
        chain: All turns.
        discount: Weight of a turn later.
        trace: lambda.
    """
    targets: list[float] = []
    # Backwards, because each target contains the target of the following turn.
    for turn in reversed(chain):
        following = targets[-1] if targets else None
        expected = float(np.mean(turn.rewards + discount * turn.following))
        correction = _correction(turn, following, discount, trace)
        targets.append(expected + turn.going * correction)
    return targets[::-1]


def sample_returns(
    chain: Sequence[ChainTurn], targets: Sequence[float], discount: float, trace: float
) -> list[Array]:
    """Return y of the joint samples of each turn, (J,): TD(lambda) of the one that goes on, TD(0) of its siblings.

        y_j = r_j + discount V(x'_j),    and for c besides    discount lambda (y_{t+1} - V(x'_c))

    With J = 1 these are the targets.

    Args:
        chain: All turns.
        targets: As of `lambda_targets`.
        discount: Weight of a turn later.
        trace: lambda.
    """
    returns = []
    for turn, following in zip(chain, [*targets[1:], None], strict=True):
        values = turn.rewards + discount * turn.following
        values[turn.chosen] += _correction(turn, following, discount, trace)
        returns.append(values)
    return returns


def _correction(turn: ChainTurn, following: float | None, discount: float, trace: float) -> float:
    if following is None:
        return 0.0
    return float(discount * trace * (following - turn.following[turn.chosen]))


def less(returns: Array, baseline: float | Array) -> Array:
    """Subtract a baseline from returns, (J,); what rounding alone makes is 0, or Adam would step along it."""
    difference: Array = returns - baseline
    noise = ROUNDING * float(np.abs(returns).max(initial=0.0))
    return np.where(np.abs(difference) <= noise, 0.0, difference)


Gather = Callable[[Sequence[Any]], list[Any]]
"""Collects the items of all processes."""

Item = TypeVar("Item")

Key = tuple[str, int]
"""Name of a critic, and a turn."""

logger = logging.getLogger(__name__)


class Record(NamedTuple):
    """A state that a head is judged by, and trained on."""

    key: Key
    features: Tensor
    prediction: float
    target: float
    text: str = ""  # for a trunk that reads it again


class Values(NamedTuple):
    """The states of a batch as one critic reads them, with their values."""

    read: States
    predictions: dict[StatePosition, float]


class Critic:
    """Values of states, with a head for each turn.

    Args:
        options: Scope, input, targets, steps.
        features: Featuriser of each critic by its name: an agent's, or any name of one for the team. A
            `TrunkOptimizer` is trained with the heads.
        agents: The agents that learn.
        discount: Weight of a turn later.
        gather: Collects the items of all processes.
    """

    reads_first = False
    """Whether it reads the first state of an episode, which no return needs."""

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
        """Return the outlook of each rollout, and metrics; nothing changes before `learn`.

        Returns:
            The outlooks, and over the states of all processes:

            - `turn_<k>/explained_variance`: see `explained_variance`, mean over the critics.
            - `critic/gate`: share of the heads that count.
            - `critic/loss`: mean squared error of values to their targets, before training on them.
            - `critic/cut_parts`: number of parts of texts that were too long.
        """
        self._warn_without_state(rollouts)
        states = {name: self._read(name, rollouts) for name in self._features}
        records = [
            [r for name in states for r in self._records(name, states[name], number, rollout)]
            for number, rollout in enumerate(rollouts)
        ]
        self._pending, judged = self._judge(rollouts, records)
        # By earlier batches: a gate that these samples decide would make the baseline depend on them.
        value_targets = self._outlooks(states, rollouts, self._explained_variances())
        cut_parts = sum(self._gather([values.read.cut_parts for values in states.values()]))
        return value_targets, self._metrics(judged, cut_parts)

    def learn(self) -> None:
        """Train on the states of the newest `assess`, alike in all processes."""
        for key, records in self._pending.items():
            features = torch.stack([record.features for record in records])
            if key not in self._heads:
                # Only the features of a first batch tell the width of a head.
                self._heads[key] = self._new_head(key, features.shape[1])
            texts = [record.text for record in records]
            self._heads[key].learn(features, _pairs(records), self.options.critic_epochs, texts)
        self._pending = {}

    def _new_head(self, key: Key, width: int) -> ValueHead:
        rate, trunk = self.options.critic_learning_rate, self._trunks.get(key[0])
        return ValueHead(width, rate) if trunk is None else TrunkHead(width, rate, trunk)

    def _collect(self, rollouts: Sequence[Rollout], items: Sequence[Sequence[Item]]) -> list[Item]:
        """Collect what belongs to each rollout, of all processes, in the order of the update's starts.

        The order decides the minibatches of the heads, so it must not depend on the number of processes.
        """
        of_rollouts = [
            (rollout.place, list(of)) for rollout, of in zip(rollouts, items, strict=True)
        ]
        pairs = sorted(self._gather(of_rollouts), key=lambda pair: pair[0])
        return [item for _, of in pairs for item in of]

    def _judge(
        self, rollouts: Sequence[Rollout], records: Sequence[Sequence[Record]]
    ) -> tuple[dict[Key, list[Record]], dict[Key, float]]:
        """Return the records of all processes by head, and what each head explains with them.

        Args:
            rollouts: Those of this process.
            records: Of each rollout.
        """
        pending: dict[Key, list[Record]] = {}
        for record in self._collect(rollouts, records):
            pending.setdefault(record.key, []).append(record)
        judged = {
            key: self._heads[key].evaluate(_pairs(found)) if key in self._heads else 0.0
            for key, found in pending.items()
        }
        return pending, judged

    def _explained_variances(self) -> dict[Key, float]:
        """Return the explained variance of each head as of the last update."""
        return {key: head.explained for key, head in self._heads.items()}

    def _warn_without_state(self, rollouts: Sequence[Rollout]) -> None:
        kind = self.options.critic_input or DEFAULT_INPUT
        views = (group.view for rollout in rollouts for group in rollout.groups[:1])
        if "state" in kind and any(view is not None and not view.state for view in views):
            if kind == "state":
                raise ValueError("critic_input=state, and the environment has none: set history")
            if not self._warned:
                logger.warning("the environment has no state(): the critic reads histories alone")
            self._warned = True

    def _read(self, name: str, rollouts: Sequence[Rollout]) -> Values:
        """Read the states of a critic, and predict their values."""
        agents = [name] if self.options.critic == "own" else []
        features = self._features[name]
        states = read_states(rollouts, self.options, features, agents, first=self.reads_first)
        places: dict[int, list[StatePosition]] = {}
        for place in states.features:
            turn = rollouts[place.rollout].groups[place.group].turn
            places.setdefault(turn + (place.sample is not None), []).append(place)
        predictions = dict.fromkeys(states.features, 0.0)
        for turn, of_turn in places.items():
            if head := self._heads.get((name, turn)):
                values = head.predict(torch.stack([states.features[place] for place in of_turn]))
                predictions |= zip(of_turn, values.tolist(), strict=True)
        return Values(states, predictions)

    def _records(self, name: str, states: Values, number: int, rollout: Rollout) -> list[Record]:
        """Return the states of a chain that the heads learn from, with their targets."""
        chain = self._chain(name, states, number, rollout, self._explained_variances())
        targets = lambda_targets(chain, self.discount, self.options.critic_lambda)
        records = []
        for index, target in enumerate(targets):
            place = StatePosition(number, index)
            features = states.read.features.get(place)
            if features is not None:
                key = (name, rollout.groups[index].turn)
                prediction = states.predictions[place]
                text = states.read.texts[place] if name in self._trunks else ""
                records.append(Record(key, features, prediction, target, text))
        return records

    def _chain(
        self,
        name: str,
        states: Values,
        number: int,
        rollout: Rollout,
        explained: Mapping[Key, float],
        closed: float | None = None,
    ) -> list[ChainTurn]:
        """Return the turns of a chain with the values of later states.

        Args:
            name: The critic.
            states: The states that it reads.
            number: Position of the rollout.
            rollout: The chain.
            explained: Explained variance of each head.
            closed: Value where the gate is closed; `None` takes the mean of the turn.
        """
        turns = []
        for index, group in enumerate(rollout.groups):
            key = (name, group.turn + 1)
            places = (StatePosition(number, index, sample) for sample in range(len(group.joint)))
            predictions = [states.predictions.get(place) for place in places]
            following = [
                0.0 if value is None else self._gate(key, value, explained, closed)
                for value in predictions
            ]
            assert group.chosen is not None, "the critic learns from chains"
            rewards = np.array(group.rewards, dtype=np.float64)
            turns.append(ChainTurn(rewards, np.array(following), group.chosen, group.going_share))
        return turns

    def _outlooks(
        self,
        states: Mapping[str, Values],
        rollouts: Sequence[Rollout],
        explained: Mapping[Key, float],
    ) -> list[ValueTargets]:
        """Return the outlook of each rollout, given the explained variance of each head."""
        value_targets: list[ValueTargets] = [{} for _ in rollouts]
        for name in states:
            for number, rollout in enumerate(rollouts):
                chain = self._chain(name, states[name], number, rollout, explained, closed=0.0)
                returns = [turn.rewards + self.discount * turn.following for turn in chain]
                value_targets[number] |= dict.fromkeys(self._readers(name), returns)
        return value_targets

    def _readers(self, name: str) -> list[str]:
        """Return the agents that learn by a critic."""
        return [name] if self.options.critic == "own" else self.agents

    def _gate(
        self,
        key: Key,
        value: float,
        explained: Mapping[Key, float],
        closed: float | None,
    ) -> float:
        """Return a value if the gate of its turn is open."""
        if not self.options.critic_gate or explained.get(key, 0.0) > 0:
            return value
        if closed is not None or key not in self._heads:
            return closed or 0.0
        return self._heads[key].mean

    def _metrics(self, judged: Mapping[Key, float], cut_parts: int) -> dict[str, float]:
        found = [record for records in self._pending.values() for record in records]
        metrics = {"critic/cut_parts": float(cut_parts)}
        if not found:
            return metrics
        errors = [(record.prediction - record.target) ** 2 for record in found]
        explained = self._explained_variances()
        counts = [not self.options.critic_gate or explained.get(key, 0.0) > 0 for key in judged]
        metrics |= {"critic/loss": float(np.mean(errors)), "critic/gate": float(np.mean(counts))}
        for turn in sorted({turn for _, turn in judged}):
            values = [value for (_, of), value in judged.items() if of == turn]
            metrics[f"turn_{turn + 1}/explained_variance"] = float(np.mean(values))
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """Return the heads' states, and those of trunks that are trained."""
        heads = [
            {"name": name, "turn": turn, "state": head.state_dict()}
            for (name, turn), head in self._heads.items()
        ]
        trunks = {name: trunk.state_dict() for name, trunk in self._trunks.items()}
        return {"heads": heads, **({"trunks": trunks} if trunks else {})}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value."""
        # Heads are made at their first batch, so a new critic has none to load into.
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
