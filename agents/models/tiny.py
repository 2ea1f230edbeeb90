"""A language model small enough to learn in seconds: random weights, one token for each character.

With it, tests, examples and probes execute the code that trains real models, offline and on one core.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from llm_decpomdp.agents.inference.options import Prompting, Sampling
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.engine import ModelEngine
from llm_decpomdp.agents.models.pretrained import TINY_CONTEXT
from llm_decpomdp.policy import CHAT

BYTE_WIDTH = 16  # size of the hidden state of the model over bytes

END = "<end>"  # the token that ends a completion, pads, and begins a prompt; it has no text
# Without a first token, `a` and `aa` would be the same to a model with rotary positions: attention to several
# equal tokens gives the value of one.

INITIAL_SCALE = 0.1
"""Standard deviation of the weights: every token has a fair chance at first, and prompts already differ."""

TEMPLATE = (
    "{% for message in messages %}{% if message.role != 'assistant' %}{{ eos_token }}{% endif %}"
    "{{ message.content }}{% endfor %}"
)
"""Chat template for histories: the end begins each prompt, and so ends the answer before it."""


def tiny_causal_lm(
    alphabet: str,
    sampling: Sampling | None = None,
    *,
    width: int = 32,
    layers: int = 2,
    context: int = 128,
    seed: int = 0,
    history: str = "none",
) -> CausalLM:
    """Build a randomly initialized Llama over single characters, as an ordinary trainable policy.

    At first every character and the end have a fair chance. Equal arguments give equal weights, and the global
    random state does not change.

    Args:
        alphabet: The distinct characters of prompts and completions. A prompt with other characters is refused.
        sampling: Options of the sampler.
        width: Size of the hidden state, a multiple of 8.
        layers: Number of transformer layers.
        context: Most tokens of a prompt with its completion.
        seed: Seed of the weights and of the sampler.
        history: `chat` lets it read the earlier turns of the episode (`Prompting`).

    Raises:
        ValueError: If `alphabet` is empty or repeats a character, `width` is not a multiple of 8, or `history` is
            unknown.
    """
    tokenizer, prompting = character_tokenizer(alphabet), Prompting(history=history)
    if prompting.history == CHAT:
        tokenizer.chat_template = TEMPLATE
    model = _random_llama(len(tokenizer), width, layers, context, seed)
    engine = ModelEngine(model, tokenizer, compute_dtype="float32")
    return CausalLM(engine, sampling, seed=seed, prompting=prompting)


def character_tokenizer(alphabet: str) -> PreTrainedTokenizerFast:
    """Build a tokenizer with the end as token 0 and the distinct characters of `alphabet`, in order, from 1 on."""
    if not alphabet or len(set(alphabet)) < len(alphabet):
        raise ValueError(f"alphabet must be distinct characters, at least one, got {alphabet!r}")
    vocabulary = {token: index for index, token in enumerate([END, *alphabet])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END} $A", special_tokens=[(END, 0)]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, eos_token=END, pad_token=END
    )


def _random_llama(size: int, width: int, layers: int, context: int, seed: int) -> LlamaForCausalLM:
    if width < 8 or width % 8:
        raise ValueError(f"width must be a multiple of 8, got {width}")
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        max_position_embeddings=context,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
        initializer_range=INITIAL_SCALE,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return LlamaForCausalLM(config)


def save_byte_model(folder: Path) -> None:
    """Save a model over bytes with random weights, and its tokenizer (`tiny-random`)."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    config = LlamaConfig(
        vocab_size=len(letters) + 1,
        hidden_size=BYTE_WIDTH,
        intermediate_size=BYTE_WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=TINY_CONTEXT,
        eos_token_id=len(letters),
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(folder)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")  # type: ignore[no-untyped-call]
    fast.save_pretrained(folder)
