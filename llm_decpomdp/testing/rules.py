"""Rules for the values that a text environment returns, one function for each rule."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gymnasium import Space
from gymnasium.spaces import Text

from llm_decpomdp.spaces import UnicodeText

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200
_short.maxdict = _short.maxlist = _short.maxset = _short.maxtuple = 8


def short(value: object) -> str:
    """Return `repr`, cut to a length that fits into an error message."""
    return _short.repr(value)


class ConformanceError(AssertionError):
    """An environment breaks the contract: the expected value, the actual one, and the remedy."""

    def __init__(self, expected: str, found: str, remedy: str) -> None:
        self.expected = expected
        self.found = found
        self.remedy = remedy
        super().__init__(f"expected {expected}; found {found}. {remedy}")


def require(condition: bool, expected: str, found: object, remedy: str) -> None:
    """Raise a `ConformanceError` unless `condition` holds.

    Args:
        condition: What must be true.
        expected: The rule.
        found: The value that broke it, shown shortened, or a text that is shown in full.
        remedy: The change to make, as a sentence.
    """
    if not condition:
        raise ConformanceError(expected, found if isinstance(found, str) else short(found), remedy)


@contextmanager
def errors_as_rule(expected: str, remedy: str) -> Iterator[None]:
    """Raise a `ConformanceError` for any other exception of the environment."""
    try:
        yield
    except ConformanceError:
        raise
    except Exception as error:
        raise ConformanceError(expected, f"{type(error).__name__}: {error}", remedy) from error


def check_all(checks: Iterable[Callable[[], None]]) -> None:
    """Run independent checks, and raise one `ConformanceError` that lists all broken rules."""
    errors: dict[str, ConformanceError] = {}
    for check in checks:
        try:
            check()
        except ConformanceError as error:
            errors[str(error)] = error
    if len(errors) == 1:
        raise next(iter(errors.values()))
    if errors:
        lines = "".join(f"\n  {number}. {text}" for number, text in enumerate(errors, 1))
        raise ConformanceError(
            "an environment that keeps all rules",
            f"{len(errors)} broken rules:{lines}\n",
            "Correct them, and check again.",
        )


def check_keys(name: str, values: object, agents: Sequence[str]) -> None:
    """Require an entry for each agent, and for no other."""
    require(
        isinstance(values, dict) and set(values) == set(agents),
        f"{name} to be a dict with exactly the keys {sorted(agents)}",
        values,
        "Give one entry to every agent that was live before the step or joins in it, and to no other.",
    )


def check_observation(
    agent: str, prompt: object, space: Space[Any], secrets: Sequence[str]
) -> None:
    """Require that a prompt is a text of its space and contains no secret."""
    if not isinstance(prompt, str) or not space.contains(prompt):
        rule = f"the observation of {agent!r} to be a str in its observation space"
        raise ConformanceError(rule, *_outside(prompt, space))
    for secret in secrets:
        require(
            not secret.strip() or secret not in prompt,
            f"no secret in the prompt of {agent!r}",
            f"{short(secret)} in it",
            "A hidden text, such as a test, leaks: keep it out of every prompt.",
        )


def _outside(prompt: object, space: Space[Any]) -> tuple[str, str]:
    """Return what keeps a prompt out of a space, and the remedy."""
    remedy = "Return a str within the bounds of observation_space(agent)."
    if not isinstance(prompt, str) or not isinstance(space, Text):
        return short(prompt), remedy
    if not space.min_length <= len(prompt) <= space.max_length:
        bounds = f"the space holds {space.min_length} to {space.max_length}"
        return f"{len(prompt)} characters, and {bounds}: {short(prompt)}", remedy
    foreign = (pair for pair in enumerate(prompt) if pair[1] not in space.character_set)
    place, character = next(foreign, (0, ""))
    if isinstance(space, UnicodeText) or not character:
        return short(prompt), remedy
    fault = f"the character {character!r} at position {place}, which the space's charset lacks"
    return (
        f"{fault}, in {short(prompt)}",
        f"Use llm_decpomdp.UnicodeText({space.max_length}), which has every character; gymnasium's Text has "
        "only letters and digits by default.",
    )


def check_info(agent: str, info: object, keys: set[str] | None) -> set[str]:
    """Require finite Python numbers in an info, under the keys of earlier ones; return its keys."""
    require(isinstance(info, dict), f"the info of {agent!r} to be a dict", info, "Return one.")
    assert isinstance(info, dict)
    for key, value in info.items():
        # Not `isinstance`, which takes `numpy.float64` for a float.
        number = type(value) in (int, float, bool) and math.isfinite(value)
        require(
            isinstance(key, str) and number,
            f"finite Python numbers (int, float, bool) in the info of {agent!r}",
            f"{key!r}: {short(value)} ({type(value).__name__})",
            "Text belongs in the observation, the rendering or the records.",
        )
    require(
        keys is None or set(info) == keys,
        f"constant info keys of {agent!r}, at reset and every step: {sorted(keys or ())}",
        sorted(info),
        "Report every key always, 0 where it means nothing.",
    )
    return set(info)


def check_rewards(rewards: Mapping[str, Any], infos: Mapping[str, Mapping[str, float]]) -> None:
    """Require one finite float for the whole team, the sum of the components in the infos."""
    for agent, reward in rewards.items():
        require(
            type(reward) is float and math.isfinite(reward),
            f"the reward of {agent!r} to be a finite Python float",
            f"{short(reward)} ({type(reward).__name__})",
            "Convert it with float().",
        )
        parts = {key: part for key, part in infos[agent].items() if key.startswith("reward/")}
        require(
            not parts or abs(math.fsum(parts.values()) - reward) <= 1e-9,
            f"the 'reward/<component>' infos of {agent!r} to add up to the reward",
            f"{parts} and the reward {reward!r}",
            "List every component, with its sign, at every step.",
        )
    require(
        len(set(rewards.values())) <= 1,
        "the same team reward for every agent",
        rewards,
        "Return one number for all; shares of single agents belong in the infos.",
    )


def check_flags(
    terminations: Mapping[str, Any], truncations: Mapping[str, Any], agents: Sequence[str]
) -> None:
    """Require flags of one kind for each agent, and that `agents` holds exactly those that are not done."""
    for name, flags in (("terminations", terminations), ("truncations", truncations)):
        require(
            all(type(flag) is bool for flag in flags.values()),
            f"every value of the {name} to be a Python bool",
            flags,
            "Convert it with bool().",
        )
    live = []
    for agent, terminated in terminations.items():
        require(
            not (terminated and truncations[agent]),
            f"a termination or a truncation of {agent!r}, never both",
            "both flags",
            "Truncate only where an outside limit stopped the episode, terminate otherwise.",
        )
        live += [] if terminated or truncations[agent] else [agent]
    require(
        sorted(agents) == sorted(live),
        "agents to leave env.agents in the step in which they are done, and only then",
        f"agents {list(agents)} with terminations {terminations}, truncations {truncations}",
        "Take an agent out of self.agents in the step that ends its episode, and all at the end.",
    )


def check_acting(
    acting: Collection[str],
    agents: Sequence[str],
    observations: Mapping[str, str],
    infos: Mapping[str, Mapping[str, float]],
    turn_based: bool,
) -> None:
    """Require live agents that act next while there are any, and that the others observe nothing."""
    require(
        set(acting) <= set(agents) and bool(acting) == bool(agents),
        f"env.acting to name some of the live agents {list(agents)}",
        list(acting),
        "Let it return the agents that act next, and none once the episode is over.",
    )
    require(
        turn_based or len(acting) == len(agents),
        "metadata['turn_based'] to be True, as agents wait for others",
        f"acting {list(acting)} of {list(agents)}",
        "Learners read it before the first episode.",
    )
    for agent in agents if turn_based else []:
        require(
            infos[agent].get("acting") == (agent in acting),
            f"the info 'acting' of {agent!r} to be {int(agent in acting)}",
            infos[agent].get("acting", "none"),
            "Report 1 for the agents that act next, and 0 for the others.",
        )
        require(
            agent in acting or observations[agent] == "",
            f"the empty text as the observation of {agent!r}, which waits",
            observations[agent],
            "Show a waiting agent its prompt when it acts.",
        )


def check_fresh(boxes: Iterable[object], earlier: dict[int, object]) -> None:
    """Require that no dictionary was returned before; `earlier` keeps them, so that no id is used again."""
    for box in boxes:
        require(
            id(box) not in earlier,
            "a new dictionary for every return value",
            f"the same object twice: {short(box)}",
            "Build it anew; callers may change what they were given.",
        )
        # Kept alive, as Python may give the id of a freed object to a new one.
        earlier[id(box)] = box
