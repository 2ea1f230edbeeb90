"""The memory that a run needs on each device, by arithmetic, before a model is loaded: the command `plan`.

Every device holds the whole team, or its shards of the models that learn (`learner.fsdp_size`), samples with
transformers and learns on its share of the starts. P is the number of weights of a model, A that of its adapters,
e the bytes of a number in the compute format, and n the number of shards.

| part         | bytes                                                                               |
|--------------|-------------------------------------------------------------------------------------|
| weights      | (4 P where all weights are trained, e P where they are frozen, + 4 A) / n           |
| gradients    | 4 for each trained weight, / n where each pass reduces them                         |
| moments      | 8 / n for each trained weight (two of AdamW)                                        |
| reference    | 4 P where a KL term, a critic or pairs compare with the initial weights, 8 P / n    |
| rounded copy | e P of the model at work, where e < 4 and all weights are trained, without shards   |
| gathered     | of shards, embeddings and a layer, twice: 2 e each; e P while a copy of all samples |
| activations  | `Shape.activation_bytes` times the tokens of one packed row, and a chunk of logits  |
| keys, values | `Shape.kv_bytes` times the tokens of all rows that are sampled together             |

Gradients are freed before a model samples, keys and values before it learns: the larger phase counts. Tests
compare counts with a run's files, weights and adapters with transformers and peft (0.03 %), activations with what
torch keeps (10 %), and the sum with the peak memory of runs on a CPU (factor 1.25). No GPU has confirmed it.

What libraries keep in a process is no part of it. On a CPU oneDNN compiles kernels for each shape of a product, of
any number of layers: 50 MB for adapters in bfloat16. On a GPU the share that `usable_memory` leaves is for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.policy import CHAT

if TYPE_CHECKING:
    from llm_decpomdp.benchmarks.config.schema import Config
    from llm_decpomdp.benchmarks.runs.setup import ResolvedRun

# Gigabytes of a device, from NVIDIA's data sheets.
GPUS = {"a100": 80.0, "h100": 80.0, "h200": 141.0, "l40s": 48.0, "4090": 24.0}

ASSUMED = {
    "usable_memory": 0.9,  # share of a device; the rest is for CUDA's libraries and for gaps
    "length": 1.0,  # share of max_new_tokens that completions have: an upper bound
    "characters": 3.5,  # per token of a prompt, in English and code
}
"""Defaults of `--assume`, which also takes `memory` (GB of a device) and `prompt` (tokens of a first prompt)."""

# Problems whose first prompts are measured: enough for a mean, and quick to render.
PROMPTS_READ = 32

QUANTIZED = {"8bit": 1.0, "4bit": 0.5 + 4 / 64}
"""Bytes of a quantized weight, with the scale of each block of 64."""

CHANGES: Mapping[str, Mapping[str, Any]] = {
    "'model.lora={r: 16}'": {"lora": {"r": 16}},
    "'model.lora={r: 16}' model.quantization=4bit": {"lora": {"r": 16}, "quantization": "4bit"},
    "model.gradient_checkpointing=true": {"gradient_checkpointing": True},
}
"""Remedies of a run that does not fit, and the keys of `model` that they set."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder with grouped-query attention and a gated feed-forward part (Llama, Qwen, SmolLM)."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool = False  # embeddings and head share their weights
    head_size: int | None = None  # width of a head; `None` is hidden / heads
    # Number of all weights; `None` adds up the matrices, without norms and biases (about 1 in 10,000).
    total: int | None = None

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.head_size or self.hidden // self.heads

    @property
    def linear(self) -> Mapping[str, int]:
        """Inputs + outputs of the matrices of a layer, by module."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        names = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
        outputs = (queries, keys, keys, queries, *3 * [self.intermediate])
        return {name: self.hidden + size for name, size in zip(names, outputs, strict=True)}

    @property
    def parameters(self) -> int:
        """Number of all weights (P)."""
        # `linear` has inputs + outputs: without the width of the model, 7 times, only the other sides remain.
        layer = self.hidden * (sum(self.linear.values()) - 7 * self.hidden)
        return self.total or self.layers * layer + self.embeddings

    @property
    def embeddings(self) -> int:
        """Number of weights of embeddings and head."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    def kv_bytes(self, element: int) -> int:
        """Return the bytes of keys and values of a token, for numbers of `element` bytes."""
        return 2 * self.layers * self.kv_heads * self.head_dim * element  # 2: keys and values

    def activation_bytes(self, element: int, *, checkpointing: bool = False) -> int:
        """Return the bytes that a backward pass keeps of each token."""
        # Counted over the operations of a layer, with attention that keeps no scores: in bfloat16 under autocast
        # norms stay float32. Checkpointing keeps the float32 input of each layer, and one layer in full.
        layer = self.hidden * (34 if element == 2 else 44)
        layer += self.intermediate * (8 if element == 2 else 16)
        return self.layers * 4 * self.hidden + layer if checkpointing else self.layers * layer

    def adapter(self, lora: Mapping[str, Any]) -> int:
        """Return the weights of a LoRA adapter: r (inputs + outputs) of each adapted matrix (arXiv 2106.09685)."""
        targets = lora.get("target_modules") or ("q_proj", "v_proj")  # peft's default for these
        names = {targets} if isinstance(targets, str) else set(targets)
        adapted = names if names <= self.linear.keys() else self.linear.keys()  # such as all-linear
        # The rank 8 is peft's default.
        return self.layers * int(lora.get("r", 8)) * sum(self.linear[name] for name in adapted)


TABLE = {
    "qwen2.5-0.5b": Shape(24, 896, 4864, 14, 2, 151_936, tied=True),
    "qwen2.5-1.5b": Shape(28, 1536, 8960, 12, 2, 151_936, tied=True),
    "qwen2.5-3b": Shape(36, 2048, 11_008, 16, 2, 151_936, tied=True),
    "qwen2.5-7b": Shape(28, 3584, 18_944, 28, 4, 152_064),
    "qwen2.5-14b": Shape(48, 5120, 13_824, 40, 8, 152_064),
    "qwen2.5-32b": Shape(64, 5120, 27_648, 40, 8, 152_064),
    "qwen3-0.6b": Shape(28, 1024, 3072, 16, 8, 151_936, tied=True, head_size=128),
    "qwen3-1.7b": Shape(28, 2048, 6144, 16, 8, 151_936, tied=True, head_size=128),
    "qwen3-4b": Shape(36, 2560, 9728, 32, 8, 151_936, tied=True, head_size=128),
    "qwen3-8b": Shape(36, 4096, 12_288, 32, 8, 151_936, head_size=128),
    "qwen3-14b": Shape(40, 5120, 17_408, 40, 8, 151_936, head_size=128),
    "qwen3-32b": Shape(64, 5120, 25_600, 64, 8, 151_936, head_size=128),
    "llama-3.2-1b": Shape(16, 2048, 8192, 32, 8, 128_256, tied=True),
    "llama-3.2-3b": Shape(28, 3072, 8192, 24, 8, 128_256, tied=True),
    "llama-3.1-8b": Shape(32, 4096, 14_336, 32, 8, 128_256),
}
"""From the models' `config.json`, by the beginning of their names; `qwen2.5-coder` has the shapes of `qwen2.5`."""


def find_shape(name: str, parameters: float | None = None) -> Shape:
    """Find the shape of a model in its folder, in `TABLE`, or in its config on the hub.

    Args:
        name: As in a configuration.
        parameters: Number of weights of a model that is found nowhere; the nearest shape of `TABLE` stands for it.

    Raises:
        ConfigError: If the shape is unknown; says which option tells it.
    """
    from llm_decpomdp.agents.models.pretrained import ModelError, model_source
    from llm_decpomdp.utils.hub import hub_address, hub_answers

    missing = ""
    try:
        source = model_source(name)
    except (ModelError, ModuleNotFoundError) as error:  # another machine may have it
        source, missing = name, f"{error}; "
    if isinstance(source, Path):
        return read_shape(source)
    if (listed := listed_shape(name)) is not None:
        return listed
    if parameters is not None:
        # Its widths are unknown, and about those of the known model that is nearest in size.
        nearest = min(TABLE.values(), key=lambda shape: abs(shape.parameters - parameters))
        return replace(nearest, total=round(parameters))
    reason = f"{hub_address()} does not answer"
    if hub_answers():
        try:
            return read_shape(name)
        except OSError as error:
            reason = " ".join(str(error).split())
    raise ConfigError(
        f"the size of {name!r} isn't known: {missing}it is no folder with a model, not one of "
        f"{', '.join(TABLE)}, and {reason}; give --parameters, such as 7.6e9, or the folder of its config.json "
        "as model.name"
    )


def listed_shape(name: str) -> Shape | None:
    """Find a name in `TABLE`, for any owner.

    Examples:
        >>> listed_shape("Qwen/Qwen2.5-Coder-3B-Instruct").layers
        36
    """
    # Coders have the shapes of the models that they were made from.
    plain = name.rpartition("/")[2].lower().replace("-coder", "")
    keys = [key for key in TABLE if plain == key or plain.startswith(f"{key}-")]
    return TABLE[max(keys, key=len)] if keys else None


def read_shape(source: str | Path) -> Shape:
    """Read the shape of a model from its config, and count its weights without allocating them.

    Raises:
        OSError: If there is no config.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    if (Path(source) / "adapter_config.json").is_file():
        from peft import PeftConfig

        return find_shape(str(PeftConfig.from_pretrained(str(source)).base_model_name_or_path))
    # With the default, transformers would ask on the terminal whether to run code of the model.
    config: Any = AutoConfig.from_pretrained(source, trust_remote_code=False)
    # On this device weights have shapes and take no memory.
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    text = config.get_text_config()
    return Shape(
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        # Configurations such as that of GPT-2 lack some of these keys, and mean the values given here.
        intermediate=getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
        heads=text.num_attention_heads,
        kv_heads=getattr(text, "num_key_value_heads", None) or text.num_attention_heads,
        vocabulary=text.vocab_size,
        tied=bool(text.tie_word_embeddings),
        head_size=getattr(text, "head_dim", None),
        total=sum(weight.numel() for weight in model.parameters()),
    )


@dataclass(frozen=True)
class PlannedModel:
    """Weights that are in memory once, and tokens of the agents that use them."""

    name: str
    policies: tuple[str, ...]
    shape: Shape
    # Tokens of the longest prompt of each agent: a later one repeats the previous completion. With `history=chat`
    # it follows all earlier prompts, of equal length, and completions.
    prompts: tuple[float, ...]
    lengths: tuple[float, ...]  # tokens of a completion of each agent
    trained: bool
    adapters: int = 0  # weights of all adapters; 0 where all weights are trained, or none
    checkpointing: bool = False
    dtype: str = "bfloat16"
    # True if a second pass computes log-probabilities of the reference, or features for a critic.
    reference: bool = False
    shards: int = 1
    reduce_once: bool = False
    copies: bool = True  # whether a model in shards is sampled with a copy of all weights
    quantization: str = "none"

    @property
    def full(self) -> bool:
        """Whether all weights are trained."""
        return self.trained and not self.adapters

    @property
    def element(self) -> int:
        """Bytes of a number in the compute format."""
        return 4 if self.dtype == "float32" else 2

    def state_bytes(self) -> dict[str, float]:
        """Return the bytes that stay in memory over an update, by part."""
        size, shards = self.shape.parameters, self.shards
        trained = (self.adapters or size) if self.trained else 0
        frozen = float(self.element * size)
        if self.quantization != "none":
            layers = size - self.shape.embeddings
            frozen = self.element * self.shape.embeddings + QUANTIZED[self.quantization] * layers
        references = (1 if shards == 1 else 2) if self.full and self.reference else 0
        return {
            # Weights that are trained, their gradients and the two moments of AdamW are float32, of 4 bytes.
            "weights": (4.0 * size if self.full else frozen + 4.0 * self.adapters) / shards,
            "gradients": 4.0 * trained / (1 if self.reduce_once else shards),
            "moments": 8.0 * trained / shards,
            "reference": 4.0 * size * references / shards,
        }

    def learning_bytes(self, group_size: int) -> dict[str, float]:
        """Return the bytes of a pass over one packed row: a prompt with the completions of a group."""
        from llm_decpomdp.agents.inference.log_probs import LOGITS_AT_ONCE, ROW_TOKENS

        prompt, length = max(self.prompts), max(self.lengths)
        # A row is divided at its limit, but never within one completion.
        tokens = max(min(prompt + group_size * length, ROW_TOKENS), prompt + length)
        token = self.shape.activation_bytes(self.element, checkpointing=self.checkpointing)
        # A chunk of logits is float32, twice, and so are its gradients: 16 bytes each.
        logits = min((tokens - prompt) * self.shape.vocabulary, LOGITS_AT_ONCE)
        working = {**self._rounded_copy(), "activations": tokens * token + 16 * logits}
        if self.shards > 1:
            part = max(self.shape.embeddings, self._layer)  # whose gradients are reduced as float32
            working["gathered"] = self._gathered_parts()
            working["gathered"] += (self.element + 4) * part if self.full else 0
        return working

    def sampling_bytes(self, rows: int) -> dict[str, float]:
        """Return the bytes of sampling `rows` completions of each agent together."""
        context = max(p + length for p, length in zip(self.prompts, self.lengths, strict=True))
        keys = rows * len(self.lengths) * context * self.shape.kv_bytes(self.element)
        gathered = 0.0
        if self.shards > 1:
            copy = self.element * (self.shape.parameters + self.adapters)
            gathered = copy if self.copies else self._gathered_parts()
        return {**self._rounded_copy(), "keys, values": keys, "gathered": gathered}

    @property
    def _layer(self) -> float:
        """Weights of a layer."""
        return (self.shape.parameters - self.shape.embeddings) / self.shape.layers

    def _gathered_parts(self) -> float:
        # FSDP gathers into a buffer and copies the weights out of it. The buffer of the embeddings lasts until the
        # weights of the first layer are copied.
        return 2 * self.element * (self.shape.embeddings + self._layer)

    def _rounded_copy(self) -> dict[str, float]:
        # In shards FSDP rounds what it gathers, which is counted as gathered.
        rounded = self.full and self.element < 4 and self.shards == 1
        return {"rounded copy": float(self.element * self.shape.parameters) if rounded else 0.0}


@dataclass(frozen=True)
class MemoryPlan:
    """Upper bounds of the counts and of the memory of an update."""

    starts: int  # of a round of rollouts
    groups: tuple[int, ...]  # of one start, by turn
    group_size: tuple[int, ...]  # completions of each agent in a group, by turn
    completions: int  # of each agent, of all rounds
    joint_samples: int
    programs: int
    models: tuple[PlannedModel, ...]

    @property
    def tokens(self) -> float:
        """Sampled tokens of all agents."""
        return self.completions * sum(sum(model.lengths) for model in self.models)

    def parts(self, devices: int = 1) -> dict[str, float]:
        """Return the bytes of each part on one of the devices, in the larger of the two phases."""
        states: dict[str, float] = {}
        for model in self.models:
            for part, size in model.state_bytes().items():
                states[part] = states.get(part, 0.0) + size
        learn = [m.learning_bytes(max(self.group_size)) for m in self.models if m.trained]
        rows = max(g * size for g, size in zip(self.groups, self.group_size, strict=True))
        sample = [m.sampling_bytes(rows * math.ceil(self.starts / devices)) for m in self.models]
        learning = max(learn, key=lambda parts: sum(parts.values()))
        sampling = max(sample, key=lambda parts: sum(parts.values()))
        sampling["gathered"] = sum(parts["gathered"] for parts in sample)  # all before sampling
        phases = {**states, **learning}, {**states, "gradients": 0.0, **sampling}
        # The two phases do not overlap, so the larger one is the peak.
        return max(phases, key=lambda parts: sum(parts.values()))


def plan_memory(
    config: Config,
    assumed: Mapping[str, float] = ASSUMED,
    dtype: str = "bfloat16",
    gpus: int | None = None,
) -> MemoryPlan:
    """Count what an update of a run samples and learns; its data is read, and no model is loaded.

    Args:
        config: The configuration.
        assumed: `ASSUMED`, with `prompt` or `parameters` where they are given.
        dtype: The compute format where a configuration says `auto`.
        gpus: Number of GPUs that `sample_on` may name; `None` checks no names.

    Raises:
        ConfigError: If nothing is sampled, the horizon or the size of a model is unknown, or a GPU is not there.
        RunError: If the data cannot be loaded.
    """
    from llm_decpomdp.algorithms.rollouts.checks import joint_samples, run_cost
    from llm_decpomdp.benchmarks.config.placement import check_room
    from llm_decpomdp.benchmarks.runs.setup import resolve
    from llm_decpomdp.registry import accepts_argument

    run = resolve(config)
    if gpus is not None:
        check_room(run.config, run.team.policies, gpus)
    algorithm, env, size = run.config.algorithm, run.train_env, run.trainer.group_size
    if run.pairs:
        reason = "nothing is sampled, and a plan covers runs that sample"
        raise ConfigError(f"with algorithm.preferences.source {reason}")
    costs = run_cost(env, run.trainer, size, run.batches)
    if costs is None:
        reason = "does not tell its horizon (num_turns), so nothing can be planned"
        raise ConfigError(f"{config.env.id} {reason}")
    joint = joint_samples(algorithm.rollout, size, len(env.possible_agents))
    turns = range(env.num_turns)
    episodes, tree = algorithm.rollout.mode == "episodes", algorithm.rollout.mode == "tree"
    return MemoryPlan(
        starts=max(map(len, run.batches)),
        # Whole episodes part after the first turn; every joint sample of a tree leads to a group.
        groups=tuple(
            (size if turn else 1) if episodes else (joint**turn if tree else 1) for turn in turns
        ),
        group_size=tuple(1 if episodes and turn else size for turn in turns),
        completions=costs.update.completions,
        joint_samples=costs.update.joint_samples,
        programs=costs.update.joint_samples if accepts_argument(config.env.id, "isolation") else 0,
        models=tuple(_models(run, assumed, dtype)),
    )


def _models(run: ResolvedRun, assumed: Mapping[str, float], dtype: str) -> Iterator[PlannedModel]:
    """Yield the models of a run; adapters on one base share it."""
    from llm_decpomdp.agents.models.pretrained import saved_adapter
    from llm_decpomdp.agents.models.quantized import check_quantization
    from llm_decpomdp.algorithms.rollouts.rollout import reset_branch

    specs = run.team.policies
    texts = [reset_branch(run.train_env, start)[1] for start in run.problems[:PROMPTS_READ]]
    shared: dict[Any, list[str]] = {}
    for name, spec in specs.items():
        if spec.kind == "model":
            # Adapters on one base share its weights.
            key = (spec.name, spec.compute_dtype, spec.device) if spec.lora else name
            shared.setdefault(key, []).append(name)
    learner = run.config.learner
    for policies in shared.values():
        agents = [agent for agent, name in run.team.agents.items() if name in policies]
        spec, lengths, prompts = specs[policies[0]], [], []
        for agent in agents:
            mean = sum(len(text[agent]) for text in texts) / len(texts) / assumed["characters"]
            lengths.append(specs[run.team.agents[agent]].max_new_tokens * assumed["length"])
            first, later = assumed.get("prompt", mean), run.train_env.num_turns - 1
            if specs[run.team.agents[agent]].history == CHAT:
                prompts.append(first + later * (first + lengths[-1]))
            else:
                prompts.append(first + (lengths[-1] if later else 0))
        shape = find_shape(str(spec.name), assumed.get("parameters"))
        adapters = [specs[name].lora or saved_adapter(str(spec.name)) for name in policies]
        try:
            if spec.quantization != "none":
                check_quantization(spec.quantization, all(adapters), False, spec.name)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        trained = any(specs[name].can_be_trained for name in policies)
        yield PlannedModel(
            name=str(spec.name),
            policies=tuple(policies),
            shape=shape,
            prompts=tuple(prompts),
            lengths=tuple(lengths),
            trained=trained,
            adapters=sum(shape.adapter(lora) for lora in adapters if lora),
            checkpointing=spec.gradient_checkpointing,
            dtype=dtype if spec.compute_dtype == "auto" else spec.compute_dtype,
            reference=run.algorithm.needs_reference(run.learner)
            or run.algorithm.complete_options(run.learner).critic.exists,
            shards=learner.fsdp_size if trained else 1,
            reduce_once=any(adapters) if learner.reduce_once is None else learner.reduce_once,
            copies=learner.gather_for_generation,
            quantization=spec.quantization,
        )
