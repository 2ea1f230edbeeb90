"""An episode in the terminal, played by policies alone or with a person."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.remote.endpoint import Endpoint
from llm_decpomdp.agents.scripted import Gold, RandomText, Scripted
from llm_decpomdp.algorithms.rollouts.sampling import distinct_policies, sample
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.overrides import parse_overrides
from llm_decpomdp.benchmarks.runs import kept_teams
from llm_decpomdp.benchmarks.runs.failures import as_run_errors
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Policy, Seedable
from llm_decpomdp.privileged import answers as answers_of
from llm_decpomdp.registry import make
from llm_decpomdp.rendering import print_turn
from llm_decpomdp.validation import unknown

END = "."
"""The line that ends a typed answer."""


@dataclass(frozen=True)
class Game:
    """The options of `play`."""

    env_id: str | None = None
    """The environment; `None` for that of the team's run."""
    agent: str | None = None
    """The agent whose answers are typed, or read from `files`; `None` for the last one."""
    partner: str = "gold"
    """Policy of the other agents: `gold`, `random`, or a model as `load_policy` takes it."""
    policy: str | None = None
    """Policy of all agents, as `partner`; nothing is typed then."""
    team: Path | None = None
    """The folder of a saved team or of a run: it plays all agents, or all but `agent`."""
    task_id: str | None = None
    """The problem; `None` draws one."""
    seed: int | None = None
    """Seed of the drawn problem and of what models sample."""
    env_options: Sequence[str] = ()
    """Arguments of the environment, such as `discount=0.9`."""
    num_turns: int | None = None
    num_agents: int | None = None
    source: str | None = None
    split: str | None = None
    external_mode: str | None = None
    """Arguments of the environment, too; `None` for its own."""
    files: Sequence[Path] = ()
    """Answers of the first turns; later ones are typed."""
    show_all: bool = False
    """True to show a person all observations and answers, and the tests, instead of its own observations."""
    base_url: str | None = None
    """The server of the model, where it is behind one."""
    key_variable: str | None = None
    """The environment variable that holds the server's key."""

    @property
    def watched(self) -> bool:
        """True if policies play all agents, and nothing is typed."""
        return self.policy is not None or (self.team is not None and self.agent is None)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the environment, without those that are left to their defaults.

        Raises:
            ConfigError: If one is not of the form `KEY=VALUE`.
        """
        names = ("num_turns", "num_agents", "source", "split", "external_mode")
        options = {name: getattr(self, name) for name in names}
        free = parse_overrides(
            self.env_options, wanted="an argument of the environment must look like KEY=VALUE"
        )
        return free | {name: value for name, value in options.items() if value is not None}


def play_episode(game: Game) -> None:
    """Play an episode in the terminal.

    Raises:
        ConfigError: If an argument is wrong, or two exclude each other.
        RunError: If the data or the model cannot be loaded.
    """
    _check(game)
    env, team = _team(game) if game.team is not None else _with_partner(game)
    typing = game.agent or env.possible_agents[-1]
    if typing not in env.possible_agents:
        raise ConfigError(unknown("agent", typing, env.possible_agents))
    if not game.watched:
        team = {agent: policy for agent, policy in team.items() if agent != typing}
    _seed(team, game.seed)
    try:
        options = None if game.task_id is None else {"task_id": game.task_id}
        observations, _ = env.reset(seed=game.seed, options=options)
    except (KeyError, ValueError) as error:
        raise ConfigError(str(error.args[0])) from None
    except OSError as error:
        raise RunError(f"cannot load the data of {env}: {error}") from error
    _check_references(env, [agent for agent in team if isinstance(team[agent], Gold)])
    typed = None if game.watched else (typing, _answers(typing, game.files))
    with as_run_errors():
        _play(env, observations, team, typed, None if game.show_all or game.watched else typing)


def _seed(team: Mapping[str, Policy], seed: int | None) -> None:
    """Seed each policy differently; without a seed they keep the state that they have."""
    for number, policy in enumerate(distinct_policies(team).values()):
        if seed is not None and isinstance(policy, Seedable):
            policy.seed(seed + number)


def _check(game: Game) -> None:
    if game.env_id is None and game.team is None:
        raise ConfigError("name an environment of `llm-decpomdp list`, or a run with --team")
    if game.policy is not None and game.team is not None:
        raise ConfigError("--policy and --team exclude each other: each plays all agents")
    if game.policy is not None and (game.agent is not None or game.files):
        raise ConfigError("--policy plays all agents: leave out --agent and --file")
    if game.team is not None and (game.base_url is not None or game.key_variable is not None):
        raise ConfigError("--team says itself where its models are: leave out --base-url")
    if game.watched and game.files:
        raise ConfigError("--team plays all agents: say with --agent which one your --file is of")


def _team(game: Game) -> tuple[DecPOMDPEnv, Mapping[str, Policy]]:
    """Load a saved team, and the environment that it was trained in, on its held-out problems."""
    from llm_decpomdp.benchmarks.cli.request import Request, setting_of
    from llm_decpomdp.benchmarks.evaluation import teams

    assert game.team is not None
    setting = setting_of(Request(team=game.team, env=game.env_id))
    overridden = replace(setting, env_options={**setting.env_options, **game.arguments})
    folder = kept_teams.locate(game.team, None, setting.config)
    print(f"loading {folder} ...", file=sys.stderr, flush=True)
    entry = teams.of_folder(game.team, None, overridden)
    return entry.env, entry.team


def _with_partner(game: Game) -> tuple[DecPOMDPEnv, Mapping[str, Policy]]:
    """Make an environment by its id, and the policy of all agents but a person."""
    assert game.env_id is not None
    try:
        env = make(game.env_id, **game.arguments)
    except (ValueError, TypeError, KeyError, ImportError) as error:
        raise ConfigError(str(error.args[0])) from None
    return env, dict.fromkeys(env.possible_agents, _policy(game))


def _policy(game: Game) -> Policy:
    name = game.policy or game.partner
    behind_server = game.base_url is not None or game.key_variable is not None
    if name in ("gold", "random"):
        if behind_server:
            raise ConfigError(f"{name} asks no server: leave out --base-url and --key-variable")
        return Gold() if name == "gold" else RandomText()
    try:
        if behind_server:
            return Endpoint(name, game.base_url, key_variable=game.key_variable or "OPENAI_API_KEY")
        from llm_decpomdp.agents.loading import load_policy

        print(f"loading {name} ...", file=sys.stderr, flush=True)
        return load_policy(name)
    except (OSError, ImportError, ValueError) as error:
        raise RunError(str(error)) from error


def _play(
    env: DecPOMDPEnv,
    observations: Mapping[str, str],
    team: Mapping[str, Policy],
    typed: tuple[str, Iterator[str]] | None,
    viewer: str | None,
) -> None:
    """Play to the end, and print what the viewer sees, or everything without one."""
    print_turn(env, viewer)
    total = 0.0
    while env.agents:
        actions = {
            agent: _written(env, agent, policy, observations[agent])
            for agent, policy in team.items()
        }
        if typed is not None:
            agent, answers = typed
            actions[agent] = next(answers)
        observations, rewards, *_ = env.step(actions)
        total += next(iter(rewards.values()))
        print_turn(env, viewer)
    print(f"episode over: total reward {total:.2f} in {len(env.episode.turns)} turns")
    if viewer is not None:
        print(f"You saw what {viewer} sees; --all shows the other agents, and the tests.")


def _written(env: DecPOMDPEnv, agent: str, policy: Policy, prompt: str) -> str:
    """Return an agent's answer, with a line on stderr while a model works on it."""
    quick, begin = isinstance(policy, Scripted), time.perf_counter()
    if not quick:
        print(f"{agent} is writing ...", end="", file=sys.stderr, flush=True)
    try:
        (completions,) = sample({agent: policy}, [env], [{agent: prompt}], 1)
    finally:  # an error has a line of its own
        if not quick:
            print(f" {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    return completions[agent][0].text


def _check_references(env: DecPOMDPEnv, agents: Sequence[str]) -> None:
    """Check that the data has answers for the agents that gold plays."""
    try:
        for agent in agents:
            answers_of(env).reference(agent)
    except LookupError as error:
        raise ConfigError(
            f"{error.args[0]}: take a model with --partner MODEL or --policy MODEL, or play alone with "
            "--num-agents 1"
        ) from None


def _answers(agent: str, files: Sequence[Path]) -> Iterator[str]:
    for path in files:
        try:
            yield path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read an answer from {path}: {error}") from None
    while True:
        print(f"Your answer as {agent}; end it with a line that is a single dot:")
        yield _typed()


def _typed() -> str:
    lines: list[str] = []
    for line in sys.stdin:
        if line.rstrip("\r\n") == END:
            return "".join(lines)
        lines.append(line)
    if not lines:
        raise RunError("the input ended before the episode did")
    return "".join(lines)
