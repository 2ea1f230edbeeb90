"""What a server has for the policies of one engine: all that sampling there needs, in this process or another."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool

import torch

from llm_decpomdp.agents.inference.sampler import Prompt, SampledRow
from llm_decpomdp.agents.remote.client import Client, Request
from llm_decpomdp.agents.remote.options import SamplerError, ServerLost

AT_ONCE = 256
"""Most requests that wait for answers at once."""

POLL = 0.005
"""Seconds between two looks at the number of requests that a server has."""

SETTLING = 0.05
"""Seconds from a server's having read the last request of a batch to its having queued it."""

UNSEEN = 20.0
"""Seconds after which a server that has still seen no request is one that does not count them."""


@dataclass(frozen=True)
class ServedWeights:
    """Samples by weights that were published, and by no others. It holds no weights, and can be pickled."""

    client: Client
    """Speaks with the server."""
    names: Mapping[str | None, str]
    """Names of the weights at the server, by adapter; `None` for all weights of the model."""
    version: str | None
    """Of all weights of the model, where they were published."""
    exact: bool
    """Whether a batch is held back until it is complete."""

    def sample(self, prompts: Sequence[Prompt], num_samples: int) -> list[SampledRow]:
        """Draw completions of all prompts: those of the first one, then those of the second, and so on.

        The seed of each prompt comes from its generator. Log-probabilities are those of the distribution that
        was sampled from, at its temperature. Of a row that ends at a stop string, tokens behind it may be left.

        Raises:
            SamplerError: If the server has other weights, or refuses.
            ServerLost: If it does not answer, or was started anew.
        """
        groups = self.ask(to_requests(self.names, prompts, num_samples))
        return [row for rows in groups for row in rows]

    def ask(self, requests: Sequence[Request]) -> list[list[SampledRow]]:
        """Ask for all completions of a batch; errors as of `sample`."""
        self._require_version()
        # Its threads are daemons, so that Ctrl-C waits for no server.
        with ThreadPool(len(requests) if self.exact else min(len(requests), AT_ONCE)) as pool:
            if not self.exact:
                return list(
                    pool.imap(lambda request: self.client.complete(request, False), requests)
                )
            with self.client.paused():
                self.client.forget_prompts()
                answers = [
                    pool.apply_async(self.client.complete, (request, True)) for request in requests
                ]
                deadline = time.monotonic() + self.client.timeout
                while not any(answer.ready() for answer in answers):
                    if self.client.open_requests() >= len(requests):
                        break
                    self._require_seen(deadline)
                time.sleep(SETTLING)
            return [answer.get() for answer in answers]

    def _require_version(self) -> None:
        """Check that all weights of the model are those that were published, where the server tells."""
        if self.version is None:
            return
        version = self.client.version()
        if version not in (None, self.version):
            raise ServerLost(
                f"{self.client.url} has weights of version {version!r}, not {self.version!r}: somebody has "
                "started it anew, or given it others"
            )

    def _require_seen(self, deadline: float) -> None:
        """Wait a moment for a batch to arrive; raise a `ServerLost` if it takes too long."""
        rest, url = deadline - time.monotonic(), self.client.url
        if rest < 0:
            raise ServerLost(f"{url} has not taken in a batch for {self.client.timeout:g} s")
        if self.client.timeout - rest > UNSEEN and not self.client.open_requests():
            raise SamplerError(
                f"{url} does not count its requests: start it with --enable-server-load-tracking, or set "
                "exact=false"
            )
        time.sleep(POLL)


def to_requests(
    names: Mapping[str | None, str], prompts: Sequence[Prompt], num_samples: int
) -> list[Request]:
    """Return what to ask a server for, each prompt with a seed that its generator draws; names by adapter."""
    return [
        Request(
            model=names[prompt.adapter],
            prompt=prompt.ids,
            samples=num_samples,
            seed=int(torch.randint(2**31, (), generator=prompt.generator)),
            sampling=prompt.sampling,
            place=place,
        )
        for place, prompt in enumerate(prompts)
    ]
