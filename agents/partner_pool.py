"""Partner pools: partners of earlier runs play an agent, so that its teammates learn to play with strangers.

Fictitious co-play (Strouse et al. 2021, arXiv 2110.08176) trains agents with frozen partners of several runs. A
teammate then cannot rely on what a single partner has agreed on with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, cast

from llm_decpomdp.options import Options, option
from llm_decpomdp.policy import CHAT, Completion, Policy, Seedable, policy_attribute, reads_history
from llm_decpomdp.seeding import stream


class PartnerOptions(Options):
    """Partners of the agents that learn, drawn from a pool of trained teams.

    The partners never learn. An evaluation plays each problem with a partner of its own, always the same. The
    final team is saved with the first partner of the pool.
    """

    pool: list[str] = field(default_factory=list)
    """Folders of runs, of saved teams, or of checkpoints (`RUN/checkpoints/...`), whose agents are the partners.
    Empty: no pool."""
    agents: list[str] = field(default_factory=list, metadata={"unless": (("pool", []),)})
    """The agents that partners play, in place of policies of their own. Empty: all but the last agent."""
    resample: str = option("start", choices=("start", "update"), unless=("pool", []))
    """When a partner is drawn: for each problem of an update (`start`), or for the whole update (`update`). All
    agents of `agents` come from the same run then."""
    other_play: bool = False
    """Rename interchangeable words at random in the prompts and answers of each agent while it trains, where the
    family declares some: `compose-v0` with `convention: name` does. It needs no pool."""


class PartnerPool:
    """A policy that stands for the partners of one agent; learners see it as frozen.

    Args:
        members: The policies of the agent, one for each partner.
        resample: As in `PartnerOptions`.
    """

    def __init__(self, members: Sequence[Policy], resample: str = "start") -> None:
        self.members, self.resample = tuple(members), resample
        self._draw: tuple[int, tuple[str | int, ...]] = (0, ())

    def begin_batch(self, seed: int, *names: str | int) -> None:
        """Draw new partners for a batch of starts with a purpose, such as `("update", 3)`.

        Pools of several agents with equal seeds and names draw the same partner. The index of the batch is not
        among the names, so that equal starts have equal partners however an update is split.
        """
        self._draw = (seed, names)

    def member(self, env: Any) -> Policy:
        """Return the partner that plays in an environment.

        Raises:
            TypeError: If each start has its own partner, and the environment does not tell its task.
        """
        seed, names = self._draw
        if self.resample == "start" or names[:1] != ("update",):
            episode = getattr(getattr(env, "unwrapped", env), "episode", None)
            if episode is None:
                raise TypeError(
                    f"partners.resample=start draws a partner for each task, and {type(env).__name__} does not "
                    "tell its task: set resample=update"
                )
            names = (*names, str(episode.task_id))
        place = stream(seed, "partner", *names).integers(len(self.members))
        return self.members[int(place)]

    def seed(self, seed: int) -> None:
        """Give every partner its own random stream, and draw new partners."""
        self.begin_batch(seed)
        for number, policy in enumerate(self.members):
            if isinstance(policy, Seedable):
                policy.seed(int(stream(seed, "partner", number).integers(2**32)))

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        """Sample with the first partner, as a prompt alone does not tell its start."""
        return self.members[0].generate(prompts, num_samples)

    def act(self, prompt: str) -> str:
        """Answer with the first partner."""
        return self.members[0].act(prompt)

    @property
    def history(self) -> str:
        """`chat` if a partner reads histories; the others read the newest prompt of a dialogue."""
        return CHAT if any(map(reads_history, self.members)) else "none"

    @property
    def on_long_prompt(self) -> str | None:
        """Treatment of long prompts by the first partner."""
        return cast("str | None", policy_attribute(self.members[0], "on_long_prompt"))

    def overflow(self, prompt: str) -> tuple[int, int] | None:
        """Return the tokens of a prompt that is too long for one of the partners, and those that fit it."""
        counts = (policy_attribute(policy, "overflow") for policy in self.members)
        lengths = (count(prompt) for count in counts if count is not None)
        return next((length for length in lengths if length is not None), None)
