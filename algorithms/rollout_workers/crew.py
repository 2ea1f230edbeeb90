"""Crews play the bundles of a run: in this process, in others, or on other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from typing_extensions import Protocol

from llm_decpomdp.algorithms.rollout_workers.bundles import Bundle, Site
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import Stopwatch, distinct_policies
from llm_decpomdp.policy import GatheredPolicy, Seedable, Stateful, Team, TrainablePolicy

if TYPE_CHECKING:
    from llm_decpomdp.agents.remote.sampler import RemoteSampler


class Crew(Protocol):
    """Plays bundles with the weights that were published last."""

    def publish(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Take over new weights: called before the first bundle, and between a step and the next bundle.

        Args:
            policies: The policies that learn, by the names of `distinct_policies`.
            version: Complete updates, and steps of a warm start before them; it only grows.
        """
        ...

    def begin(self, bundles: Sequence[Bundle]) -> None:
        """Begin with bundles that `roll` is asked for next, as far as nobody has to wait for it; or do nothing."""
        ...

    def roll(self, bundles: Sequence[Bundle], clock: Stopwatch) -> list[list[Rollout]]:
        """Play bundles, and return the rollouts of each, in the order of the bundles.

        Args:
            bundles: Parts of one update or evaluation.
            clock: Is given the seconds of each activity, summed over all that work at the same time.

        Raises:
            CrewError: If a bundle could not be played, though it was tried again.
        """
        ...

    def close(self) -> None:
        """End what was started; a further bundle needs `publish` again."""
        ...


class LocalCrew:
    """Plays bundles here, one after the other, by the policies that learn themselves.

    Args:
        site: Environments and team.
    """

    def __init__(self, site: Site) -> None:
        self.site = site

    def publish(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Gather weights that lie in shards; others are here."""
        for policy in policies.values():
            if isinstance(policy, GatheredPolicy):
                policy.gather()

    def begin(self, bundles: Sequence[Bundle]) -> None:
        """Do nothing: this process has other work."""

    def roll(self, bundles: Sequence[Bundle], clock: Stopwatch) -> list[list[Rollout]]:
        """Play bundles, and return the rollouts of each, in the order of the bundles."""
        return [bundle.roll(self.site, clock) for bundle in bundles]

    def close(self) -> None:
        """Do nothing: nothing was started."""


def publish_to(samplers: Sequence[RemoteSampler], version: int) -> None:
    """Give servers the present weights; those that do not run are started at the same time.

    Raises:
        SamplerError: If a server does not take them.
    """
    for sampler in samplers:
        sampler.launch()
    for sampler in samplers:
        sampler.publish(version)


class Supplied:
    """A crew that is given new weights before it plays.

    Args:
        crew: The crew.
        policies: The policies that learn, by the names of `distinct_policies`.
        version: Tells the version of their weights.
    """

    def __init__(
        self, crew: Crew, policies: Mapping[str, TrainablePolicy], version: Callable[[], int]
    ) -> None:
        self.crew, self.policies, self.version = crew, policies, version
        self._newest: int | None = None  # the version that the crew has

    def begin(self, bundles: Sequence[Bundle]) -> None:
        """Begin with bundles, with the present weights, before they are asked for."""
        self._supply()
        self.crew.begin(bundles)

    def roll(self, bundles: Sequence[Bundle], clock: Stopwatch) -> list[list[Rollout]]:
        """Play bundles with the present weights; errors as of the crew."""
        self._supply()
        return self.crew.roll(bundles, clock)

    def _supply(self) -> None:
        """Publish the weights unless the crew has them."""
        version = self.version()
        if version != self._newest:
            self.crew.publish(self.policies, version)
            self._newest = version

    def reload(self) -> None:
        """Give the crew the weights again before the next bundle: they are others, by whatever version."""
        self._newest = None

    def close(self) -> None:
        """End what the crew has started."""
        self.reload()
        self.crew.close()


def check_crew(crew: Crew | None, size: int | None, team: Team, starts: Iterable[Start]) -> None:
    """Check that the bundles of a run can be played in any order, by any process.

    Args:
        crew: Plays them, if it was given.
        size: The option `starts_per_bundle`.
        team: A policy for each agent.
        starts: All starts of the run.

    Raises:
        ValueError: If a crew is to play whole updates, a policy goes on from what it has said before, or a start
            leaves the choice to the environment's running generator.
    """
    if size is None:
        if not isinstance(crew, LocalCrew | None):
            raise ValueError(
                "a crew shares the bundles of an update, and without starts_per_bundle there is one: set it, such "
                "as to a fraction of an update's starts"
            )
        return
    for name, policy in distinct_policies(team).items():
        if isinstance(policy, Stateful) and not isinstance(policy, Seedable):
            raise ValueError(
                f"starts_per_bundle={size} plays bundles in any order, and the policy of {name}, a "
                f"{type(policy).__name__}, goes on from what it said before: drop starts_per_bundle, or give the "
                "policy a method `seed` after which it begins anew"
            )
    if Start() in starts:
        raise ValueError(
            f"starts_per_bundle={size} plays bundles in any order, and a start with neither seed nor task_id is "
            "what the environment draws next: give each start one of them, or drop starts_per_bundle"
        )
