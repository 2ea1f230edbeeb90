"""The states of optimizers and learners, which checkpoints hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from llm_decpomdp.agents.models.weights import cut_as, has_shards
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning import shards

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.critics.critic import Critic
    from llm_decpomdp.algorithms.learning.algorithm import Algorithm


class OptimizerState:
    """The part of `PolicyOptimizer` that stores and restores its state."""

    parameters: list[torch.nn.Parameter]
    masters: list[torch.nn.Parameter]
    _adamw: torch.optim.AdamW

    @torch.no_grad()
    def reload(self) -> None:
        """Update the float32 copies, after something else has changed the parameters."""
        for parameter, master in self._float_copies():
            master.copy_(parameter)

    def _float_copies(self) -> Iterator[tuple[torch.nn.Parameter, torch.nn.Parameter]]:
        pairs = zip(self.parameters, self.masters, strict=True)
        return ((parameter, master) for parameter, master in pairs if parameter is not master)

    def state_dict(self, keep: bool = True) -> dict[str, Any]:
        """Return moments and float32 copies.

        With shards, all processes call this, and whole tensors are gathered on the CPU; `keep=False` drops them.
        """
        masters = [master.detach() for _, master in self._float_copies()]
        state = {"adamw": self._adamw.state_dict(), "masters": masters}
        return shards.gather_whole(state, keep) if has_shards(self.parameters) else state

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the value of `state_dict`."""
        adamw = state["adamw"]
        if has_shards(self.parameters):
            adamw = shards.cut_moments(adamw, self._adamw)
        fused = [group["fused"] for group in self._adamw.param_groups]
        self._adamw.load_state_dict(adamw)
        # torch takes the options of the state over; the kernel is one of this process.
        for group, value in zip(self._adamw.param_groups, fused, strict=True):
            group["fused"] = value
        for (_, master), weights in zip(self._float_copies(), state["masters"], strict=True):
            master.copy_(cut_as(weights, master))


class LearnerState:
    """The part of `BaseLearner` that stores and restores its state."""

    algorithm: Algorithm
    critic: Critic | None = None
    """The critic, if there is one."""
    updates: int
    """Number of complete updates."""
    _optimizers: Mapping[str, OptimizerState]

    def reload_master_weights(self) -> None:
        """Continue from the policies' current weights, after something else has changed them."""
        for optimizer in self._optimizers.values():
            optimizer.reload()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of optimizers, critic and algorithm, and the number of updates.

        The policies keep their own state. With sharded weights all processes call this, and only the first gets
        the optimizers' tensors.
        """
        first = processes.rank() == 0
        optimizers = {name: opt.state_dict(keep=first) for name, opt in self._optimizers.items()}
        state: dict[str, Any] = {"updates": self.updates, "optimizers": optimizers}
        if self.critic:
            state["critic"] = self.critic.state_dict()
        if of_algorithm := self.algorithm.state_dict():
            state["algorithm"] = of_algorithm
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the value of `state_dict`; raise a `ValueError` if it is of other policies."""
        if set(state["optimizers"]) != set(self._optimizers):
            raise ValueError(
                f"the state is of the policies {sorted(state['optimizers'])}, "
                f"the team has {sorted(self._optimizers)}"
            )
        for name, optimizer in self._optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.updates = state["updates"]
        if self.critic:
            self.critic.load_state_dict(state["critic"])
        # Checkpoints of version 0.x have the state of `rae` under the key `running`.
        if of_algorithm := state.get("algorithm", state.get("running")):
            self.algorithm.load_state_dict(of_algorithm)
