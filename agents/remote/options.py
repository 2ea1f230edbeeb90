"""Options of sampling by a server, and its errors."""

from __future__ import annotations

import os
from dataclasses import field
from typing import Any

from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.options import Options, option

PYTHON_VARIABLE = "LLM_DECPOMDP_VLLM_PYTHON"
"""Environment variable with the path of vLLM's Python, without an option."""

BASE = "base"  # name of the model without an adapter on a server


class SamplerError(RuntimeError):
    """A server that samples cannot be used; the text has the cause."""


class ServerLost(SamplerError):
    """A server has died or hangs: its requests can be repeated."""


class SamplerOptions(Options):
    """Sampler of the policies that learn: the learning process, or vLLM servers."""

    switch = "engine"
    engine: str = option("transformers", choices=("transformers", "vllm"))
    """`transformers` samples in the learning process, `vllm` at vLLM servers, one for each base model, which get
    new weights before they sample."""
    urls: list[str] = field(
        default_factory=list, metadata={"unless": (("engine", "transformers"),)}
    )
    """Addresses of running servers, one for each base model in the order of the team, as in
    `[http://127.0.0.1:8000]`. Empty: the run starts its own on this machine, and ends them."""
    python: str | None = option(None, unless=("engine", "transformers"))
    """Path of the Python of vLLM's separate environment; null takes the environment variable
    `LLM_DECPOMDP_VLLM_PYTHON`."""
    flags: dict[str, Any] = field(
        default_factory=dict, metadata={"unless": (("engine", "transformers"),)}
    )
    """Further flags of `vllm serve`, as in `{gpu_memory_utilization: 0.8}`; true and false turn a switch on and
    off."""
    transfer: str = option("files", choices=("files", "nccl"), unless=("engine", "transformers"))
    """Way of full weights to a server: `files` in `TMPDIR`, or `nccl` from GPU to GPU. The latter needs servers of
    the run on GPUs of their own (`policies.<name>.sample_on`), and no `max_async_level`. It has not been run on
    GPUs."""
    exact: bool = option(True, unless=("engine", "transformers"))
    """Hold requests back until all of a batch are there, so that it is computed in one order: with float32 on a
    CPU a resumed run equals one that never stopped. Otherwise each begins at once, as `cluster.rollout_workers`
    require."""
    timeout: float = option(600.0, gt=0, unless=("engine", "transformers"))
    """Seconds for a batch, or for new weights, after which the server counts as dead."""
    start_timeout: float = option(900.0, gt=0, unless=("engine", "transformers"))
    """Seconds until a server answers."""
    max_restarts: int = option(3, ge=0, unless=("engine", "transformers"))
    """Maximum number of restarts in a row of a server that died or hangs, with the same requests; then the run
    ends."""
    max_mismatch: float | None = option(None, gt=0, unless=("engine", "transformers"))
    """Largest mean difference, in nats a token, between the log-probabilities of a server's first answer by new
    weights and the learner's. Above it the run ends. null: 0.001 in float32 and 0.05 in half precision, divided by
    the temperature, for the average of all first answers from 1,000 tokens on. For a single answer the limit is
    ten times as high, since rounding varies."""

    def interpreter(self) -> str:
        """Return the path of vLLM's Python; raise a `ValueError` if it is not known."""
        python = self.python or os.environ.get(PYTHON_VARIABLE)
        if not python:
            raise ValueError(
                "vLLM needs a separate environment (see docs/cluster.md): set "
                f"inference.python, or the environment variable {PYTHON_VARIABLE}, to the path of its Python, "
                "or inference.urls to running servers"
            )
        return python


def check_untruncated(name: str, sampling: Sampling) -> None:
    """Raise a `ValueError` if `top_p` or `top_k` cuts the distribution, which servers renormalize."""
    for key, value, off in (("top_p", sampling.top_p, 1.0), ("top_k", sampling.top_k or 0, 0)):
        if value != off:
            raise ValueError(
                f"{key}={value:g} of policy {name!r} does not go with sampling at a server: its log-probabilities "
                "are of the distribution that is cut and scaled up again, the learner's of the whole one, and "
                f"every ratio of the two would be too small; set {key}={off:g}"
            )
