"""An episode in the terminal, played by policies alone or with a person."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from llm_decpomdp.agents import Endpoint, Gold, RandomText
from llm_decpomdp.agents.scripted import Scripted
from llm_decpomdp.algorithms.rollouts.collection import sample_groups
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError, raise_run_errors
from llm_decpomdp.benchmarks.evaluation import teams
from llm_decpomdp.benchmarks.evaluation.request import EvalRequest, resolve_request
from llm_decpomdp.benchmarks.runs import checkpoints as kept_teams
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.oracle import answers as answers_of
from llm_decpomdp.policy import (
    Completion,
    Dialogue,
    DialogueTurn,
    Policy,
    Seedable,
    Team,
    distinct_policies,
    turns_after,
)
from llm_decpomdp.rendering import print_turn
from llm_decpomdp.validation import unknown

SCRIPTED = ("gold", "random")

END = "."


def load_run_team(
    folder: Path,
    env_id: str | None,
    arguments: Mapping[str, Any],
    allow_endpoints: Sequence[str] = (),
    person: str | None = None,
) -> tuple[DecPOMDPEnv, Team]:
    """Load a saved team, and the environment that it was trained in, on its held-out problems."""
    setting = resolve_request(EvalRequest(team=folder, env=env_id, allow_endpoints=allow_endpoints))
    overridden = replace(setting, env_options={**setting.env_options, **arguments})
    path = kept_teams.locate(folder, None, setting.config)
    require_agent(overridden.env, person)
    print(f"loading {path} ...", file=sys.stderr, flush=True)
    with raise_run_errors():
        entry = teams.load_stored_team(path, overridden)
    return entry.env, entry.team


def require_agent(env: DecPOMDPEnv, person: str | None) -> None:
    """Raise a `ConfigError` if the environment lacks the agent of a person."""
    if person is not None and person not in env.possible_agents:
        raise ConfigError(unknown("agent", person, env.possible_agents))


def make_policy(name: str, base_url: str | None, key_variable: str | None) -> Policy:
    """Make a policy by its name: `gold`, `random`, or a model as `load_policy` takes it."""
    behind_server = base_url is not None or key_variable is not None
    if name in SCRIPTED:
        if behind_server:
            raise ConfigError(f"{name} asks no server: leave out --base-url and --key-variable")
        return Gold() if name == "gold" else RandomText()
    if (
        not behind_server
        and not Path(name).exists()
        # A misspelled `gold` would otherwise be looked up on the hub.
        and get_close_matches(name, SCRIPTED, cutoff=0.75)
    ):
        raise ConfigError(f"{unknown('policy', name, SCRIPTED)}, or the name of a model")
    try:
        if behind_server:
            return Endpoint(name, base_url, key_variable=key_variable or "OPENAI_API_KEY")
        from llm_decpomdp.agents import load_policy

        print(f"loading {name} ...", file=sys.stderr, flush=True)
        return load_policy(name)
    except (OSError, ImportError, ValueError) as error:
        raise RunError(str(error)) from error


def play_episode(
    env: DecPOMDPEnv,
    team: Team,
    person: str | None,
    texts: Sequence[str] = (),
    *,
    task_id: str | None = None,
    seed: int | None = None,
    show_all: bool = False,
) -> None:
    """Play an episode in the terminal; `texts` are the person's first answers."""
    require_agent(env, person)
    team = {agent: policy for agent, policy in team.items() if agent != person}
    _seed(team, seed)
    # The task is drawn before references are checked, since they depend on it.
    observations = _reset(env, task_id, seed)
    _check_references(env, [agent for agent in team if isinstance(team[agent], Gold)])
    viewer = None if show_all else person
    typed = {} if person is None else {person: _answers(person, texts)}
    total = 0.0
    histories: dict[str, tuple[DialogueTurn, ...]] = {}
    with raise_run_errors():
        print_turn(env, viewer)
        while env.agents:
            judged = len(env.episode.turns)
            actions = {}
            for agent in [agent for agent in team if agent in env.acting]:
                prompt = Dialogue(observations[agent], histories.get(agent, ()))
                answer = _ask_policy(env, agent, team[agent], prompt)
                histories[agent], actions[agent] = turns_after(prompt, answer), answer.text
            actions |= {a: next(answers) for a, answers in typed.items() if a in env.acting}
            observations, rewards, *_ = env.step(actions)
            # All agents receive the reward of the team.
            total += next(iter(rewards.values()))
            print_turn(env, viewer, judged=len(env.episode.turns) > judged)
    turns = len(env.episode.turns)
    print(f"episode over: total reward {total:.2f} in {turns} turn{'s' * (turns != 1)}")
    if viewer is not None:
        print(f"You saw what {viewer} sees; --all shows the other agents, and the tests.")


def _seed(team: Team, seed: int | None) -> None:
    """Seed each policy differently; without a seed they keep the state that they have."""
    for number, policy in enumerate(distinct_policies(team).values()):
        if seed is not None and isinstance(policy, Seedable):
            # With one seed for all, two copies of a model would draw the same tokens.
            policy.seed(seed + number)


def _reset(env: DecPOMDPEnv, task_id: str | None, seed: int | None) -> Mapping[str, str]:
    options = None if task_id is None else {"task_id": task_id}
    try:
        return env.reset(seed=seed, options=options)[0]
    except (KeyError, ValueError) as error:
        raise ConfigError(str(error.args[0])) from None
    except OSError as error:
        raise RunError(f"cannot load the data of {env}: {error}") from error


def _ask_policy(env: DecPOMDPEnv, agent: str, policy: Policy, prompt: str) -> Completion:
    quick, begin = isinstance(policy, Scripted), time.perf_counter()
    if not quick:
        print(f"{agent} is writing ...", end="", file=sys.stderr, flush=True)
    try:
        (completions,) = sample_groups({agent: policy}, [env], [{agent: prompt}], 1)
    finally:  # an error has a line of its own
        if not quick:
            print(f" {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    return completions[agent][0]


def _check_references(env: DecPOMDPEnv, agents: Sequence[str]) -> None:
    answers = answers_of(env)
    try:
        for agent in agents:
            answers.reference(agent)
    except LookupError as error:
        raise ConfigError(
            f"{error.args[0]}: take a model with --partner MODEL or --policy MODEL, or play alone with "
            "--num-agents 1"
        ) from None


def read_answers(files: Sequence[Path]) -> list[str]:
    """Read a person's answers from files."""
    texts = []
    for path in files:
        try:
            texts.append(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read an answer from {path}: {error}") from None
    return texts


def _answers(agent: str, texts: Sequence[str]) -> Iterator[str]:
    yield from texts
    while True:
        print(f"Your answer as {agent}; end it with a line that is a single dot:")
        yield _read_answer()


def _read_answer() -> str:
    lines: list[str] = []
    for line in sys.stdin:
        if line.rstrip("\r\n") == END:
            return "".join(lines)
        lines.append(line)
    if not lines:
        raise RunError("the input ended before the episode did")
    return "".join(lines)
