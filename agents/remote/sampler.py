"""Sampling at a server for policies that learn here.

Requests name the version of the weights. The first answer with new weights is compared with the learner's
log-probabilities, so a server never samples by other weights than the policy's.
"""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch

from llm_decpomdp.agents.inference.sampler import Prompt, SampledRow
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.engine import ModelEngine
from llm_decpomdp.agents.models.methods import mean_difference, mismatch_limit
from llm_decpomdp.agents.remote.client import ServedWeights, VllmClient, to_requests
from llm_decpomdp.agents.remote.options import (
    BASE,
    SamplerError,
    SamplerOptions,
    ServerLost,
    check_untruncated,
)
from llm_decpomdp.agents.remote.server import Server, make_private
from llm_decpomdp.agents.remote.transfer import TransferGroup, connect, send_weights

logger = logging.getLogger(__name__)

ENOUGH_TOKENS = 1000  # from which on the average difference of log-probabilities is checked
SINGLE = 10  # factor of the limit for a single answer
PROBE, PROBE_TOKENS = "Say something.", 16  # prompt of `serve`, and tokens of its completion

Result = TypeVar("Result")


class Publication(NamedTuple):
    """The published weights of a policy."""

    name: str  # at the server, which no other weights have
    version: int  # as of `RemoteSampler.update_weights`
    folder: Path  # of files for the server to load
    writes: int  # see `_writes`


class RemoteSampler:
    """Samples at a server for the policies of one engine.

    A server that dies or hangs is started again and gets the same weights. Its open requests are repeated from the
    beginning, with the same seeds.

    Args:
        engine: The model that learns here.
        policies: The policies of that engine, by name: one that trains the model itself, or several with adapters.
        server: The server, with the same model.
        folder: Takes weights on their way to the server.
        options: Timeouts, restarts and limits.
        make_group: Makes the group for full weights that go from GPU to GPU; `None` sends files.

    Raises:
        ValueError: If a policy that learns cuts the distribution that it samples from.
    """

    def __init__(
        self,
        engine: ModelEngine,
        policies: Mapping[str, CausalLM],
        server: Server,
        folder: Path,
        options: SamplerOptions,
        make_group: Callable[[], TransferGroup] | None = None,
    ) -> None:
        for name, policy in policies.items():
            if any(weight.requires_grad for weight in policy.parameters()):
                check_untruncated(name, policy.sampling)
        self.engine, self.policies, self.server = engine, policies, server
        self.folder, self.options, self._make_group = folder, options, make_group
        self._group: TransferGroup | None = None
        # All by adapter: the weights that the server should have and has, those without a compared answer, and
        # their first answers.
        self._wanted: dict[str | None, Publication] = {}
        self._there: dict[str | None, Publication] = {}
        self._unproven: set[str | None] = set()
        self._proofs: dict[str | None, tuple[Prompt, Sequence[SampledRow]]] = {}
        self.proves_later = False
        """Whether answers by new weights wait for `prove`, because another thread uses the model here."""
        self._difference, self._tokens = 0.0, 0  # of all compared answers
        self._client: VllmClient | None = None
        self._lost = False
        self._closed = False
        self._process = secrets.token_hex(3)  # of the names, so that no two processes share one

    def launch(self) -> None:
        """Begin to start the server, if it does not run, and sample at it from now on; do not wait."""
        self.engine.remote = self
        self._closed = False
        self.server.launch()

    def update_weights(self, version: int) -> None:
        """Give the server the present weights of all policies; the version is part of the names, as in `main@17`.

        Raises:
            SamplerError: If the server does not take them, or cannot be kept alive.
        """
        self.launch()
        before = self._wanted
        make_private(self.folder)
        for name, policy in self.policies.items():
            writes, old = _writes(policy), before.get(policy.adapter)
            if old is not None and old.writes == writes:
                continue
            unique = f"{name}@{version}-{self._process}{secrets.token_hex(2)}"
            folder = self.folder / "weights" / unique
            if self._make_group is None or policy.adapter is not None:
                policy.publish(folder)
            new = Publication(unique, version, folder, writes)
            self._wanted = {**self._wanted, policy.adapter: new}
        self._retry(lambda served: None)
        for adapter, publication in before.items():
            if self._wanted[adapter] is not publication:
                shutil.rmtree(publication.folder, ignore_errors=True)

    def sample(self, prompts: Sequence[Prompt], num_samples: int) -> list[SampledRow]:
        """Draw completions of all prompts, as in `ServedWeights.sample`.

        Raises:
            SamplerError: If weights were not published, the server has others, its answers differ from the
                learner's, or it cannot be kept alive.
        """
        self._require_published({prompt.adapter for prompt in prompts})
        requests = to_requests(self._names(), prompts, num_samples)
        groups = self._retry(lambda served: served.ask(requests))
        for prompt, rows in zip(prompts, groups, strict=True):
            # For a partner that cuts its distribution, the server returns other log-probabilities.
            if prompt.adapter in self._unproven and not prompt.sampling.cuts:
                self._proofs.setdefault(prompt.adapter, (prompt, rows))
        if not self.proves_later:
            self.prove()
        return [row for rows in groups for row in rows]

    def serve(self) -> ServedWeights:
        """Return a sampler for other processes, until weights are published again or the server is lost.

        A short request first restarts a lost server and compares its answers; raises the errors of `sample`.
        """
        prompts = []
        for policy in self.policies.values():
            if (prompt := policy.request(PROBE)) is not None:
                few = min(PROBE_TOKENS, prompt.sampling.max_new_tokens)
                sampling = replace(prompt.sampling, max_new_tokens=few, stop=None)
                prompts.append(replace(prompt, sampling=sampling, generator=torch.Generator()))
        self.sample(prompts, 1)
        return self._retry(lambda served: served)

    def close(self) -> None:
        """Remove all weights from the server, and end it if the run has started it; sample here again."""
        self._closed, self.engine.remote = True, None
        if self._client is not None:
            with suppress(SamplerError):  # the server has ended already
                for adapter, publication in self._there.items():
                    if adapter is not None:
                        self._client.unload_adapter(self._name(adapter, publication))
        self._leave()
        self._wanted, self._proofs = {}, {}
        shutil.rmtree(self.folder, ignore_errors=True)

    def _names(self) -> dict[str | None, str]:
        # All weights of a model have the same name in each version.
        return {adapter: self._name(adapter, new) for adapter, new in self._wanted.items()}

    def _name(self, adapter: str | None, publication: Publication) -> str:
        """Return the name of published weights at the server."""
        return BASE if adapter is None else publication.name

    def _require_published(self, adapters: set[str | None]) -> None:
        for name, policy in self.policies.items():
            if policy.adapter in adapters:
                publication = self._wanted.get(policy.adapter)
                if publication is None or publication.writes != _writes(policy):
                    raise SamplerError(
                        f"the weights of {name!r} have changed and were not published: call publish() before they "
                        "are sampled from"
                    )

    def _retry(self, work: Callable[[ServedWeights], Result]) -> Result:
        """Do something with a server that has the wanted weights, again after each time that it is lost."""
        for failures in range(self.options.max_restarts + 1):
            try:
                return work(self._ready())
            except ServerLost as error:
                if self._closed:  # by another thread, so no server may start again
                    raise SamplerError(f"asked while it was closed ({error})") from error
                words = self.server.last_words()
                self._leave()
                self._lost = True
                if failures == self.options.max_restarts:
                    raise SamplerError(
                        f"a server that samples was lost {failures + 1} times in a row, the last time as {error}. "
                        f"The end of its log:\n{words}"
                    ) from error
                logger.warning(
                    "a server that samples is lost (%s): it is started again, and asked the same",
                    error,
                )
        raise AssertionError("either returned or raised")

    def _leave(self) -> None:
        self.server.stop()
        self._client, self._there, self._group = None, {}, None

    def _ready(self) -> ServedWeights:
        """Return a server's weights: the wanted ones, and no older ones of these policies."""
        timeout, ends = self.options.timeout, self.engine.end_ids
        if self._client is None:
            url = self.server.ready(lambda url: VllmClient(url, ends, timeout).is_well())
            self._client = VllmClient(url, ends, timeout)
        client, changed = self._client, {}
        for adapter, new in self._wanted.items():
            if self._there.get(adapter) is not new:
                changed[adapter] = new
        self._unproven |= changed.keys()
        if None in changed:
            self._replace_weights(client, changed[None])
        elif changed:
            self._replace_adapters(client, changed)
        self._there |= changed
        return self._served(client)

    def _replace_adapters(
        self, client: VllmClient, changed: Mapping[str | None, Publication]
    ) -> None:
        """Replace the older weights of some adapters."""
        for adapter in changed:
            if adapter in self._there:
                client.unload_adapter(self._there.pop(adapter).name)
        for adapter, new in changed.items():
            if self._lost:  # a server that hung for a while may still have it
                client.unload_adapter(new.name)
            client.load_adapter(new.name, new.folder)
            self._there[adapter] = new  # also if the next one fails, so that `close` unloads it

    def _served(self, client: VllmClient) -> ServedWeights:
        """Return what samples by the wanted weights, which the server has."""
        version = self._wanted[None].name if None in self._wanted else None
        return ServedWeights(client, self._names(), version, self.options.exact)

    def _replace_weights(self, client: VllmClient, new: Publication) -> None:
        if self._make_group is None:
            client.reload_weights(new.name, new.folder)
            return
        (policy,) = self.policies.values()
        self._require_published({None})  # these are sent as they are now
        if self._group is None:
            self._group = self._make_group()
            connect(client, self._group)
        weights = dict(policy.model.named_parameters())
        send_weights(client, self._group, new.name, weights, policy.compute_dtype)

    def prove(self) -> None:
        """Compare a server's first answers by new weights with the learner's log-probabilities.

        Raises:
            SamplerError: If they differ by more than the limit.
        """
        proofs, self._proofs = self._proofs, {}
        for adapter, (prompt, rows) in proofs.items():
            self._compare(prompt, rows)
            self._unproven.discard(adapter)

    @torch.no_grad()
    def _compare(self, prompt: Prompt, rows: Sequence[SampledRow]) -> None:
        self.engine.activate(prompt.adapter)
        tokens, divisor = [row.tokens for row in rows], prompt.sampling.divisor
        log_probs = self.engine.log_probs_of_prompts([(prompt.ids, tokens)], divisor)
        sampled = torch.tensor([value for row in rows for value in row.log_probs]).to(log_probs)
        mismatch, limit = mean_difference(log_probs, sampled), self.options.max_mismatch
        answers = "its first answer"
        if limit is None:
            usual = mismatch_limit(self.engine.compute_dtype)
            self._difference += mismatch * divisor * len(sampled)
            self._tokens += len(sampled)
            # A few tokens vary by rounding, so a single answer may differ more than the average.
            limit = SINGLE * usual / divisor
            if self._tokens >= ENOUGH_TOKENS and mismatch <= limit:
                mismatch, limit = self._difference / self._tokens, usual
                answers = f"its first answers so far ({self._tokens} tokens), the last of them"
        if not mismatch <= limit:  # NaN too
            raise SamplerError(
                f"the server's log-probabilities differ from the learner's by {mismatch:.3g} nats a token, more "
                f"than {limit:g}, in {answers} by {self._names()[prompt.adapter]}: the server has other weights, "
                "another model, or another number format than compute_dtype; inference.max_mismatch sets the limit"
            )


def _writes(policy: CausalLM) -> int:
    """Count the writes to a policy's weights since they were made: with equal counts they are the same."""
    return sum(weight._version for weight in policy.parameters())
