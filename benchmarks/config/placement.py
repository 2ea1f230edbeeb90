"""Placing of policies on GPUs, checked and added up before anything starts.

A policy learns on its `device`. Where it is sampled is said by `policies.<name>.sample_on`:

- `inference.engine=vllm`: the GPUs of the server on this machine. Each holds a part of the model.
- `cluster.rollout_workers`: the GPU of each worker, of this machine or, with Ray, of those kept for the worker.
- otherwise nothing: the process that learns samples on `device`.
"""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from llm_decpomdp.agents import PolicySpec
from llm_decpomdp.agents.models.pretrained import saved_adapter
from llm_decpomdp.agents.policy_kinds import bases
from llm_decpomdp.agents.remote.options import check_untruncated
from llm_decpomdp.algorithms import Algorithm, LearnerOptions
from llm_decpomdp.algorithms.learning.shard_options import check_sharded
from llm_decpomdp.algorithms.training.warm_start import PASSES
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.schema import Config

PARTS = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
"""Flags of vLLM whose product is the number of its GPUs."""

SHARE = "gpu_memory_utilization"
"""Flag of vLLM: the share of a GPU's memory that a server takes."""

DEFAULT_SHARE = 0.92  # vLLM's own default; that of older versions is 0.9

THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def check_placement(config: Config, policies: Mapping[str, PolicySpec]) -> None:
    """Check the section `inference` and `sample_on` against the other sections, on any machine."""
    if config.inference.engine == "vllm":
        _check_servers_of_run(config, policies)
    for name, spec in policies.items():
        if spec.sample_on is None:
            continue
        key = _key(name, spec)
        if config.inference.urls:
            raise ConfigError(
                f"{key} is for a server that the run starts, and inference.urls names ones that run: drop either"
            )
        if config.inference.engine == "transformers" and not config.cluster.rollout_workers:
            raise ConfigError(
                f"{key} means nothing where the process that learns samples: set policies.{name}.device to "
                f"cuda:{spec.sample_on[0]}, or inference.engine=vllm, or cluster.rollout_workers"
            )
        if config.inference.engine == "transformers":
            if len(spec.sample_on) > 1:
                raise ConfigError(f"{key}: a rollout worker samples a policy on one GPU; name one")
            gpus, gpu = config.cluster.worker_gpus, spec.sample_on[0]
            if config.cluster.engine == "ray" and gpu >= gpus:
                raise ConfigError(
                    f"{key}: a rollout worker sees the cluster.worker_gpus={gpus:g} that Ray keeps for it, "
                    f"counted from 0: raise that to {gpu + 1}, or name another"
                )
    if config.inference.engine == "vllm" and any(spec.sample_on for spec in policies.values()):
        _check_servers(config, policies)


def _check_servers(config: Config, policies: Mapping[str, PolicySpec]) -> None:
    """Check that `sample_on` names the GPUs of each server once, as many as its flags spread it over."""
    groups, number = served(policies), parts(config.inference.flags)
    for name, spec in policies.items():
        if spec.sample_on and not any(name in group for group in groups):
            raise ConfigError(
                f"{_key(name, spec)}: it does not learn, nor share a base with a policy that does, and so has no "
                f"server; it is sampled on policies.{name}.device"
            )
    for group in groups:
        if len({tuple(policies[name].sample_on or ()) for name in group}) > 1:
            raise ConfigError(
                f"the policies {', '.join(group)} have adapters on one base and so one server: give all of them "
                "the same sample_on"
            )
        if not policies[group[0]].sample_on:
            raise ConfigError(
                f"policies.{group[0]}.sample_on is missing: other policies say on which GPUs their servers are, "
                "so say it of all that are sampled at servers"
            )
    for group in groups:
        gpus = policies[group[0]].sample_on or []
        if number not in (None, len(gpus)):
            raise ConfigError(
                f"{_key(group[0], policies[group[0]])} names {len(gpus)} GPUs, and inference.flags spread each "
                f"server over {number} ({', '.join(PARTS)}): make both equal, or drop these flags"
            )


def check_room(config: Config, policies: Mapping[str, PolicySpec], gpus: int | None = None) -> None:
    """Check that the GPUs which `sample_on` names are there and not promised twice; `gpus` are those of a plan."""
    placed = {name: spec for name, spec in policies.items() if spec.sample_on}
    ray = config.cluster.engine == "ray" and config.inference.engine == "transformers"
    if not placed and not ray:
        return
    if gpus is None:
        import torch

        gpus = torch.cuda.device_count()
    if ray:
        _check_ray_gpus(config, policies, gpus)
        return
    for name, spec in placed.items():
        if max(spec.sample_on or ()) >= gpus:
            raise ConfigError(
                f"{_key(name, spec)}: there are {gpus} GPUs" + (", counted from 0" if gpus else "")
            )
    if config.inference.engine == "vllm":
        for gpu in range(gpus):
            _add_up(config, policies, gpu)


def _check_ray_gpus(config: Config, policies: Mapping[str, PolicySpec], gpus: int) -> None:
    """Raise a `ConfigError` if a policy learns on a GPU, and Ray keeps none for the actors that sample it."""
    if gpus and not config.cluster.worker_gpus:
        on_gpu = [name for name, spec in policies.items() if _home(spec) is not None]
        if on_gpu:
            raise ConfigError(
                f"cluster.worker_gpus=0 keeps no GPU for a rollout worker, and {', '.join(on_gpu)} would be "
                "sampled on another device than the one that learns: set cluster.worker_gpus to 1, or to a share "
                "such as 0.5, or model.device=cpu"
            )


def _add_up(config: Config, policies: Mapping[str, PolicySpec], gpu: int) -> None:
    """Raise a `ConfigError` if servers, and what this process holds, ask for more than a GPU has."""
    # vLLM takes flags in both spellings.
    flags = {name.replace("-", "_"): value for name, value in config.inference.flags.items()}
    share = float(flags.get(SHARE, DEFAULT_SHARE))
    servers = [
        ", ".join(group)
        for group in served(policies)
        if gpu in (policies[group[0]].sample_on or ())
    ]
    # The share in the message is rounded down, as one that is rounded up would be refused again.
    # The tolerance is for shares such as 0.1, whose multiples are rounded.
    if len(servers) * share > 1 + 1e-9:
        raise ConfigError(
            f"GPU {gpu} is promised to {len(servers)} servers (of {'; '.join(servers)}), which take {share:g} of "
            f"its memory each: give them others (policies.<name>.sample_on), or set inference.flags.{SHARE} to at "
            f"most {math.floor(100 / len(servers)) / 100:g}"
        )
    # With an explicit share the user has decided what the server leaves.
    holders = [name for name, spec in policies.items() if _home(spec) == gpu]
    if servers and holders and SHARE not in flags:
        raise ConfigError(
            f"GPU {gpu} is promised to a server (of {'; '.join(servers)}), which takes {share:g} of its memory, "
            f"and holds {', '.join(holders)} as well (policies.<name>.device): place them apart, or say what the "
            f"server may take, as in inference.flags.{SHARE}=0.4"
        )


def served(policies: Mapping[str, PolicySpec]) -> list[list[str]]:
    """Group the policies that servers sample by server: those of one base with at least one that learns."""
    try:
        groups = bases(policies)
    except (OSError, ValueError) as error:
        raise ConfigError(f"policies: {error}") from None
    # Frozen models alone on their base are sampled in this process: nothing has to be sent to a server.
    return [group for group in groups if any(policies[name].can_be_trained for name in group)]


def in_worker(config: Config, policies: Mapping[str, PolicySpec]) -> dict[str, PolicySpec]:
    """Return the policies as a rollout worker has them: on the GPU that samples, or hollow where a server does."""
    groups = served(policies) if config.inference.engine == "vllm" else []
    hollow = {name: f"meta:{place}" for place, group in enumerate(groups) for name in group}

    def place(name: str, spec: PolicySpec) -> PolicySpec:
        if name in hollow:  # devices that differ as before, so that policies share bases as before
            return replace(spec, device=hollow[name])
        return replace(spec, device=f"cuda:{spec.sample_on[0]}") if spec.sample_on else spec

    return {name: place(name, spec) for name, spec in policies.items()}


def parts(flags: Mapping[str, Any]) -> int | None:
    """Return the number of GPUs that flags spread a server over, if they say one."""
    sizes = {name: value for name, value in flags.items() if name.replace("-", "_") in PARTS}
    for name, value in sizes.items():
        if not isinstance(value, int) or value < 1:
            raise ConfigError(
                f"inference.flags.{name} must be a whole number above 0, got {value!r}"
            )
    return math.prod(sizes.values()) if sizes else None


def _home(spec: PolicySpec) -> int | None:
    """Return the GPU on which a policy learns, or is sampled in this process."""
    if spec.kind != "model" or not (spec.device == "auto" or spec.device.startswith("cuda")):
        return None
    # `auto` and `cuda` without a number are the first GPU.
    return int(spec.device.partition(":")[2] or 0)


def _key(name: str, spec: PolicySpec) -> str:
    return f"policies.{name}.sample_on={spec.sample_on}"


def _check_servers_of_run(config: Config, policies: Mapping[str, PolicySpec]) -> None:
    sampler = config.inference
    if config.learner.deterministic:
        raise ConfigError(
            "learner.deterministic=true holds for models that this library samples, and the batches of "
            "inference.engine=vllm depend on the time at which requests arrive: drop either"
        )
    for key in ("python", "flags") if sampler.urls else ():
        if getattr(sampler, key):
            raise ConfigError(
                f"inference.{key} is for a server that the run starts, and inference.urls names running "
                "servers: drop either"
            )
    _check_workers(config)
    if sampler.transfer == "nccl":
        _check_transfer(config, policies)
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
            if spec.quantization != "none":
                raise ConfigError(
                    f"policies.{name}.quantization={spec.quantization}: a server would sample with other weights "
                    "than the quantized ones that learn: set it to none, or inference.engine=transformers"
                )
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if sampler.urls:
        _check_urls(sampler.urls, served(policies))


def _check_transfer(config: Config, policies: Mapping[str, PolicySpec]) -> None:
    """Raise a `ConfigError` unless full weights can go to servers from GPU to GPU."""
    learning = {name: spec for name, spec in policies.items() if spec.can_be_trained}
    is_async = config.algorithm.rollout.max_async_level > 0
    wrong = {
        "no policy learns all weights: adapters always go as files": all(
            spec.lora or saved_adapter(str(spec.name)) for spec in learning.values()
        ),
        "a running server (inference.urls) has not the flag for it": bool(config.inference.urls),
        "the server may be lost while the weights change (max_async_level)": is_async,
        "policies.<name>.sample_on must name the GPUs of each server": not all(
            spec.sample_on for spec in learning.values()
        ),
    }
    for reason, is_so in wrong.items():
        if is_so:
            raise ConfigError(f"inference.transfer=nccl: {reason}; or set inference.transfer=files")


def check_interpreter(config: Config) -> None:
    """Raise a `ConfigError` unless this machine can run the Python that starts servers, if the run starts any."""
    sampler = config.inference
    if sampler.engine == "transformers" or sampler.urls:
        return
    python = sampler.interpreter()
    if shutil.which(python) is None:
        problem = "cannot be executed" if Path(python).exists() else "does not exist"
        raise ConfigError(
            f"inference.python: {python} {problem}; it must be the Python of an environment with vLLM "
            "(docs/cluster.md says how to make one)"
        )


def _check_workers(config: Config) -> None:
    cluster, sampler = config.cluster, config.inference
    if cluster.rollout_workers and sampler.exact:
        raise ConfigError(
            f"inference.exact=true holds a batch back until it is complete, and the {cluster.rollout_workers} of "
            "cluster.rollout_workers ask at the same time, each for a batch of its own: set "
            "inference.exact=false, or cluster.rollout_workers=0"
        )
    if cluster.address and not (
        sampler.urls and all(urlsplit(url).hostname not in THIS_MACHINE for url in sampler.urls)
    ):
        where = ", ".join(sampler.urls) or "those that a run starts"
        raise ConfigError(
            f"servers that listen on this machine alone ({where}) are out of reach for workers of "
            f"cluster.address={cluster.address} on others: start servers where all nodes reach them, and name "
            "them so in inference.urls"
        )


def _check_urls(urls: Sequence[str], groups: Sequence[Sequence[str]]) -> None:
    for url in itertools.filterfalse(_is_address, urls):
        raise ConfigError(
            f"inference.urls needs addresses such as http://127.0.0.1:8000, without a path, got {url!r}"
        )
    if len({url.rstrip("/") for url in urls}) < len(urls):
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


def _is_address(url: str) -> bool:
    try:
        place = urlsplit(url)
        port = place.port
    except ValueError:  # a port that is none
        return False
    rest = place.path.rstrip("/") or place.query or place.fragment
    return place.scheme in ("http", "https") and bool(place.hostname) and port != 0 and not rest


def check_shards(
    config: Config,
    policies: Mapping[str, PolicySpec],
    algorithm: Algorithm,
    learner: LearnerOptions,
) -> None:
    """Check that a run can have its weights in shards, whether it wants to or not."""
    scores = config.algorithm.reward_model
    completed, warm = algorithm.complete_options(learner), config.warm_start.source is not None
    try:
        check_sharded(algorithm, completed, None if scores is None else scores.path, warm)
    except ValueError as error:
        raise ConfigError(f"section algorithm: {error}") from None
    if config.inference.engine == "vllm":
        raise ConfigError(
            "learner.fsdp_size has as many processes, and inference.engine=vllm works with one: set "
            "learner.fsdp_size=1, or inference.engine=transformers"
        )
    gathers = config.learner.gather_for_generation
    if config.cluster.rollout_workers and not gathers:
        raise ConfigError(
            "learner.gather_for_generation=false samples with the shards of the processes that learn, and "
            f"{config.cluster.rollout_workers} of cluster.rollout_workers sample with all weights: set "
            "cluster.rollout_workers=0, or learner.gather_for_generation=true"
        )
    for name, spec in policies.items():
        if spec.can_be_trained and spec.static_cache and not gathers:
            raise ConfigError(
                f"policy {name!r} has static_cache=true, whose passes are recorded as a graph, and without "
                "learner.gather_for_generation each layer waits for the other processes: set it to false, or "
                "learner.gather_for_generation=true"
            )
        if spec.can_be_trained and spec.quantization != "none":
            raise ConfigError(
                f"policy {name!r} has quantization={spec.quantization}, and quantized weights cannot be cut into "
                "shards: set it to none, or learner.fsdp_size=1"
            )
        if spec.can_be_trained and spec.fused_kernels:
            raise ConfigError(
                f"policy {name!r} has fused_kernels=true, which keep weights that shards free after each layer: "
                "set it to false, or learner.fsdp_size=1"
            )
        # The launcher gives each process a GPU; a fixed one would be shared by all of them.
        if spec.can_be_trained and ":" in spec.device:
            raise ConfigError(
                f"policy {name!r} has device={spec.device}, and with learner.fsdp_size each process has its own "
                "GPU: drop device"
            )
    # Ctrl-C reaches the processes at different times, so none can collect the shards then.
    if not config.output.checkpoint_every:
        raise ConfigError(
            "a run with learner.fsdp_size saves nothing on the way out, as that takes all processes at the same "
            "time: set output.checkpoint_every to 1 or more"
        )
