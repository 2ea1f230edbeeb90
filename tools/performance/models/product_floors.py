"""Lower bounds of sampling, learning and updates: only the matrix products of the linear layers.

There is no attention, norm, activation, drawing or loss. The weights have their final dtype, and the hidden states
are ones. Prompts count once, since siblings can share their computation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.decoding import limit_threads
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.algorithms.rollouts.rollout import Timer
from tools.performance.models import workload
from tools.performance.models.learning import synthetic
from tools.performance.models.workload import Case


class Products:
    """Weights of a model's linear layers, and of its head."""

    def __init__(self, policy: CausalLM, dtype: str) -> None:
        model = policy.model.to(getattr(torch, dtype))
        self.head: Tensor = model.get_output_embeddings().weight.detach()
        linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
        self.body = [
            m.weight.detach() for m in linear if m.weight.data_ptr() != self.head.data_ptr()
        ]

    def forward(self, rows: int, head_rows: int) -> None:
        """Multiply as in a forward pass of `rows` tokens, `head_rows` of them with logits."""
        for weight in self.body:
            with limit_threads(rows * weight.numel(), weight.device):
                weight.new_ones(rows, weight.shape[1]) @ weight.T
        self.head.new_ones(head_rows, self.head.shape[1]) @ self.head.T

    def generate(self, prompts: Sequence[int], rows: int, new_tokens: int) -> None:
        """Multiply as in a pass of all prompts of these lengths, and a pass of all rows for each further token."""
        self.forward(sum(prompts), len(prompts))
        for _ in range(new_tokens - 1):
            self.forward(rows, rows)

    def backward(self, rows: int, head_rows: int, frozen: bool = False) -> None:
        """Multiply as in a backward pass: two products for each one of the forward pass, or one if frozen."""
        for weight, number in [*((w, rows) for w in self.body), (self.head, head_rows)]:
            gradient = weight.new_ones(number, weight.shape[0])
            gradient @ weight
            if not frozen:
                gradient.T @ weight.new_ones(number, weight.shape[1])


def sampling(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Multiply as in a pass of the prompt, and a pass of G tokens for each further token."""
    case = Case(**arguments)
    policy = case.policy("float32")
    length = len(policy.encode(*case.prompts))
    products = Products(policy, case.dtype)
    for limit in (1, case.new_tokens):
        products.generate([length], case.group_size, limit)
        _wait(case.device)
        yield {"units": case.group_size * limit}


def learning(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Multiply as in forward and backward passes of each prompt with all its siblings."""
    case = Case(**arguments)
    policy = case.policy("float32")
    groups = synthetic(policy, case)
    sizes = [(len(policy.encode(prompt)), sum(map(len, rows))) for prompt, rows in groups]
    products = Products(policy, case.dtype)
    products.forward(8, 8)
    yield {"units": 8}
    for length, tokens in sizes:
        # The last tokens of completions predict nothing; the last token of the prompt predicts for all.
        rows = length + tokens - case.group_size
        products.forward(rows, tokens)
        products.backward(rows, tokens)
    _wait(case.device)
    yield {"units": sum(tokens for _, tokens in sizes)}


def update(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Multiply as in sampling and learning of one turn of a team on the last task.

    With `own` weights each agent has a model. With `adapters` there is one model, whose weights need no gradients
    and which processes the rows of all agents together. The products of the adapters are not included.
    """
    case = Case(**arguments)
    policy = case.policy("float32")
    prompts = workload.prompts(workload.environment(), case.tasks[-1]).values()
    lengths = [len(policy.encode(prompt)) for prompt in prompts]
    shared = case.weights == "adapters"
    passes = [lengths] if shared else [[length] for length in lengths]
    products = Products(policy, case.dtype)
    products.forward(8, 8)
    yield {"units": 8}
    timer = Timer()
    with timer("sampling"):
        for batch in passes:
            products.generate(batch, case.group_size * len(batch), case.new_tokens)
        _wait(case.device)
    with timer("learning"):
        for length in lengths:
            tokens = case.group_size * case.new_tokens
            rows = length + tokens - case.group_size
            products.forward(rows, tokens)
            products.backward(rows, tokens, frozen=shared)
        _wait(case.device)
    units = case.group_size * case.new_tokens * len(lengths)
    yield {"units": units, "parts": timer.seconds}


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
