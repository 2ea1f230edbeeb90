"""Checks of the section about servers that sample."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from llm_decpomdp.agents.loading import PolicySpec
from llm_decpomdp.agents.remote.options import check_untruncated
from llm_decpomdp.algorithms.training.trainer_options import PASSES
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.gpu_placement import served
from llm_decpomdp.benchmarks.config.schema import Config


def check_sampler(config: Config, policies: Mapping[str, PolicySpec]) -> None:
    """Check the section `inference` against the others.

    Raises:
        ConfigError: If a key means nothing, is missing, or does not go with sampling at servers.
    """
    sampler = config.sampler
    if not sampler.served:
        return
    for key in ("python", "flags") if sampler.urls else ():
        if getattr(sampler, key):
            raise ConfigError(
                f"inference.{key} is for a server that the run starts, and inference.urls names running "
                "servers: drop either"
            )
    _check_workers(config)
    if config.warm_start.source == PASSES:
        raise ConfigError(
            "warm_start.source=passes samples in the process that learns: warm up in a run without "
            "inference.engine=vllm, and begin this one with --from"
        )
    try:
        if not sampler.urls:
            sampler.interpreter()
        for name, spec in policies.items():
            if spec.can_be_trained:
                check_untruncated(name, spec)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if sampler.urls:
        _check_urls(sampler.urls, served(policies))


def check_interpreter(config: Config) -> None:
    """Raise a `ConfigError` unless this machine can run the Python that starts servers, if the run starts any."""
    sampler = config.sampler
    if not sampler.served or sampler.urls:
        return
    python = sampler.interpreter()
    if shutil.which(python) is None:
        problem = "cannot be executed" if Path(python).exists() else "does not exist"
        raise ConfigError(
            f"inference.python: {python} {problem}; it must be the Python of an environment with vLLM "
            "(docs/cluster.md says how to make one)"
        )


def _check_workers(config: Config) -> None:
    """Check that rollout workers can ask the servers."""
    cluster, sampler = config.cluster, config.sampler
    if cluster.rollout_workers and sampler.exact:
        raise ConfigError(
            f"inference.exact=true holds a batch back until it is complete, and the {cluster.rollout_workers} of "
            "cluster.rollout_workers ask at the same time, each for a batch of its own: set "
            "inference.exact=false, or cluster.rollout_workers=0"
        )
    if cluster.address and not (sampler.urls and all(map(_reaches_further, sampler.urls))):
        where = ", ".join(sampler.urls) or "those that a run starts"
        raise ConfigError(
            f"servers that listen on this machine alone ({where}) are out of reach for workers of "
            f"cluster.address={cluster.address} on others: start servers where all nodes reach them, and name "
            "them so in inference.urls"
        )


def _check_urls(urls: Sequence[str], groups: Sequence[Sequence[str]]) -> None:
    """Check that there is an address of a server for each group of policies, and no other.

    Raises:
        ConfigError: If one is no address, stands there twice, is missing, or is one too many.
    """
    for url in urls:
        if not _is_address(url):
            raise ConfigError(
                f"inference.urls needs addresses such as http://127.0.0.1:8000, without a path, got {url!r}"
            )
    places = [url.rstrip("/") for url in urls]
    if len(set(places)) < len(places):
        raise ConfigError(
            f"inference.urls names a server twice ({', '.join(urls)}): each serves one base of policies, so name "
            "different ones"
        )
    if len(urls) != len(groups):
        bases = "; ".join(", ".join(group) for group in groups)
        raise ConfigError(
            f"inference.urls names {len(urls)} servers, and the policies that learn have {len(groups)} bases "
            f"({bases}): name one for each, or give policies adapters on one base (model.lora)"
        )


def _reaches_further(url: str) -> bool:
    """Check that an address is not one that each machine takes for itself."""
    return urlsplit(url).hostname not in ("localhost", "127.0.0.1", "::1")


def _is_address(url: str) -> bool:
    try:
        place = urlsplit(url)
        port = place.port
    except ValueError:  # a port that is none
        return False
    rest = place.path.rstrip("/") or place.query or place.fragment
    return place.scheme in ("http", "https") and bool(place.hostname) and port != 0 and not rest
