"""A crew in this process whose policies are sampled at servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llm_decpomdp.agents.remote.sampler import RemoteSampler
from llm_decpomdp.algorithms.crews.bundles import Site
from llm_decpomdp.algorithms.crews.crew import LocalCrew
from llm_decpomdp.policy import TrainablePolicy


class ServedCrew(LocalCrew):
    """Plays bundles here, one after the other, by policies that learn here and are sampled at servers.

    Args:
        site: Environments and team.
        samplers: Those of the team's engines.
    """

    def __init__(self, site: Site, samplers: Sequence[RemoteSampler]) -> None:
        super().__init__(site)
        self.samplers = samplers

    def publish(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Give the servers the present weights; those that do not run are started at the same time.

        Raises:
            SamplerError: If a server does not take them.
        """
        for sampler in self.samplers:
            sampler.launch()
        for sampler in self.samplers:
            sampler.publish(version)

    def close(self) -> None:
        """End the servers that were started; `publish` starts them again."""
        for sampler in self.samplers:
            sampler.close()
