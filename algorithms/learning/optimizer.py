"""The optimizer of one policy: AdamW with full-precision weights, decay where it belongs, and a schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from llm_decpomdp.agents.models.weights import cut_as, has_shards, is_shard, whole


def learning_rate_factor(update: int, schedule: str, warmup: int, total: int | None) -> float:
    """Factor of the learning rate at an update.

    It rises linearly over the first `warmup` updates, then stays (`constant`), falls linearly to 0
    (`linear`), or falls along half a cosine (`cosine`, arXiv 1608.03983) by the end of the run.

    Args:
        update: Complete updates before this one.
        schedule: `constant`, `linear` or `cosine`.
        warmup: Updates of the rise; the first steps with 1/(warmup + 1).
        total: All updates of the run; needed unless the schedule is `constant`.
    """
    if update < warmup:
        return (update + 1) / (warmup + 1)
    if schedule == "constant":
        return 1.0
    assert total is not None, schedule
    progress = min((update - warmup) / max(total - warmup, 1), 1.0)
    return 1.0 - progress if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))


class PolicyOptimizer:
    """Steps the parameters of a policy.

    16-bit parameters get a float32 copy that the steps are added to: most steps are too small to change a
    16-bit number at all, and would be lost.

    Args:
        parameters: The parameters to train.
        learning_rate: Before the schedule.
        weight_decay: Of matrices; vectors (biases, norms) never decay.
    """

    def __init__(
        self, parameters: Sequence[torch.nn.Parameter], learning_rate: float, weight_decay: float
    ) -> None:
        self.parameters = list(parameters)
        self.masters = [_master(parameter) for parameter in self.parameters]
        self.learning_rate = learning_rate
        matrices = [master for master in self.masters if master.dim() > 1]
        vectors = [master for master in self.masters if master.dim() <= 1]
        groups = [
            {"params": matrices, "weight_decay": weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        # AdamW refuses empty groups, such as the vectors of an adapter.
        self._adamw = torch.optim.AdamW([g for g in groups if g["params"]], lr=learning_rate)

    def clip(self, limit: float | None) -> float:
        """Shorten the gradient to the norm `limit`; the norm before, in the units of the loss."""
        # An infinite limit only measures the norm.
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, limit or math.inf)
        return float(whole(norm))

    def step(self, factor: float = 1.0) -> None:
        """Step with `factor` times the learning rate; nothing moves where there is no gradient."""
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
        """Copy the current parameters into the float32 copies, after something else has changed them."""
        for parameter, master in self._float_copies():
            master.copy_(parameter)

    def clear(self) -> None:
        """Forget the gradient."""
        for tensor in (*self.parameters, *self.masters):
            tensor.grad = None

    def _float_copies(self) -> Iterator[tuple[torch.nn.Parameter, torch.nn.Parameter]]:
        pairs = zip(self.parameters, self.masters, strict=True)
        return ((parameter, master) for parameter, master in pairs if parameter is not master)

    def state_dict(self, keep: bool = True) -> dict[str, Any]:
        """Moments, and the float32 copies.

        Those in shards are gathered, on the CPU: then all processes call this, and those that do not write a
        checkpoint need not `keep` what it holds.
        """
        masters = [master.detach() for _, master in self._float_copies()]
        state = {"adamw": self._adamw.state_dict(), "masters": masters}
        return _gather_whole(state, keep) if has_shards(self.parameters) else state

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value."""
        adamw = state["adamw"]
        if has_shards(self.parameters):
            adamw = {**adamw, "state": self._cut(adamw["state"])}
        self._adamw.load_state_dict(adamw)
        for (_, master), weights in zip(self._float_copies(), state["masters"], strict=True):
            master.copy_(cut_as(weights, master))

    def _cut(self, moments: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
        """Return the part of whole moments that belongs here; AdamW numbers weights in the order of its groups."""
        order = [weight for group in self._adamw.param_groups for weight in group["params"]]
        return {
            index: {
                name: cut_as(value, order[index]) if value.shape == order[index].shape else value
                for name, value in of_weight.items()
            }
            for index, of_weight in moments.items()
        }


def _gather_whole(state: Any, keep: bool) -> Any:
    """Return a container of containers with whole tensors in the place of shards, or with empty ones."""
    if isinstance(state, torch.Tensor):
        if not is_shard(state):
            return state
        full = whole(state)
        return full.cpu() if keep else full.new_empty(0)
    if isinstance(state, Mapping):
        return {key: _gather_whole(value, keep) for key, value in state.items()}
    return [_gather_whole(value, keep) for value in state] if isinstance(state, list) else state


def _master(parameter: torch.nn.Parameter) -> torch.nn.Parameter:
    if parameter.dtype in (torch.bfloat16, torch.float16):
        return torch.nn.Parameter(parameter.detach().float())
    return parameter
