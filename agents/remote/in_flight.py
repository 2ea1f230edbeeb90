"""Sampling at a server whose weights change while it writes answers (partial rollouts).

Weights are replaced in their place during a pause that keeps open requests. Requests then continue with the keys
and values of their tokens so far. Adapters keep their name, because open requests are bound to it. The server has
the version of its weights. Answers are streamed, so that each token has a time, and the version of a token is the
one that the server had then.

Log-probabilities do not depend on the versions: the server records them as it samples.
"""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.pool import ThreadPool
from typing import Any

from llm_decpomdp.agents.inference.sampler import SampledRow
from llm_decpomdp.agents.remote.client import AT_ONCE, CompletionRequest, ServedWeights, VllmClient
from llm_decpomdp.agents.remote.options import BASE, SamplerError, ServerLost
from llm_decpomdp.agents.remote.sampler import Publication, RemoteSampler

LOOK = 0.02  # seconds between two questions for the version: tokens may count as older by so much


class InFlightSampler(RemoteSampler):
    """Samples at a server that takes new weights while it answers; arguments are those of `RemoteSampler`."""

    def _name(self, adapter: str | None, publication: Publication) -> str:
        # Open requests are bound to the name of an adapter, so all versions have the same.
        if adapter is None:
            return BASE
        return f"{publication.name.partition('@')[0]}-{self._process}"

    def _replace_adapters(
        self, client: VllmClient, changed: Mapping[str | None, Publication]
    ) -> None:
        # A server has one version for all adapters, so no token may be written before the last one is loaded.
        with client.pause():
            for adapter, new in changed.items():
                name, in_place = self._name(adapter, new), adapter in self._there
                if self._lost and not in_place:
                    client.unload_adapter(name)  # a server that hung for a while may still have it
                client.load_adapter(name, new.folder, in_place)
                self._there[adapter] = new  # also if the next one fails, so that `close` unloads it
            # A server that was started again also gets adapters that did not change with the newest version.
            newest = max(self._there.values(), key=lambda publication: publication.version)
            client.end_update(newest.name)

    def _served(self, client: VllmClient) -> ServedWeights:
        names = self._names()
        return ServedInFlight(client, names, version=None, exact=False, process=self._process)


@dataclass(frozen=True)
class ServedInFlight(ServedWeights):
    """Samples by the weights that a server has at the time, and records the version of each token."""

    process: str
    """Part of the names of all versions that the run has published."""

    def ask(self, requests: Sequence[CompletionRequest]) -> list[list[SampledRow]]:
        """Send all requests of a batch; raises the errors of `sample`."""
        times, versions = [0.0], [self._version()]
        # Its threads are daemons, so that Ctrl-C waits for no server.
        with ThreadPool(min(len(requests), AT_ONCE)) as pool:
            answers = pool.map_async(partial(stream, self.client), requests)
            while not answers.ready():
                answers.wait(LOOK)
                version = self._version()
                if version != versions[-1]:
                    times.append(time.monotonic())
                    versions.append(version)
            found = answers.get()
        for answer in found:
            for choice in answer["choices"]:
                places = (bisect_right(times, moment) - 1 for moment in choice["times"])
                choice["versions"] = [versions[place] for place in places]
        pairs = zip(requests, found, strict=True)
        return [self.client.rows(request, answer) for request, answer in pairs]

    def _version(self) -> int:
        """Return the version of the server's weights; raise a `ServerLost` if the run has not published them."""
        name = self.client.version()
        if name is None:
            raise SamplerError(
                f"{self.client.url} keeps no version of its weights (route /weight_info), which in_flight needs: "
                "take a newer vLLM, or set algorithm.rollout.in_flight=false"
            )
        match = re.search(rf"@(\d+)-{self.process}", name)
        if match is None:
            raise ServerLost(
                f"{self.client.url} has weights of version {name!r}, which this run has not published: somebody "
                "has started it anew, or given it others"
            )
        return int(match[1])


def stream(client: VllmClient, request: CompletionRequest) -> dict[str, Any]:
    """Return an answer as `VllmClient.rows` reads it, with the time of each token as `times` of its choices.

    Raises:
        SamplerError: If the server ends the answer with an error.
        ServerLost: If it does not answer.
    """
    choices: dict[int, dict[str, Any]] = {}
    model = None
    body = {**client.body(request), "stream": True}
    with client.open("POST", "/v1/completions", body) as response:
        for line in response:
            data = line.removeprefix(b"data:").strip()
            if not line.startswith(b"data:") or data == b"[DONE]":
                continue
            event, moment = json.loads(data), time.monotonic()
            if "error" in event:
                raise SamplerError(f"{client.url} ended an answer with an error: {event['error']}")
            model = event.get("model")
            for part in event.get("choices", ()):
                empty: dict[str, Any] = {"index": part["index"], "token_ids": [], "times": []}
                empty["logprobs"] = {"token_logprobs": []}
                choice = choices.setdefault(part["index"], empty)
                tokens = part.get("token_ids") or ()
                choice["token_ids"] += tokens
                choice["times"] += [moment] * len(tokens)
                found = (part.get("logprobs") or {}).get("token_logprobs") or ()
                choice["logprobs"]["token_logprobs"] += found
                if part.get("finish_reason") is not None:
                    choice |= {key: part.get(key) for key in ("finish_reason", "stop_reason")}
    return {"model": model, "choices": list(choices.values())}
