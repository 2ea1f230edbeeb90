"""The partner pool of a configuration: who is played by partners, what they are, and what they cost."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.filesize import decimal

from llm_decpomdp.agents import PolicySpec, load_team
from llm_decpomdp.agents.loading import TeamSpec, freeze
from llm_decpomdp.agents.partner_pool import PartnerPool
from llm_decpomdp.agents.policy_kinds import POOL, bases
from llm_decpomdp.agents.saved_team import MANIFEST, check_trust, declaration, identify_team
from llm_decpomdp.algorithms.training import checkpoint as checkpoints
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import read_config
from llm_decpomdp.benchmarks.config.teams import code_of, endpoints_of
from llm_decpomdp.benchmarks.runs.setup import team_spec
from llm_decpomdp.policy import Policy, Team
from llm_decpomdp.validation import unknown

if TYPE_CHECKING:
    from llm_decpomdp.agents import CausalLM
    from llm_decpomdp.benchmarks.config.schema import Config

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Partner:
    """A team of the pool before it is loaded."""

    path: Path
    agents: Mapping[str, str]
    policies: Mapping[str, PolicySpec]

    @property
    def is_checkpoint(self) -> bool:
        """True if its weights are in a checkpoint, and not in folders of their own."""
        return not (self.path / MANIFEST).is_file()


@dataclass(frozen=True)
class PooledTeam(TeamSpec):
    """A team in which a pool of trained teams plays some agents."""

    config: Config

    pooled: Sequence[str]
    """The agents that partners play."""

    def check(self) -> None:
        """Raise the errors of `read_partners`."""
        self.read_partners()

    def read_partners(self) -> list[Partner]:
        """Read the declarations of the pool; no model is loaded.

        Raises:
            ConfigError: If a folder has no team, or not the agents that partners play.
            ValueError: If a saved team names code or servers that the configuration does not name.
        """
        learner = next((spec for spec in self.policies.values() if spec.kind == "model"), None)
        agents, paths = list(self.agents), map(Path, self.config.partners.pool)
        partners = [_read_partner(self.config, path, agents, learner) for path in paths]
        for partner in partners:
            for agent in self.pooled:
                name = partner.agents.get(agent)
                if name is None or partner.policies[name].kind == POOL:
                    raise ConfigError(
                        f"partners.pool: {partner.path} has no policy of its own for {agent!r}; it has "
                        f"{', '.join(partner.agents)}"
                    )
        return partners

    def load(self, seed: int, hollow: bool = False) -> dict[str, Policy]:
        """Load the team and its partners by one call, so that adapters on one base share it."""
        partners = self.read_partners()
        agents, policies = self._join(partners)
        logger.info("%s", *self.describe_cost())
        players = load_team(agents, policies, seed=seed)
        for number, partner in enumerate(partners):
            members: Team = {agent: players[f"{number}/{agent}"] for agent in self.pooled}
            if partner.is_checkpoint:
                _restore(members, partner)
            for agent in self.pooled:
                if policies[agents[f"{number}/{agent}"]].kind == "model":
                    freeze(cast("CausalLM", members[agent]))
        pools = {
            agent: PartnerPool(
                [players[f"{number}/{agent}"] for number in range(len(partners))],
                self.config.partners.resample,
            )
            for agent in self.pooled
        }
        return {agent: pools.get(agent) or players[agent] for agent in self.agents}

    def _join(self, partners: Sequence[Partner]) -> tuple[dict[str, str], dict[str, PolicySpec]]:
        """Return the arguments of `load_team` for all that learn and all partners, as `0/aux_0`, `1/aux_0`."""
        agents = {agent: name for agent, name in self.agents.items() if agent not in self.pooled}
        policies = {name: self.policies[name] for name in agents.values()}
        for number, partner in enumerate(partners):
            for agent in self.pooled:
                name = partner.agents[agent]
                agents[f"{number}/{agent}"] = f"{number}_{name}"
                policies[f"{number}_{name}"] = partner.policies[name]
        return agents, policies

    def describe_cost(self) -> list[str]:
        """Say how many partners a pool has, and what they take in memory beside the team."""
        partners = self.read_partners()
        agents, policies = self._join(partners)
        learners = {name for agent, name in agents.items() if agent in self.agents}
        groups = bases(policies)
        models = [group for group in groups if not learners & {*group}]
        adapters = [
            name
            for group in groups
            if group not in models
            for name in group
            if name not in learners
        ]
        folders = [
            Path(str(policies[name].name)) for name in (*adapters, *chain.from_iterable(models))
        ]
        size = sum(
            file.stat().st_size for folder in folders for file in folder.glob("*.safetensors")
        )
        text = (
            f"partners.pool: {len(partners)} partners play {', '.join(self.pooled)}: {len(adapters)} adapters on "
            f"the base of the team, {len(models)} further models"
        )
        return [text + (f", {decimal(size)} of files" if size else "")]

    def identify(self) -> dict[str, Any]:
        """Identify the teams of the pool."""
        return {"partners": [dict(identify_team(p.path)) for p in self.read_partners()]}


def declare_pool(config: Config, team: TeamSpec) -> PooledTeam:
    """Return the team with a pool for the agents that partners play; no folder of the pool is read."""
    agents = team.agents
    pooled = _pooled_agents(config, list(agents))
    for key in ("pool", "agents"):
        values = getattr(config.partners, key)
        if len(set(values)) < len(values):
            raise ConfigError(f"partners.{key} names one of these twice: {', '.join(values)}")
    reasons = {
        "inference.engine=vllm": config.inference.engine == "vllm",
        f"learner.fsdp_size={config.learner.fsdp_size}": config.learner.fsdp_size > 1,
        "algorithm.preferences.source": config.algorithm.pairs_source is not None,
    }
    for key in (key for key, present in reasons.items() if present):
        raise ConfigError(
            f"partners.pool is not supported with {key}: partners are sampled with whole models in the "
            "process of the rollouts; drop one of them"
        )
    names = {agents[agent] for agent in pooled}
    for agent, name in agents.items():
        if name in names and agent not in pooled:
            raise ConfigError(
                f"partners.agents: {agent} shares the policy {name!r} with an agent that partners play; name "
                "all agents of a policy, or give them policies of their own"
            )
    for name in names:
        if config.policies.get(name):
            raise ConfigError(
                f"policies.{name} means nothing beside partners.pool, whose partners answer as they were "
                f"saved: drop it, or set policies.{name}=null"
            )
    declared = {n: PolicySpec(POOL) if n in names else s for n, s in team.policies.items()}
    return PooledTeam(agents, declared, config, pooled)


def _pooled_agents(config: Config, possible_agents: Sequence[str]) -> list[str]:
    options = config.partners
    agents = options.agents or list(possible_agents[:-1])
    for agent in agents:
        if agent not in possible_agents:
            raise ConfigError(unknown("agent in partners.agents", agent, possible_agents))
    if not agents or len(agents) == len(possible_agents):
        raise ConfigError(
            f"partners.pool plays {', '.join(agents) or 'nobody'} of {', '.join(possible_agents)}: let "
            "partners.agents name some of the agents, and leave at least one that learns"
        )
    return agents


def _locate_partner(path: Path) -> Path:
    """Return the folder of a team: of a run its final team, or else its newest checkpoint."""
    if (path / MANIFEST).is_file():
        return path
    if checkpoints.NAME.fullmatch(path.name) and (path.parents[1] / "config.yaml").is_file():
        return path
    if not (path / "config.yaml").is_file():
        raise ConfigError(
            f"partners.pool: {path} is no run (config.yaml), no saved team ({MANIFEST}) and no checkpoint of a run"
        )
    output = read_config(path / "config.yaml").output
    final = Path(output.save_path or path / "final_model")
    folder = final if (final / MANIFEST).is_file() else checkpoints.latest(path / "checkpoints")
    if folder is None:
        raise ConfigError(
            f"partners.pool: {path} has kept no team; train it with output.save_final_model=true"
        )
    return folder


def _read_partner(
    config: Config, path: Path, agents: Sequence[str], learner: PolicySpec | None
) -> Partner:
    folder = _locate_partner(path)
    if (folder / MANIFEST).is_file():
        try:
            names, policies = declaration(folder, device=config.model.device)
        except (OSError, ValueError) as error:
            raise ConfigError(f"partners.pool: {error}") from None
        check_trust(folder, policies, code_of(config), endpoints_of(config))
    else:
        spec = team_spec(read_config(folder.parents[1] / "config.yaml"), agents)
        names, policies = dict(spec.agents), dict(spec.policies)
    if learner is not None:
        policies = {name: _compute_like(spec, learner) for name, spec in policies.items()}
    return Partner(folder, names, policies)


def _compute_like(spec: PolicySpec, learner: PolicySpec) -> PolicySpec:
    """Return the declaration of a partner on the learner's device, so that adapters on one base can share it."""
    if spec.kind != "model":
        return spec
    from llm_decpomdp.agents.models.weights import same_compute_dtype

    # A saved team names the format that `auto` stood for.
    equal = same_compute_dtype(spec.compute_dtype, learner.compute_dtype, learner.device)
    return replace(
        spec,
        device=learner.device,
        compute_dtype=learner.compute_dtype if equal else spec.compute_dtype,
        attn_implementation=learner.attn_implementation,
        gradient_checkpointing=learner.gradient_checkpointing,
        fused_kernels=learner.fused_kernels,
        compile=learner.compile,
    )


def _restore(members: Team, partner: Partner) -> None:
    _, state = checkpoints.load(partner.path)
    for agent, policy in members.items():
        sharing = [mate for mate in partner.agents if partner.agents[mate] == partner.agents[agent]]
        # Checkpoints name a policy as `distinct_policies` does, by all of its agents.
        learner = state["policies"].get("+".join(sharing))
        if learner is None:  # one that did not learn in that run
            continue
        model = cast("CausalLM", policy)
        present = model.state_dict()
        # Adapters have other names here than in that run; all else in the names of weights is equal.
        by_name = {_plain_name(name): weight for name, weight in learner["weights"].items()}
        names = [name for name in present["weights"] if _plain_name(name) in by_name]
        weights = {name: by_name[_plain_name(name)] for name in names}
        model.load_state_dict({**present, "weights": weights})


def _plain_name(weight: str) -> str:
    """Return the name of a weight without that of an adapter."""
    parts = weight.split(".")
    return ".".join(part for part in parts if part != "default" and not part.startswith("policy_"))
