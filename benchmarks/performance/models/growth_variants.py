"""An update of any number of agents and turns, for cost curves; it runs in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_decpomdp.agents.inference.sampling import Sampling
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.performance.models.update_variants import build_team, timed_update


class Talk:
    """Agents that are asked something on every turn; nothing that they say matters."""

    def __init__(self, agents: int, turns: int, prompt_words: int) -> None:
        self.possible_agents = [f"agent_{number}" for number in range(agents)]
        self.agents: list[str] = []
        self.turns = turns
        self.prompt = " ".join(["word"] * prompt_words)
        self.turn = 0

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        self.agents, self.turn = [*self.possible_agents], 0
        return self._prompts(), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, str]
    ) -> tuple[
        Mapping[str, str],
        Mapping[str, float],
        Mapping[str, bool],
        Mapping[str, bool],
        Mapping[str, Any],
    ]:
        self.turn += 1
        over = self.turn == self.turns
        acted, prompts = self.agents, self._prompts()
        if over:
            self.agents = []
        ends = dict.fromkeys(acted, over)
        rewards, infos = dict.fromkeys(acted, 0.0), {agent: {} for agent in acted}  # type: ignore[var-annotated]
        return prompts, rewards, ends, dict.fromkeys(acted, False), infos

    def _prompts(self) -> dict[str, str]:
        return {agent: f"{agent}, turn {self.turn}: {self.prompt}" for agent in self.agents}


def update(
    model: str,
    agents: int,
    turns: int,
    group_size: int,
    new_tokens: int,
    prompt_words: int,
    weights: str,
    dtype: str,
    device: str,
) -> dict[str, Any]:
    """The second of two updates of MAGRPO."""
    env = Talk(agents, turns, prompt_words)
    sampling = Sampling(max_new_tokens=new_tokens)
    team = build_team(model, env.possible_agents, sampling, dtype, device, weights)
    return timed_update(env, team, [Start(seed=0), Start(seed=1)], group_size)
