"""Floors of sampling, learning and updates: the matrix products that the work needs, and nothing else.

No attention, norms, activations, drawing or loss; weights are in the dtype already, and random numbers stand for
the hidden states. Prompts count once, as nothing forces anybody to compute them for each sibling again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.decoding import limit_threads
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.algorithms.rollouts.sampling import Timer
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
        """Multiply as for a pass of that many tokens, of which some need logits."""
        for weight in self.body:
            with limit_threads(rows * weight.numel(), weight.device):
                weight.new_ones(rows, weight.shape[1]) @ weight.T
        self.head.new_ones(head_rows, self.head.shape[1]) @ self.head.T

    def generate(self, prompts: Sequence[int], rows: int, new_tokens: int) -> None:
        """Multiply as for a pass of all prompts, of those lengths, and one of every row for each further token."""
        self.forward(sum(prompts), len(prompts))
        for _ in range(new_tokens - 1):
            self.forward(rows, rows)

    def backward(self, rows: int, head_rows: int, frozen: bool = False) -> None:
        """Multiply as for a backward pass: twice for each product of the forward pass, once for frozen weights."""
        for weight, number in [*((w, rows) for w in self.body), (self.head, head_rows)]:
            gradient = weight.new_ones(number, weight.shape[0])
            gradient @ weight
            if not frozen:
                gradient.T @ weight.new_ones(number, weight.shape[1])


def sampling(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Multiply as for a pass of the prompt, and one of G tokens for each further token."""
    case = Case(**arguments)
    policy = case.policy("float32")
    length = len(policy.encode(*case.prompts))
    products = Products(policy, case.dtype)
    for limit in (1, case.new_tokens):
        products.generate([length], case.group_size, limit)
        _wait(case.device)
        yield {"units": case.group_size * limit}


def learning(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Multiply as for forward and backward of each prompt and its siblings, in one row."""
    case = Case(**arguments)
    policy = case.policy("float32")
    groups = synthetic(policy, case)
    sizes = [(len(policy.encode(prompt)), sum(map(len, rows))) for prompt, rows in groups]
    products = Products(policy, case.dtype)
    products.forward(8, 8)
    yield {"units": 8}
    for length, tokens in sizes:
        # A completion's last token predicts nothing, and the prompt's last one predicts for all.
        rows = length + tokens - case.group_size
        products.forward(rows, tokens)
        products.backward(rows, tokens)
    _wait(case.device)
    yield {"units": sum(tokens for _, tokens in sizes)}


def update(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Multiply as for one turn of a team on the last task, sampling and learning, without reward and optimizer.

    With `own` weights there is a model for each agent; with `adapters` one for all, whose rows pass together and
    whose weights need no gradients. The adapters themselves cost nothing here.
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
