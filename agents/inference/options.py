"""Options of a local model: sampling, prompts, numbers, adapter."""

from __future__ import annotations

from typing import Any

from llm_decpomdp.options import Options, option
from llm_decpomdp.policy import CHAT


class Sampling(Options):
    """Distribution and length of completions; temperature 0 always takes the most likely token.

    Raises:
        ValueError: If a value is out of its range.
    """

    temperature: float = option(1.0, ge=0)
    """Divisor of the logits: a higher temperature gives more varied completions."""
    top_p: float = option(1.0, gt=0, le=1)
    """Draw among the most likely tokens with this share of the probability; 1 draws among all."""
    top_k: int | None = option(None, ge=0)
    """Draw among this many most likely tokens; `None` and 0 draw among all."""
    max_new_tokens: int = option(256, ge=1, le=1_000_000)
    """Maximum number of tokens of a completion, including the end-of-sequence token."""
    stop: list[str] | None = None
    """Texts that end a completion, as in `["\\n"]`. The text ends before the first of them, the tokens end with
    it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for text in self.stop or ():
            if not isinstance(text, str) or not text:
                raise ValueError(
                    f"stop must be a list of texts that are not empty, got {self.stop!r}"
                )

    @property
    def divisor(self) -> float:
        """Divisor of the logits: the temperature, or 1 for greedy decoding."""
        return self.temperature or 1.0

    @property
    def cuts(self) -> bool:
        """True if some tokens are never drawn."""
        return self.top_p < 1 or bool(self.top_k) or self.temperature == 0


class Prompting(Options):
    """Chat template variables, and the handling of long prompts.

    Raises:
        ValueError: If a value is out of its range.
    """

    system_prompt: str | None = None
    """System message of the chat template, which may be empty; `None` sends none, and the template may have its
    own. The agent's prompt is the user message."""
    history: str = option("none", choices=("none", CHAT))
    """What an agent reads of its episode before a prompt: `none`, or `chat`, its earlier prompts and answers as
    turns of a dialogue of the chat template. The tokens of earlier answers are kept."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Further variables of the chat template, as in `{enable_thinking: false}`."""
    max_prompt_tokens: int | None = option(None, ge=1)
    """Maximum number of tokens of a prompt, including the chat template; never more than the model's context less
    `max_new_tokens`."""
    on_long_prompt: str = option("raise", choices=("raise", "skip", "truncate_left"))
    """Treatment of longer prompts: `raise` ends the run, before the first update if it is a first prompt. `skip`
    gives an empty completion, and leaves out problems whose first prompt is too long. `truncate_left` removes the
    oldest turns of a dialogue and then the beginning of the prompt, and keeps the template."""
    prefill: str | None = None
    """Text at the beginning of every completion, as in `"def aux(x):\\n    return"`: the model continues it. Its
    tokens are not sampled and not learned; the environment reads the whole text."""
    prefill_after: str | None = None
    """Text in prompts behind which the prefill of that prompt stands, up to an empty line or the end, as in
    `"Your answer begins with:\\n"`. The last place counts; prompts without it have `prefill`."""


class Caching(Options):
    """Keys and values of a local model while it samples."""

    prefix_cache: float | None = option(None, ge=0)
    """Memory in gigabytes (2^30 bytes) for the keys and values of earlier turns. Prompts with the same beginning
    are continued from them; 0 computes every prompt whole. `None` is 1 with `history: chat` and without
    `static_cache`, and else 0. Servers have prefix caches of their own."""
    static_cache: bool | None = None
    """Sample with keys and values in memory of fixed size. A GPU then computes a token of all rows as one recorded
    graph of kernels, in a fraction of the time. Earlier turns are computed anew, and equal seeds give other texts
    where rounding decides. The model needs attention `sdpa` without windows. `None` is true on a GPU with such a
    model, unless another option needs a cache that grows: `prefix_cache`, `continuous_batching`, `in_flight` or
    `gather_for_generation=false`."""
    continuous_batching: int | None = option(None, ge=1)
    """Rows of a batch of a local model: where a row ends, the next prompt takes its place. The tokens with which
    all prompts begin are computed once. It pays off where prompts have different lengths. `None` samples all
    prompts in one batch. Prompts that continue from a `prefix_cache` do not use it. Equal seeds give other texts
    where rounding decides."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.static_cache and self.prefix_cache:
            raise ValueError(
                f"prefix_cache={self.prefix_cache:g} has no effect with static_cache=true, which computes every "
                "prompt whole: set one of them"
            )
        if self.static_cache and self.continuous_batching:
            raise ValueError(
                f"continuous_batching={self.continuous_batching} adds rows to a batch, and static_cache=true has "
                "memory for those at its beginning: set one of them"
            )


COMPUTE_DTYPES = ("auto", "float32", "bfloat16")

QUANTIZATIONS = ("none", "8bit", "4bit")


class ModelOptions(Caching, Prompting, Sampling):
    """Sampling, prompts, numbers and adapter of a local model."""

    compute_dtype: str = option("auto", choices=COMPUTE_DTYPES)
    """Number format of the computation; `auto` is bfloat16 where the device is fast with it. Trained weights are
    always float32."""
    device: str = "auto"
    """`auto` (a GPU where there is one), or a torch device such as `cpu` or `cuda:1`."""
    attn_implementation: str | None = None
    """Attention of transformers, such as `sdpa`; `None` takes its default."""
    # All options from here on are off by default.
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them: less memory, more time."""
    fused_kernels: bool = False
    """Use fused kernels in learning: attention computes only the scores that tokens need (flex attention on a
    GPU), an adapter's product is added inside the product of the frozen weights, and oneDNN computes float32
    products on a CPU. Learning takes less time and memory, and gradients are equal up to rounding. If the
    results of a model differ from those without fused kernels, the kernels are not used. Not with
    `learner.fsdp_size`."""
    compile: bool = False
    """Compile layers by `torch.compile` at their first use, which takes some seconds: for passes of learning, and
    with `static_cache` for the tokens that are sampled. Values are equal up to rounding. On a CPU, oneDNN computes
    float32 products of adapters. Needs a C++ compiler, on a GPU triton. Not with `quantization`,
    `learner.fsdp_size`, `learner.deterministic`, or on a GPU with `fused_kernels`."""
    quantization: str = option("none", choices=QUANTIZATIONS)
    """Weights of the frozen model below adapters in 8 or 4 bits (NF4), by bitsandbytes, for sampling and learning.
    Only with an adapter, and not with servers or `learner.fsdp_size`."""
    lora: dict[str, Any] | None = None
    """Arguments of `peft.LoraConfig`, as in `{r: 16, lora_alpha: 32}`; `None` trains all weights. Adapters share
    one frozen base model."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compile and self.quantization != "none":
            raise ValueError(
                f"compile=true does not compile the products of quantization={self.quantization}: set one of them"
            )
