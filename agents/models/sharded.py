"""Models whose weights lie in shards: every process holds a part of each weight, of its gradient and moments.

torch's FSDP2 (`torch.distributed.fsdp.fully_shard`) gathers the weights of a layer before its pass and frees them
after it; gradients are summed over the processes and cut. So every pass is one of all processes, each with its own
prompts: as many in each, of the same model, in the same order. By default sampling is not: each process samples
with a copy of all weights. With `gather_for_generation=False` it samples with the shards, and the processes agree
before each pass on the model that passes: a process that samples with another one, or that has sampled all,
passes an idle token.

Memory of each of n processes, in bytes for a weight, without activations:

| weight  | learning                                  | sampling                                        |
|---------|-------------------------------------------|-------------------------------------------------|
| trained | 16 / n: float32, its gradient, two moments | 12 / n, and the copy: 2 in bfloat16, else 4    |
| frozen  | 2 / n in bfloat16, else 4 / n             | as much, and the copy                           |

While it learns or samples with shards, a process holds no copy, but the gathered weights of embeddings and of a
layer, each twice, in the format of computing: FSDP copies them out of a buffer. With
`reduce_once` it keeps the whole gradient, 4 bytes for a trained weight, until the last pass of an update. Full
weights with `kl.coefficient` take 8 / n more: the reference, and the weights that wait while it computes.

A model that was loaded hollow (`hollow.py`) is read and cut layer by layer, so that no process ever holds all
of it in float32. Models that were made in memory are whole before they are cut.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from types import MethodType
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.utils.checkpoint import noop_context_fn
from transformers.modeling_layers import GradientCheckpointingLayer

from llm_decpomdp.agents.inference.log_probs import (
    ROW_TOKENS,
    PromptRows,
    Rows,
    packed_log_probs,
    padded_log_probs,
    split_rows,
)
from llm_decpomdp.agents.inference.static_cache import uses_static_cache
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.engine import ModelEngine
from llm_decpomdp.agents.models.hollow import is_hollow, read_weights
from llm_decpomdp.agents.models.methods import FixedFormatError, choose_scoring_method
from llm_decpomdp.agents.models.weights import has_shards, is_shard, whole
from llm_decpomdp.policy import Completion, Policy, Team

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""Settings of models with experts: the processes would sum gradients of different experts."""

STATIC_CACHE = (
    "static_cache=true records the passes of a process as a graph, and without gather_for_generation each layer "
    "waits for the other processes: set it to false, or learner.gather_for_generation=true"
)

logger = logging.getLogger(__name__)


class ShardedEngine(ModelEngine):
    """A model in shards, one in each process of `mesh`, made of an engine that is not used any more.

    With bfloat16 and all weights trained, FSDP gathers and computes with rounded weights, as the sampler does, and
    sums float32 gradients.

    Args:
        engine: A model with its weights, or a hollow one.
        mesh: The processes.
        reduce_once: Sum gradients over the processes at the last pass of an update, instead of at each.
        gather_for_generation: Sample with a copy of all weights, instead of with shards.

    Raises:
        ValueError: If the model is of a kind that cannot be cut, or has a static cache and no copy.
    """

    def __init__(
        self,
        engine: ModelEngine,
        mesh: DeviceMesh,
        reduce_once: bool,
        gather_for_generation: bool = True,
    ) -> None:
        layers = require_shardable(engine.model)
        if engine.caching.static_cache and not gather_for_generation:
            raise ValueError(STATIC_CACHE)
        twice = any(layer.gradient_checkpointing for layer in layers)
        dtype = str(engine.compute_dtype).removeprefix("torch.")
        # The skeleton of the sampler is on no device.
        static = gather_for_generation and uses_static_cache(engine.model, engine.caching)
        tokenizer, caching = engine.tokenizer, replace(engine.caching, static_cache=static)
        self._sampler = ModelEngine(
            _skeleton(engine), tokenizer, compute_dtype=dtype, caching=caching
        )
        self._copies, self._gathered = gather_for_generation, False
        self._mesh, self._reduce_once = mesh, reduce_once
        self.mates = [self]
        """The engines that learn in turn with this one, including itself."""
        self._idle = False  # whether the present pass is one for other processes
        super().__init__(
            engine.model,
            tokenizer,
            compute_dtype=dtype,
            gradient_checkpointing=twice,
            caching=caching,
        )
        # Adapters that have not all passed would have gradients of different formats, which FSDP cannot reduce.
        self._rounds = self.compute_dtype == torch.bfloat16 and engine.adapter is None
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if self._rounds else None
        hollow = any(map(is_hollow, self.model.parameters()))
        for part in (*layers, self.model):
            self._fill_part(part, hollow)
            mp_policy = policy or MixedPrecisionPolicy()
            _sum_gradients(
                fully_shard(part, mesh=mesh, reshard_after_forward=True, mp_policy=mp_policy)
            )
        # FSDP gathers weights around the forward of a module, and around other methods only if they are
        # registered.
        self.model.within_forward = MethodType(lambda _, function: function(), self.model)
        register_fsdp_forward_method(self.model, "within_forward")
        # On fixed tokens, so that all processes choose the same method.
        tokens = range(len(engine.tokenizer))[:24]
        self._packs, self._score_unpacked = choose_scoring_method(
            self.model, self.compute_dtype, tokens, self._score_packed
        )
        if not gather_for_generation:
            # Before the hook of FSDP, which gathers weights with the other processes.
            self.model.register_forward_pre_hook(lambda *_: self._await_turn(), prepend=True)

    def _fill_part(self, part: torch.nn.Module, hollow: bool) -> None:
        """Read the weights of a part that is not cut yet, or take those of the first process."""
        weights = [weight for weight in part.parameters() if not is_shard(weight)]
        read = {id(weight) for weight in weights if is_hollow(weight)}
        read_weights(weights)
        for weight in weights:
            if id(weight) in read:
                continue
            if hollow and bool(weight.isnan().any()):
                raise ValueError(
                    "lora: an option such as modules_to_save or use_dora is made of the weights below the "
                    "adapter, which are not in memory yet: drop it, or set learner.fsdp_size=1"
                )
            distributed.broadcast(weight.data, src=0)

    def _computing(self) -> AbstractContextManager[Any]:
        # Where FSDP gathers rounded weights, nothing is left for autocast.
        return nullcontext() if self._rounds else super()._computing()

    def prepare_backward(self, last: bool) -> None:
        """Say before a backward pass whether it is the last of this engine in an update, which sums gradients."""
        self.model.set_requires_gradient_sync(last or not self._reduce_once)

    def generate(
        self, requests: Sequence[tuple[Any, str]], num_samples: int = 1
    ) -> list[list[Completion]]:
        """Sample with the weights of the newest `gather`; raise a `RuntimeError` if a pass has freed them."""
        if not self._gathered:
            raise RuntimeError(
                "a policy in shards samples with gathered weights, and there are none: call its gather() in all "
                "processes first"
            )
        if not self._copies:
            return super().generate(requests, num_samples)
        return self._sampler.generate(requests, num_samples)

    @contextmanager
    def reuse_prefixes(self, dialogues: bool = True) -> Iterator[None]:
        """Reuse the keys and values of the gathered weights; see `ModelEngine`."""
        reuse = self._sampler.reuse_prefixes if self._copies else super().reuse_prefixes
        with reuse(dialogues):
            yield

    def _rounded(self, dtype: torch.dtype) -> AbstractContextManager[None]:
        # FSDP gathers weights in one format: rounded where all are trained, and frozen ones as they were read.
        if dtype != self.compute_dtype:
            raise FixedFormatError("weights in shards have one format")
        return nullcontext()

    def _await_turn(self) -> None:
        """Let the other models pass before this one, as all processes agree, while they sample with shards."""
        if self._gathered and not self._idle:
            self._pass_until(self.mates.index(self))

    def _pass_until(self, mine: int) -> None:
        """Pass idle tokens of the models that other processes want, until it is the turn of `mine`, an index."""
        while True:
            turn = torch.tensor(mine, device=self._mesh.device_type)
            distributed.all_reduce(turn, distributed.ReduceOp.MIN)
            if int(turn) == mine:
                return
            self.mates[int(turn)]._pass_idle()

    @torch.no_grad()
    def _pass_idle(self) -> None:
        self._idle = True
        token = torch.tensor([[self.end_id]], device=self.model.device)
        self.model(input_ids=token, use_cache=False, logits_to_keep=1)
        self._idle = False

    def finish_sampling(self) -> None:
        """Pass with the other processes until all of them have sampled, if they do so with shards."""
        if self._gathered and not self._copies:
            self._pass_until(len(self.mates))

    @torch.no_grad()
    def gather(self) -> None:
        """Copy the weights of all processes for `generate`; the next pass of the learner frees the copy."""
        if not self._gathered:
            if self._copies:
                self._fill(lambda weight: weight.to(self.compute_dtype))
            self._gathered = True

    def free(self) -> None:
        """Free the gathered weights, before a pass of the learner or after other weights were loaded."""
        if self._gathered:
            for weight in self._sampler.model.parameters():
                weight.data = weight.data.new_empty(0)
            self._gathered = False

    def gather_engine(self) -> ModelEngine:
        """Return an engine with all weights, on the CPU, in each process."""
        self.free()
        self._fill(lambda weight: weight.cpu())
        self._sampler.model.to("cpu")
        return self._sampler

    def _fill(self, change: Callable[[Tensor], Tensor]) -> None:
        """Gather the weights into the copy, one after the other."""
        targets = dict(self._sampler.model.named_parameters())
        for name, weight in self.model.named_parameters():
            targets[name].data = change(whole(weight.detach()))

    def log_probs_of_prompts(self, prompts: Sequence[PromptRows], divisor: float) -> Tensor:
        """Compute the log-probabilities of one prompt, while the other processes do so with their own."""
        ((prompt, rows),) = prompts
        for engine in self.mates:
            engine.free()
        packs = self._can_pack(prompt, rows)
        pads = self._score_unpacked is padded_log_probs
        parts = [rows] if pads else [[row] for row in rows]
        if packs:
            parts = list(split_rows(rows, ROW_TOKENS - len(prompt)))
        score = self._score_packed if packs else padded_log_probs
        most = torch.tensor(len(parts), device=self._mesh.device_type)
        distributed.all_reduce(most, distributed.ReduceOp.MAX)
        with self._computing(), self._checkpointing():
            values = [score(self.model, prompt, part, divisor) for part in parts]
            # All processes need equally many passes; those with fewer parts add passes with a gradient of 0.
            end = [self.end_id]
            idle = [
                self._score_packed(self.model, end, [end], 1.0)
                for _ in range(int(most) - len(parts))
            ]
        result: Tensor = torch.cat(values)
        for dummy in idle:
            result = result + 0.0 * dummy.sum()
        return result

    def _score_packed(
        self, model: Any, prompt: Sequence[int], rows: Rows, divisor: float
    ) -> Tensor:
        """Return `packed_log_probs`, whose parts of the model are gathered as by a pass of all of it."""
        contexts = noop_context_fn if self.kernels is None else self.kernels.recomputing
        values: Tensor = model.within_forward(
            lambda: packed_log_probs(model, prompt, rows, divisor, contexts)
        )
        return values

    def features(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Raise a `RuntimeError`: the processes have different numbers of texts, and so of passes."""
        raise RuntimeError(
            "a model in shards gives no features: set critic=none, or learner.fsdp_size=1"
        )

    @contextmanager
    def replace_weights(self, others: Mapping[str, Tensor]) -> Iterator[None]:
        """Compute with other weights, in shards too; they are copied, since FSDP keeps the memory."""
        weights = {name: weight for name, weight in self.model.named_parameters() if name in others}
        before = {name: weight.detach().clone() for name, weight in weights.items()}
        try:
            self._copy(others, weights)
            yield
        finally:
            self._copy(before, weights)

    @torch.no_grad()
    def _copy(self, values: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
        for name, weight in weights.items():
            weight.copy_(values[name])
        if self._mesh.device_type == "cuda":  # FSDP gathers in streams of its own
            torch.cuda.synchronize()


def shard_team(
    team: Team, shards: int, reduce_once: bool | None = None, gather_for_generation: bool = True
) -> None:
    """Cut the weights of a team's models that learn into shards, one for each process of the run.

    Every process calls it with the same team, after `torch.distributed` is initialized and before optimizers are
    made. Frozen models and other policies do not change.

    Args:
        team: A policy for each agent; the weights are those of the first process.
        shards: Number of processes; 1 changes nothing.
        reduce_once: See `ShardedEngine`; `None` is true for adapters alone.
        gather_for_generation: See `ShardedEngine`.

    Raises:
        ValueError: If there are more or fewer processes, or a model cannot be cut.
    """
    processes = distributed.get_world_size() if distributed.is_initialized() else 1
    if shards == 1:
        return
    if shards != processes:
        raise ValueError(
            f"learner.fsdp_size={shards} needs {shards} processes, and the run has {processes}: start it by "
            f"torchrun --nproc-per-node {shards}, or set learner.fsdp_size to 1 or to the number of processes"
        )
    engines: dict[int, ShardedEngine] = {}
    learning = [p for p in _models(team) if any(w.requires_grad for w in p.parameters())]
    for policy in learning:
        require_shardable(policy.model)
        device = policy.model.device
        if device.type == "cuda" and device.index != torch.cuda.current_device():
            raise ValueError(
                f"a model on {device} cannot be cut into shards: each process has a GPU of its own, drop device"
            )
    for policy in learning:
        engine, place = policy.engine, policy.model.device.type
        if id(engine) not in engines:
            mesh = init_device_mesh(place, (shards,))
            once = policy.adapter is not None if reduce_once is None else reduce_once
            engines[id(engine)] = ShardedEngine(engine, mesh, once, gather_for_generation)
    for engine in engines.values():
        engine.mates = list(engines.values())
    for policy in _models(team):
        policy.engine = engines.get(id(policy.engine), policy.engine)


def unshard_team(team: Team) -> None:
    """Give the policies of `shard_team` whole weights again, on the CPU, to save them; all processes call it."""
    engines: dict[int, ModelEngine] = {}
    for policy in _models(team):
        if isinstance(policy.engine, ShardedEngine):
            if id(policy.engine) not in engines:
                engines[id(policy.engine)] = policy.engine.gather_engine()
            policy.engine = engines[id(policy.engine)]
            policy.model = policy.engine.model


def _models(team: Team) -> list[CausalLM]:
    """Return the distinct policies of a team with a model, in the order of the agents."""
    distinct: dict[int, Policy] = {id(policy): policy for policy in team.values()}
    return [policy for policy in distinct.values() if isinstance(policy, CausalLM)]


def require_shardable(model: Any) -> list[GradientCheckpointingLayer]:
    """Return the layers of a model, which are gathered one by one; raise a `ValueError` if it cannot be cut."""
    config, remedy = model.config.get_text_config(), "set learner.fsdp_size=1"
    if getattr(model, "is_quantized", False) or hasattr(config, "quantization_config"):
        raise ValueError(f"a quantised model cannot be cut into shards: {remedy}")
    for name in EXPERTS:
        if getattr(config, name, None):
            raise ValueError(
                f"a model with experts cannot be cut into shards ({name}={getattr(config, name)}): each pass "
                f"trains some of them, and not the same ones in each process; {remedy}"
            )
    if getattr(model, "hf_device_map", None):
        raise ValueError(f"a model that is spread over devices cannot be cut into shards: {remedy}")
    if has_shards(model.parameters()):
        raise ValueError("the model lies in shards already")
    layers = [part for part in model.modules() if isinstance(part, GradientCheckpointingLayer)]
    if not layers:
        raise ValueError(
            f"a {type(model).__name__} has no layers that transformers marks as such, to be gathered one by "
            f"one: {remedy}"
        )
    return layers


def _skeleton(engine: ModelEngine) -> Any:
    """Copy a model without its weights."""
    # `deepcopy` takes what it finds here for what it would copy, so no weight is copied.
    memo: dict[int, Any] = {id(engine): engine}
    for weight in engine.model.parameters():
        memo[id(weight)] = torch.nn.Parameter(
            weight.data.new_empty(0), requires_grad=weight.requires_grad
        )
    return copy.deepcopy(engine.model, memo)


def _sum_gradients(module: FSDPModule) -> None:
    """Let FSDP sum gradients over the processes, where it would take their mean."""
    if not hasattr(module, "set_force_sum_reduction_for_comms"):
        raise ValueError(
            f"weights in shards need a newer torch than {torch.__version__}, such as 2.13"
        )
    module.set_gradient_divide_factor(1.0)
    module.set_force_sum_reduction_for_comms(True)
