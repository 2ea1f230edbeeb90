"""The work of one update, read off a resolved run: models in memory, and what each samples and learns.

Letters: S starts of the largest update, G completions of a group, T turns, L longest completion, p prompt tokens.
All are upper bounds: episodes that last to their horizon, completions as long as their limit (or the share of it
that `Assumptions.length` says).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_decpomdp.agents.inference.packed_log_probs import ROW_TOKENS
from llm_decpomdp.agents.specs import PolicySpec
from llm_decpomdp.agents.team import saved_adapter
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.rollouts.cost import RunCost, joint_samples, run_cost
from llm_decpomdp.algorithms.rollouts.environment import begin
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.planning.assumptions import Assumptions
from llm_decpomdp.benchmarks.planning.shape_table import shape_of
from llm_decpomdp.benchmarks.planning.shapes import Shape
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun
from llm_decpomdp.registry import takes

READ = 32
"""Problems whose first prompts are read for their length."""


@dataclass(frozen=True)
class Turn:
    """Counts of one start on one turn, of each agent."""

    groups: int
    completions: int
    """In all groups of the turn."""


@dataclass(frozen=True)
class Player:
    """An agent that a model plays."""

    agent: str
    length: float
    """Tokens of a completion (L)."""
    prompt: float
    """Tokens of its first prompt (p)."""

    def prompt_on(self, turn: int) -> float:
        """Tokens of its prompt on a turn, from 0: later ones repeat its last completion."""
        return self.prompt + (self.length if turn else 0)


@dataclass(frozen=True)
class Model:
    """Weights that are in memory once, and the agents that they play."""

    name: str
    policies: tuple[str, ...]
    shape: Shape
    players: tuple[Player, ...]
    trained: bool
    adapters: int = 0
    """Weights of all adapters on it; 0 trains all weights, or none."""
    checkpointing: bool = False
    dtype: str = "bfloat16"
    reference: bool = False
    """True if a second pass gives the reference's log-probabilities, or features for a critic."""
    sample_on: tuple[int, ...] = ()
    """GPUs of its server, where the configuration declares them."""
    device: str = "auto"
    """Where it learns."""

    @property
    def full(self) -> bool:
        """True if all weights are trained."""
        return self.trained and not self.adapters

    @property
    def trainable(self) -> int:
        """Number of weights that are trained."""
        return (self.adapters or self.shape.parameters) if self.trained else 0

    @property
    def element(self) -> int:
        """Bytes of a number in the format of computing."""
        return 4 if self.dtype == "float32" else 2

    @property
    def bytes_in_shards(self) -> int:
        """Bytes of all its weights as `learner.shards` cuts them: float32, and frozen ones in their format."""
        size = self.shape.parameters
        return 4 * size if self.full else self.element * size + 4 * self.adapters

    @property
    def length(self) -> float:
        """Tokens of the longest completion."""
        return max(player.length for player in self.players)

    def context(self, turns: int) -> float:
        """Tokens of the longest prompt with its completion."""
        return max(player.prompt_on(turns - 1) + player.length for player in self.players)


@dataclass(frozen=True)
class Work:
    """Counts of an update."""

    cost: RunCost
    """Completions and steps of the environment, by `run_cost`."""
    starts: int
    """S, in one round of rollouts."""
    rounds: int
    """Rounds of rollouts, one after the other: 1 + refill."""
    updates: int
    group_size: int
    turns: tuple[Turn, ...]
    models: tuple[Model, ...]
    steps: int = 1
    """Gradient steps with one batch of rollouts."""
    runs_programs: bool = True
    shards: int = 1
    """Devices that hold a part of each model that learns (`learner.shards`)."""
    cut_by: str | None = ""
    """What the run needs to be cut into shards, beside their number; `None` where it refuses them."""

    @property
    def programs(self) -> int:
        """Programs of an update: joint samples; equal ones run once, so these are the most."""
        return self.cost.update.joint_samples if self.runs_programs else 0

    @property
    def tokens(self) -> float:
        """Sampled tokens of an update: of each agent, its completions times L."""
        return sum(self.sampled(model) for model in self.models)

    def sampled(self, model: Model) -> float:
        """Tokens that a model samples in an update."""
        return self.cost.update.completions * sum(player.length for player in model.players)

    def rows(self, model: Model, turn: Turn) -> int:
        """Completions that a model samples at the same time for one start."""
        return turn.completions * len(model.players)

    def prompts(self, model: Model) -> float:
        """Prompt tokens that a model reads in an update: each prompt once for its group."""
        of_start = sum(
            turn.groups * player.prompt_on(at)
            for at, turn in enumerate(self.turns)
            for player in model.players
        )
        return of_start * self.starts * self.rounds

    def row(self, model: Model) -> float:
        """Tokens of the longest packed row: a prompt and its completions, as far as `ROW_TOKENS` goes."""
        prompt = max(player.prompt_on(len(self.turns) - 1) for player in model.players)
        size = max(turn.completions // turn.groups for turn in self.turns)
        return max(min(prompt + size * model.length, ROW_TOKENS), prompt + model.length)

    def learned(self, model: Model) -> float:
        """Tokens of prompts and completions that a model learns from: of S starts, as refill replaces some."""
        return (self.sampled(model) + self.prompts(model)) / self.rounds

    def passes(self, model: Model) -> int:
        """Forward and backward passes over packed groups in one start's share of an update."""
        return sum(turn.groups for turn in self.turns) * len(model.players)


def work_of(
    run: ResolvedRun,
    assumptions: Assumptions,
    *,
    dtype: str = "bfloat16",
    prompt: float | None = None,
    parameters: float | None = None,
) -> Work:
    """Read the work of an update off a run; no model is loaded.

    Args:
        run: The run.
        assumptions: Length of completions and of tokens.
        dtype: Format where `compute_dtype` is `auto`.
        prompt: Tokens of a first prompt; `None` counts the characters of some.
        parameters: As of `shape_of`.

    Raises:
        ConfigError: If nothing is sampled, the environment does not tell its horizon, or the size of a model isn't
            known.
    """
    algorithm = run.config.algorithm
    if run.pairs:
        raise ConfigError(
            "with algorithm.pairs_source nothing is sampled, and a plan covers runs that sample"
        )
    costs = run_cost(
        *(run.train_env, run.eval_env, run.trainer, algorithm.num_generations, run.batches),
        len(run.eval_starts) * run.trainer.evaluations(len(run.batches)),
    )
    if costs is None:
        raise ConfigError(
            f"{run.config.env.id} does not tell its horizon (num_turns), so that nothing can be planned"
        )
    return Work(
        cost=costs,
        starts=max(map(len, run.batches)),
        rounds=1 + algorithm.refill,
        updates=len(run.batches),
        group_size=algorithm.num_generations,
        turns=tuple(_turns(run)),
        models=tuple(
            _models(run, _prompts(run, assumptions, prompt), assumptions.length, dtype, parameters)
        ),
        steps=algorithm.updates_per_batch,
        shards=run.config.learner.shards,
        runs_programs=takes(run.config.env.id, "isolation"),
    )


def _turns(run: ResolvedRun) -> Iterator[Turn]:
    """Yield what a start has on each turn, as `algorithms.rollouts.cost.cost` adds it up."""
    algorithm, size = run.config.algorithm, run.config.algorithm.num_generations
    joint = joint_samples(algorithm, size, len(run.train_env.possible_agents))
    for turn in range(run.train_env.num_turns):
        if algorithm.plan == "episodes":
            yield Turn(size if turn else 1, size)
        else:
            groups = joint**turn if algorithm.plan == "tree" else 1
            yield Turn(groups, groups * size)


def _prompts(
    run: ResolvedRun, assumptions: Assumptions, tokens: float | None
) -> Mapping[str, float]:
    """Return the mean number of tokens of each agent's first prompts."""
    agents = run.train_env.possible_agents
    if tokens is not None:
        return dict.fromkeys(agents, tokens)
    starts = run.problems[:READ]
    texts = [begin(run.train_env, start)[1] for start in starts]
    return {
        agent: sum(len(text[agent]) for text in texts) / len(texts) / assumptions.characters
        for agent in agents
    }


def _models(
    run: ResolvedRun,
    prompts: Mapping[str, float],
    length: float,
    dtype: str,
    parameters: float | None,
) -> Iterator[Model]:
    """Yield the models of a run: adapters on one base share it."""
    declared = ALGORITHMS[run.config.algorithm.name]
    reference = declared.needs_reference(run.learner)
    for policies in _in_memory(run.team.policies):
        spec = run.team.policies[policies[0]]
        shape = shape_of(str(spec.name), parameters)
        adapters = [adapter for name in policies if (adapter := _lora(run.team.policies[name]))]
        yield Model(
            name=str(spec.name),
            policies=tuple(policies),
            shape=shape,
            players=tuple(
                Player(agent, spec_of.max_new_tokens * length, prompts[agent])
                for agent, policy in run.team.agents.items()
                if policy in policies
                for spec_of in [run.team.policies[policy]]
            ),
            trained=any(run.team.policies[name].can_be_trained for name in policies),
            adapters=sum(map(shape.adapter, adapters)),
            checkpointing=spec.gradient_checkpointing,
            dtype=dtype if spec.compute_dtype == "auto" else spec.compute_dtype,
            reference=reference,
            sample_on=tuple(spec.sample_on or ()) if run.config.sampler.served else (),
            device=spec.device,
        )


def _in_memory(specs: Mapping[str, PolicySpec]) -> list[Sequence[str]]:
    """Group the policies with a model by the weights that they have in memory together."""
    groups: dict[Any, list[str]] = {}
    for name, spec in specs.items():
        if spec.kind == "model":
            key = (spec.name, spec.compute_dtype, spec.device) if spec.lora else name
            groups.setdefault(key, []).append(name)
    return list(groups.values())


def _lora(spec: PolicySpec) -> Mapping[str, Any] | None:
    return spec.lora or saved_adapter(str(spec.name))
