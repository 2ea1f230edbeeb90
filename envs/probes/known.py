"""Known values of the probes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llm_decpomdp.envs.probes.env import DAMAGE, GRADES, PAYOFFS, WORST
from llm_decpomdp.envs.probes.parts import LETTERS
from llm_decpomdp.envs.probes.topology import ROUNDS, SECRETS


@dataclass(frozen=True)
class KnownValues:
    """Known values of a probe by its defaults, as undiscounted returns of whole episodes."""

    catches: str
    """Mistake of a learner that fails."""
    optimum: float
    """Return of the best team."""
    random_value: float
    """Return of a team that draws each token from the letters and the end with equal probabilities."""
    smallest_team: int = 2
    """Smallest number of agents that can play it."""
    letters: str = LETTERS
    """Letters of its prompts and answers."""


_TOKEN = 1 / (1 + len(LETTERS))  # probability of each token for a random team
_PAIR = _TOKEN**2  # of two certain tokens

PROBES: Mapping[str, KnownValues] = {
    "probe-rendezvous-v0": KnownValues("sign or credit", 1.0, 3 * _PAIR),
    "probe-halves-v0": KnownValues("masks or mixed rows", 1.0, _PAIR, smallest_team=1),
    "probe-turns-v0": KnownValues("turns", 2.0, 2 * _TOKEN + _PAIR),
    "probe-lazy-v0": KnownValues("a lazy agent", 1.0, _TOKEN - DAMAGE * (1 - 2 * _TOKEN)),
    "probe-delayed-v0": KnownValues("returns", 1.0, 0.0, smallest_team=1),
    "probe-noisy-partners-v0": KnownValues(
        "noise of partners", 1.0, len(GRADES) / (1 + len(GRADES)) / 2, letters=GRADES
    ),
    "probe-climbing-v0": KnownValues(
        "fear of the partner",
        11.0,
        _PAIR * sum(map(sum, PAYOFFS.values())) / 2 + (1 - 9 * _PAIR) * WORST,
    ),
    "probe-mixed-pairs-v0": KnownValues("luck of a partner", 1.0, _TOKEN),
    "probe-relay-v0": KnownValues("returns over turns", 1.0, 0.0, letters=SECRETS),
    "probe-speaker-listener-v0": KnownValues("a convention over turns", 1.0, 0.0),
}
"""Known values of the probes of `probes/env.py`, and of the two of the horizon in `probes/topology.py`, by id."""

TOPOLOGY_PROBES: Mapping[str, KnownValues] = {
    "probe-relay-turns-v0": KnownValues("credit of agents that act first", 1.0, 0.0),
    "probe-early-exit-v0": KnownValues("rewards after an agent left", 1.0, 0.0),
    "probe-late-entry-v0": KnownValues("agents that join", 1.0, 0.0),
    "probe-verifier-v0": KnownValues("own points", 1.0, 4.0**-ROUNDS),
    "probe-memory-v0": KnownValues("histories", 1.0, 0.0, smallest_team=1),
}
"""Known values of the probes of team topologies in `probes/topology.py`, by id."""
