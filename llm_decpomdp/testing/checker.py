"""`check_env`: a strict conformance check for text environments, of this package or any other.

PettingZoo's tests accept environments whose observations are no texts, whose rewards are no numbers and whose
episodes never end, and compare the first step of equal seeds alone.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from gymnasium import Space
from pettingzoo import ParallelEnv

from llm_decpomdp import registry
from llm_decpomdp.branching import Restorable, is_turn_based
from llm_decpomdp.oracle import answers
from llm_decpomdp.testing.copies import check_branches, check_copies, check_snapshots, make_copy
from llm_decpomdp.testing.decentralization import check_decentralization
from llm_decpomdp.testing.player import Secrets, StepRecord, TextEnv, Trial, difference
from llm_decpomdp.testing.rules import ConformanceError, check_all, errors_as_rule, require, short

__all__ = ["HOSTILE_TEXTS", "ConformanceError", "check_env"]

HOSTILE_TEXTS = (
    "",
    "I am sorry, but I do not know how to do this.",
    "def solve(x):\n    return x\n",
    "```python\ndef solve(x):\n    return x\n```\nThis function returns its argument.",
    "raise SystemExit(1)",
    "\x00\x1b[2J\r\n\t\u202e\ufeff",
    "na\u00efve \u4e16\u754c \U0001f469\U0001f3fd\u200d\U0001f4bb e\u0301",
    "(" * 5_000,  # more parentheses than Python's parser takes
    "-" * 50_000 + "1",  # ast.parse raises a MemoryError
    "x" * 100_000,
)
"""Completions that break careless environments: empty, prose, code, control characters,
Unicode, deeply nested and very long texts."""

REVEALING = ("reference", "secrets")
"""Names of methods that would reveal answers."""

AGENT_NAME = re.compile(r"[a-z]+_[0-9]+")


def check_env(
    env: ParallelEnv[str, Any, Any] | Callable[..., ParallelEnv[str, Any, Any]] | str,
    *,
    seed: int = 0,
    max_turns: int = 20,
    completions: Sequence[str] = (),
    secrets: Secrets | None = None,
    decentralized: bool = True,
    **kwargs: Any,
) -> None:
    """Check that a text environment keeps the contract that learners rely on.

    Plays short episodes with sampled and hostile texts. It checks names, spaces and copies of the environment;
    every value that `reset` and `step` return; that equal seeds and actions give equal everything; that the team
    is rewarded and ends together; that the copies in which learners play on, also those of a wrapper, continue as
    it does; `snapshot` and `restore` where the environment has both; and that neither a team-mate's text nor a
    secret leaks into a prompt.

    Args:
        env: The PettingZoo `ParallelEnv` to check: a registered id, a function that builds a new one at each call,
            or an instance. Deep copies of an instance are played, so it does not change; mistakes in building it,
            such as a generator that all instances share, are only found with an id or a function.
        seed: Seed of the episodes and of the sampled texts.
        max_turns: Bound on the length of an episode.
        completions: Texts that agents also act with, such as realistic answers.
        secrets: Returns, for the environment after `reset` or `step`, the texts that its prompts may not
            contain; by default those of `llm_decpomdp.answers(env)`. Blank texts are ignored.
        decentralized: Require that agents learn of each other's completions only through rewards and
            infos. Pass False for environments in which team-mates read each other.
        **kwargs: Arguments of the environment, for an id or a function.

    Raises:
        ConformanceError: For all broken rules of the description, the agents and the spaces together, or else at
            the first rule that is broken while episodes are played; with the expected and the actual value, and
            the remedy.
        TypeError: If there are arguments for an instance.
        ValueError: If `max_turns` is less than 1.
    """
    if max_turns < 1:
        raise ValueError(f"max_turns must be at least 1, got {max_turns}")
    decentralized = bool(kwargs.pop("decentralised", decentralized))  # the former spelling
    make = _maker(env, kwargs)
    instance = make()
    _check_description(instance)
    secrets = secrets or (lambda env: answers(env).secrets)
    trial = Trial(make, seed, max_turns, (*completions, *HOSTILE_TEXTS), secrets)
    _check_lockstep(trial)
    _check_repetition(trial)
    _check_unseeded_reset(trial)
    check_copies(trial)
    check_branches(trial)
    if isinstance(instance, Restorable) or isinstance(instance.unwrapped, Restorable):
        check_snapshots(trial)
    if decentralized and len(instance.possible_agents) > 1:
        check_decentralization(trial, completions)
    instance.close()
    instance.close()  # wrappers and users may close again: that must be no error


def _maker(env: Any, kwargs: Mapping[str, Any]) -> Callable[[], TextEnv]:
    """Return a function that builds the environment to check."""
    if isinstance(env, str):
        return partial(registry.make, env, **kwargs)
    if callable(env) and not isinstance(env, ParallelEnv):
        return partial(env, **kwargs)
    if kwargs:
        raise TypeError(
            f"check_env got a {type(env).__name__}, which is built already, and the arguments "
            f"{sorted(kwargs)}: give them with an id, or with a function that builds it"
        )
    return partial(make_copy, env, "copy.deepcopy", "before it is played")


def _check_description(env: TextEnv) -> None:
    require(
        isinstance(env, ParallelEnv),
        "a pettingzoo.ParallelEnv",
        type(env).__name__,
        "Derive from ParallelEnv[str, str, str]; turn an AEC environment with aec_to_parallel.",
    )
    agents = env.possible_agents
    checks: list[Callable[..., None]] = [_check_metadata, _check_answers, _check_agents]
    if isinstance(agents, list):
        checks += [
            partial(_check_agent, agent=agent, proposal=name) for agent, name in _proposals(agents)
        ]
        spaces = [(kind, agent) for kind in ("observation", "action") for agent in agents]
        checks += [partial(_check_space, kind=kind, agent=agent) for kind, agent in spaces]
    check_all(partial(check, env) for check in checks)


def _check_metadata(env: TextEnv) -> None:
    require(
        isinstance(env.metadata, Mapping)
        and isinstance(env.metadata.get("name"), str)
        and isinstance(env.metadata.get("render_modes"), list),
        "metadata with a 'name' (str) and 'render_modes' (list)",
        short(env.metadata),
        'Add metadata = {"name": "writing_v0", "render_modes": []}.',
    )


def _check_answers(env: TextEnv) -> None:
    revealing = [name for name in REVEALING if callable(getattr(type(env.unwrapped), name, None))]
    require(
        not revealing,
        "answers not to be public methods, which other libraries offer to the model as tools",
        f"the methods {revealing}",
        "Move them to a function for the class: llm_decpomdp.answers.register.",
    )


def _check_agents(env: TextEnv) -> None:
    agents = env.possible_agents
    require(
        isinstance(agents, list) and bool(agents) and len(set(agents)) == len(agents),
        "possible_agents to be a list of distinct names",
        short(agents),
        "Set it in __init__.",
    )
    require(
        isinstance(getattr(env, "agents", None), list),
        "env.agents to be a list before reset()",
        "none",
        "Set self.agents = [] in __init__.",
    )


def _check_agent(env: TextEnv, agent: Any, proposal: str) -> None:
    require(
        isinstance(agent, str) and AGENT_NAME.fullmatch(agent) is not None,
        "agent names like 'role_0': lower-case letters, an underscore, digits",
        short(agent),
        f"Rename it, for example to {proposal!r}. PettingZoo names agents so, and other libraries take the part "
        "before the underscore as the role, to give all agents of a role one policy.",
    )


def _proposals(agents: Sequence[Any]) -> list[tuple[Any, str]]:
    """Return each agent with a valid name that is like its own, and that no other agent has."""
    names = {agent for agent in agents if isinstance(agent, str)}
    pairs = []
    for agent in agents:
        text = str(agent).lower()
        role = "".join(re.findall("[a-z]", text)) or "agent"
        number = int("".join(re.findall("[0-9]", text)) or 0)
        while (proposal := f"{role}_{number}") in names:
            number += 1
        names.add(proposal)
        pairs.append((agent, proposal))
    return pairs


def _check_space(env: TextEnv, kind: str, agent: Any) -> None:
    space_of = getattr(env, f"{kind}_space")
    remedy = "Build the spaces in __init__ and look them up."
    rule = f"{kind}_space({agent!r}) to return a space before reset()"
    with errors_as_rule(rule, remedy):
        space = space_of(agent)
    require(
        isinstance(space, Space) and isinstance(copy.deepcopy(space).sample(), str),
        f"the {kind} space of {agent!r} to be a gymnasium space of texts",
        short(space),
        "Use llm_decpomdp.UnicodeText.",
    )
    require(
        space_of(agent) is space,
        f"{kind}_space({agent!r}) to return the same object at each call",
        "a new object",
        remedy,
    )


def _check_lockstep(trial: Trial) -> None:
    """Check that two environments of one seed agree, even if the values that one returned are cleared."""
    turn, seed = 0, trial.seed
    while turn < trial.period:
        plain, spoiled = trial.watch(trial.make()), trial.watch(trial.make(), spoil=True)
        remedy = (
            "Draw only from a generator that reset(seed) seeds, and keep returned dictionaries out of the "
            "environment's own state: callers may change them."
        )
        # The unknown option is that of PettingZoo's API tests, which must change nothing.
        _require_equal(
            plain.reset(seed), spoiled.reset(seed, {"options": 1}), "reset(seed)", remedy
        )
        if is_turn_based(plain.env):
            remedy += " Ignore the actions of agents that wait: only one of the two was given them."
        for first, second in zip(trial.play(plain, turn), trial.play(spoiled, turn), strict=True):
            _require_equal(first, second, "step()", remedy)
            turn += 1
        for watched in (plain, spoiled):
            _check_end(watched.env)
        seed += 1  # the rest of the texts in another episode


def _require_equal(first: StepRecord, second: StepRecord, where: str, remedy: str) -> None:
    for name, value in vars(first).items():
        if value != vars(second)[name]:
            raise ConformanceError(
                f"equal {name} of {where} from two environments with equal seeds and actions",
                f"{short(value)} and {short(vars(second)[name])}",
                remedy,
            )


def _check_end(env: TextEnv) -> None:
    result = env.step({})
    require(
        isinstance(result, tuple) and list(result) == [{}, {}, {}, {}, {}],
        "step({}) after the end to return five empty dictionaries",
        short(result),
        "Return ({}, {}, {}, {}, {}) while there are no agents.",
    )
    env.close()
    env.close()


def _check_repetition(trial: Trial) -> None:
    """Check that `reset(seed)` starts the same episode again, after the end and in the middle."""
    watched = trial.watch(trial.make())
    first = [watched.reset(trial.seed), *trial.play(watched)]
    for middle in (False, True):
        if middle:
            watched.reset(trial.seed + 1)
            watched.step(trial.actions(watched.env, 0))
        again = [watched.reset(trial.seed), *trial.play(watched)]
        require(
            again == first,
            "reset(seed) to start the same episode again in the same environment",
            f"{difference(first, again)}",
            "Reseed the generator and clear everything of the last episode in reset(seed).",
        )


def _check_unseeded_reset(trial: Trial) -> None:
    """Check that `reset()` continues the generator, and takes neither a new seed nor the old one."""
    first, second = trial.watch(trial.make()), trial.watch(trial.make())
    starts = [first.reset(trial.seed)], [second.reset(trial.seed)]
    # With two tasks, all eight starts are equal by chance once in 128 times.
    for _ in range(7):
        starts[0].append(first.reset())
        starts[1].append(second.reset())
    require(
        starts[0] == starts[1],
        "reset() without a seed to continue the generator that reset(seed) seeded",
        f"{difference(*starts)}",
        "Reseed only if seed is not None.",
    )
    seeded = [first.reset(trial.seed + number) for number in range(8)]
    require(
        any(start != starts[0][0] for start in starts[0])
        or all(start == seeded[0] for start in seeded),
        "reset() without a seed to move on, as different seeds start different episodes",
        "the same start eight times",
        "Reseed only if seed is not None.",
    )
