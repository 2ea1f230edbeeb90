"""Baselines for a trained team, by name.

| name                   | what it is                                                                      |
|------------------------|---------------------------------------------------------------------------------|
| `single_agent`         | a single agent                                                                  |
| `single_agent_matched` | a single agent with the token limit of the whole team, messages included        |
| `self_consistency`     | the most frequent of a single agent's answers, as many as the team's tokens allow |
| `naive_concatenation`  | the team before training: all answer at once                                    |
| `sequential_pipeline`  | agents answer in the team's order and see earlier answers                       |
| `one_round_discussion` | all answer, read the other answers, and answer again; the second answers count  |
| `expert_edits`         | the team before training, whose answers an outside model edits between turns    |
| `gold`                 | the data's own answers: an upper bound                                          |
| `random`               | random characters: a lower bound                                                |
| `module:NAME`          | a function of your own, from the environment to a policy for each agent         |

The first seven use the model in the `model` section of a configuration, for each agent or shared as in
`model.shared`; they ignore `team` and `policies`, which declare trained teams. Sampling and limits are those of
the trained team. A baseline is an environment with other arguments, a team, and a way to act. Self-consistency is
that of Wang et al. 2022 (arXiv 2203.11171).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from llm_decpomdp.agents import Gold, PolicySpec, RandomText
from llm_decpomdp.algorithms import NAMES, Start
from llm_decpomdp.algorithms.rollouts.collection import Act
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import ConfigError, raise_config_errors
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.evaluation.play import act_simultaneously
from llm_decpomdp.benchmarks.runs.setup import load_policies, team_spec
from llm_decpomdp.branching import message_turns
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.plugins import find, is_entry_point
from llm_decpomdp.policy import Policy, Team
from llm_decpomdp.registry import accepts_argument, make_family

MATCHED = "single_agent_matched"


@dataclass(frozen=True)
class EvalConfig:
    """The environment of an evaluation, and the configuration that its policies come from."""

    config: Config
    env_id: str
    env_options: Mapping[str, Any]
    """Arguments of the environment, the split among them."""
    allow_endpoints: Sequence[str] = ()
    """Servers that saved teams may use, as in `load_saved_team`."""

    @classmethod
    def from_config(cls, config: Config) -> EvalConfig:
        """Use a configuration's own environment, on its evaluation split."""
        with raise_config_errors():
            env = config.make_eval_env()
        return cls(config, env.spec_id, env.spec_kwargs)

    @cached_property
    def env(self) -> DecPOMDPEnv:
        """The environment, built once; raises the same errors as `make_env`."""
        return self.make_env()

    def make_env(self, **changes: Any) -> DecPOMDPEnv:
        """Build the environment with changed arguments; raise a `ConfigError` if one is not valid."""
        with raise_config_errors():
            return make_family(self.env_id, **{**self.env_options, **changes})

    def starts(self, count: int | None = None) -> list[Start]:
        """Return a start for each problem, or for the first ones."""
        return [Start(task_id=task.task_id) for task in self.env.tasks.tasks[:count]]


@dataclass(frozen=True)
class TeamUnderTest:
    """An entry of an evaluation: an environment, a team and its way to act."""

    env: DecPOMDPEnv
    team: Team
    act: Act = act_simultaneously
    about: Mapping[str, Any] = field(default_factory=dict)
    """Its identity in manifests, which differs between different teams."""


@dataclass(frozen=True)
class Baseline:
    """A baseline before any model is loaded."""

    env: DecPOMDPEnv
    config: Config | None = None
    """The configuration whose `model` all agents use; `None` without a model."""
    team: Team = field(default_factory=dict)
    act: Act = act_simultaneously
    name: str = ""

    @property
    def limits(self) -> dict[str, int]:
        """Token limit of an answer, by agent."""
        if self.config is None:
            return {}
        return dict.fromkeys(self.env.possible_agents, self.config.model.max_new_tokens)

    @property
    def specs(self) -> list[PolicySpec]:
        """Declarations of the policies with a model, one for agents that share weights."""
        if self.config is None:
            return []
        return list(team_spec(self.config, self.env.possible_agents).policies.values())

    def load(self) -> TeamUnderTest:
        """Load the team of the baseline; raises the errors of `load_policies`."""
        about: dict[str, Any] = {"baseline": self.name}
        if self.config is None:
            return TeamUnderTest(self.env, self.team, self.act, about)
        about["model"] = asdict(self.config.model)
        return TeamUnderTest(self.env, load_policies(self.config, [self.env]), self.act, about)


def find_baseline(name: str, setting: EvalConfig) -> Baseline:
    """Return a baseline by name, with its environment.

    Raises:
        ConfigError: If the name is unknown, or the baseline does not fit the environment.
    """
    if name not in BASELINES:
        return replace(_own(name, setting), name=name)
    if name in OF_TEAMS and setting.env_options.get("centralized"):
        raise ConfigError(
            f"{name} needs a team, and a centralised environment has one agent: drop env.centralized"
        )
    if name in OF_TEAMS and len(setting.env.possible_agents) < 2:
        raise ConfigError(f"{name} needs a team, and there is one agent: set env.num_agents")
    return replace(BASELINES[name](setting), name=name)


OTHER_METHODS = ("untrained", "train", *NAMES)
"""Methods of suites that are never baselines, even if a package has an entry point of that name."""


def find_baseline_name(about: Mapping[str, Any]) -> str | None:
    """Read the baseline of a manifest, of an evaluation or of a suite's job."""
    name = about.get("baseline", about.get("method"))
    return name if "baseline" in about or is_baseline(name) else None


def is_baseline(name: object) -> bool:
    """Check whether a name is a baseline of this or of an installed package; a path is not."""
    if not isinstance(name, str) or name in OTHER_METHODS:
        return False
    return name in BASELINES or is_entry_point("baseline", name)


def _own(name: str, setting: EvalConfig) -> Baseline:
    """Build a baseline by a function of the user or of an installed package."""
    try:
        build = find("baseline", name, BASELINES)
    except (KeyError, ImportError) as error:
        raise ConfigError(error.args[0]) from None
    agents, team = setting.env.possible_agents, build(setting.env)
    fits = isinstance(team, Mapping) and set(team) == set(agents)
    if not fits or not all(isinstance(policy, Policy) for policy in team.values()):
        raise ConfigError(
            f"baseline {name!r} must return a policy for each of {agents}, got {team!r:.200}"
        )
    return Baseline(setting.env, team={agent: team[agent] for agent in agents})


def _single_agent_matched(setting: EvalConfig) -> Baseline:
    team = team_spec(setting.config, setting.env.possible_agents)
    # With a channel each agent also writes a message in each turn.
    texts = 1 if message_turns(setting.env) is None else 2
    limit = texts * sum(team.policies[name].max_new_tokens for name in team.agents.values())
    model = replace(setting.config.model, max_new_tokens=limit)
    return _model_baseline(replace(setting.config, model=model), _single_agent_env(setting))


def _self_consistency(setting: EvalConfig) -> Baseline:
    if not accepts_argument(setting.env_id, "votes"):
        raise ConfigError(
            f"self_consistency needs an environment whose answers can be compared, such as verified-v0, and "
            f"{setting.env_id} has no argument votes"
        )
    agents = setting.env.possible_agents
    team = team_spec(setting.config, agents)
    limits = [team.policies[team.agents[agent]].max_new_tokens for agent in agents]
    # One agent answers in each turn, and all answer equally often.
    tokens = sum(limits) * setting.env.num_turns // len(agents)
    votes = max(1, tokens // setting.config.model.max_new_tokens)
    env = setting.make_env(num_agents=1, votes=votes)
    return _model_baseline(setting.config, env)


def _single_agent_env(setting: EvalConfig) -> DecPOMDPEnv:
    """Build the environment for one agent, without tags and without a channel."""
    try:
        return setting.make_env(num_agents=1, centralized=False, channel={}, order="simultaneous")
    except ConfigError as error:
        raise ConfigError(
            f"the baseline plays {setting.env_id} with num_agents=1, which fails ({error}): take a baseline of a "
            "team, such as one_round_discussion"
        ) from None


def _ordered_team(setting: EvalConfig, order: Sequence[str | Sequence[str]]) -> Baseline:
    # Team-mates read each other's answers instead of messages.
    return _model_baseline(setting.config, setting.make_env(order=order, channel={}))


def _expert_edits(setting: EvalConfig) -> Baseline:
    # Agents see the edits of the first turn in the second one.
    turns = max(2, setting.env.num_turns)
    env = setting.make_env(external_mode="expert_edits", num_turns=turns)
    return _model_baseline(setting.config, env)


def gold(setting: EvalConfig) -> Baseline:
    """Build the baseline of the data's own answers."""
    agents = setting.env.possible_agents
    teams.check_references(dict.fromkeys(agents, PolicySpec("gold")), [setting.env])
    return Baseline(setting.env, team=dict.fromkeys(agents, Gold()))


def _model_baseline(config: Config, env: DecPOMDPEnv, **changes: Any) -> Baseline:
    # The declared team may be a trained one, so baselines use the plain model.
    return Baseline(env, replace(config, team={}, policies={}), **changes)


BASELINES: Mapping[str, Callable[[EvalConfig], Baseline]] = {
    "single_agent": lambda setting: _model_baseline(setting.config, _single_agent_env(setting)),
    MATCHED: _single_agent_matched,
    "self_consistency": _self_consistency,
    "naive_concatenation": lambda setting: _model_baseline(setting.config, setting.env),
    "sequential_pipeline": lambda setting: _ordered_team(setting, setting.env.possible_agents),
    # A draft of each agent, and then an answer to all drafts.
    "one_round_discussion": lambda setting: _ordered_team(
        setting, 2 * [setting.env.possible_agents]
    ),
    "expert_edits": _expert_edits,
    "gold": gold,
    "random": lambda setting: Baseline(
        setting.env, team={agent: RandomText() for agent in setting.env.possible_agents}
    ),
}

TALKING = ("sequential_pipeline", "one_round_discussion")
"""Baselines that add team-mates' answers to the prompts of the environment."""

OF_TEAMS = (MATCHED, "self_consistency", "naive_concatenation", *TALKING)
