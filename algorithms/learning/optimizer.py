"""The optimizer of a policy: AdamW with float32 copies, its state, and the schedule of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from llm_decpomdp.agents.models.weights import cut_as, has_shards, is_shard, whole


def learning_rate_factor(update: int, schedule: str, warmup: int, total: int | None) -> float:
    """Return the factor of the learning rate after `update` complete updates.

    It rises linearly from 1/(warmup + 1) over the first `warmup` updates. Then it stays (`constant`), falls
    linearly to 0 (`linear`), or falls along half a cosine (`cosine`, arXiv 1608.03983), by the end of `total`
    updates.
    """
    if update < warmup:
        return (update + 1) / (warmup + 1)
    if schedule == "constant":
        return 1.0
    assert total is not None, schedule
    progress = min((update - warmup) / max(total - warmup, 1), 1.0)
    return 1.0 - progress if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))


class PolicyOptimizer:
    """AdamW for the parameters of a policy, with float32 copies of 16-bit parameters.

    `learning_rate` is that before the schedule. Only matrices decay, not vectors (biases, norms). `fused` takes
    the kernel of torch that reads and writes each weight once.
    """

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        learning_rate: float,
        weight_decay: float,
        fused: bool = False,
    ) -> None:
        self.parameters = list(parameters)
        # Most steps are too small to change a 16-bit number, and would be lost without a float32 copy.
        self.masters = [
            torch.nn.Parameter(weight.detach().float())
            if weight.dtype in (torch.bfloat16, torch.float16)
            else weight
            for weight in self.parameters
        ]
        self.learning_rate = learning_rate
        groups = [
            {"params": [m for m in self.masters if m.dim() > 1], "weight_decay": weight_decay},
            {"params": [m for m in self.masters if m.dim() <= 1], "weight_decay": 0.0},
        ]
        # AdamW refuses empty groups, such as the vectors of an adapter.
        self._adamw = torch.optim.AdamW(
            [g for g in groups if g["params"]], lr=learning_rate, fused=fused or None
        )

    def clip(self, limit: float | None) -> float:
        """Clip the gradient to the norm `limit`, and return its norm before, in the units of the loss."""
        # An infinite limit only measures the norm.
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, limit or math.inf)
        return float(whole(norm))

    def step(self, factor: float = 1.0) -> None:
        """Step with `factor` times the learning rate; parameters without a gradient do not change."""
        for group in self._adamw.param_groups:
            # Set at each step, and not by torch's schedulers: a resumed run then needs no scheduler state.
            group["lr"] = self.learning_rate * factor
        for parameter, master in self._float_copies():
            master.grad = None if parameter.grad is None else parameter.grad.float()
        self._adamw.step()
        with torch.no_grad():
            for parameter, master in self._float_copies():
                parameter.copy_(master)
        self.clear()

    @torch.no_grad()
    def reload(self) -> None:
        """Update the float32 copies, after something else has changed the parameters."""
        for parameter, master in self._float_copies():
            master.copy_(parameter)

    def clear(self) -> None:
        """Remove all gradients."""
        for tensor in (*self.parameters, *self.masters):
            tensor.grad = None

    def _float_copies(self) -> Iterator[tuple[torch.nn.Parameter, torch.nn.Parameter]]:
        pairs = zip(self.parameters, self.masters, strict=True)
        return ((parameter, master) for parameter, master in pairs if parameter is not master)

    def state_dict(self, keep: bool = True) -> dict[str, Any]:
        """Return moments and float32 copies.

        With shards, all processes call this, and whole tensors are gathered on the CPU; `keep=False` drops them.
        """
        masters = [master.detach() for _, master in self._float_copies()]
        state = {"adamw": self._adamw.state_dict(), "masters": masters}
        return _gather_whole(state, keep) if has_shards(self.parameters) else state

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the value of `state_dict`."""
        adamw = state["adamw"]
        if has_shards(self.parameters):
            # AdamW numbers weights in the order of its groups.
            order = [weight for group in self._adamw.param_groups for weight in group["params"]]
            moments = {
                index: {
                    name: cut_as(value, order[index])
                    if value.shape == order[index].shape
                    else value
                    for name, value in of_weight.items()
                }
                for index, of_weight in adamw["state"].items()
            }
            adamw = {**adamw, "state": moments}
        fused = [group["fused"] for group in self._adamw.param_groups]
        self._adamw.load_state_dict(adamw)
        # torch takes the options of the state over; the kernel is one of this process.
        for group, value in zip(self._adamw.param_groups, fused, strict=True):
            group["fused"] = value
        for (_, master), weights in zip(self._float_copies(), state["masters"], strict=True):
            master.copy_(cut_as(weights, master))


def _gather_whole(state: Any, keep: bool) -> Any:
    """Replace the shards in nested containers by whole tensors, or by empty ones."""
    if isinstance(state, torch.Tensor):
        if not is_shard(state):
            return state
        full = whole(state)
        return full.cpu() if keep else full.new_empty(0)
    if isinstance(state, Mapping):
        return {key: _gather_whole(value, keep) for key, value in state.items()}
    return [_gather_whole(value, keep) for value in state] if isinstance(state, list) else state
