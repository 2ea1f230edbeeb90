"""Check that agents learn of each other's completions only through rewards and infos."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from llm_decpomdp.branching import message_turns
from llm_decpomdp.testing.player import StepRecord, TextEnv, Trial, references
from llm_decpomdp.testing.rules import require, short

PROSE = "I would sort the numbers first and return the middle one."
CODE = "def solve(numbers):\n    return sorted(numbers)[len(numbers) // 2]"


def check_decentralization(trial: Trial, completions: Sequence[str]) -> None:
    """Mark one agent's completions and look for traces of the mark in the others' prompts.

    Plays each episode twice, the second time with a unique word in one agent's completions that no signal speaks
    of: in a comment at the end, and, where the completion is Python, in the name of an unused variable of every
    function. The word may not occur in another agent's prompt; and as long as an agent's infos and the rewards are
    equal in both, its prompts must be equal too. Messages between agents (`llm_decpomdp.branching.MessageTurns`)
    are the same both times; they are checked apart, as no word of them may reach an agent that they are not for.
    Agents that the environment's `readers` names for a writer may read its completions; all others may not.

    Args:
        trial: The check.
        completions: Texts that the teams also act with, besides the environment's own references.

    Raises:
        ConformanceError: If a team-mate's text, or a signal that is in no info, reaches a prompt.
    """
    env = trial.make()
    for number, writer in enumerate(env.possible_agents):
        for team in _teams(trial, env, writer, completions):
            # A word that no text has by chance, and a valid name of a variable.
            canary = f"canary{trial.seed:x}{number}qzjx"
            for text, marked_text in _versions(team[writer], canary):
                _compare(trial, writer, {**team, writer: text}, marked_text, canary)
        _check_listeners(trial, writer)


def _teams(
    trial: Trial, env: TextEnv, writer: str, completions: Sequence[str]
) -> Iterator[Mapping[str, str]]:
    agents = env.possible_agents
    for text in (PROSE, CODE, *completions):
        yield dict.fromkeys(agents, text)
    env.reset(seed=trial.seed)
    answers = references(env)
    if answers:
        yield {agent: answers[agent] if agent == writer else PROSE for agent in agents}
        yield {agent: PROSE if agent == writer else answers[agent] for agent in agents}


def _versions(text: str, canary: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of completions that deserve the same verdict, the second with the canary."""
    yield text, f"{text}\n# {canary}"
    try:
        tree = ast.parse(text)
    # A ValueError is of null bytes, in Python 3.10; the last two are of deep nesting.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body[:0] = ast.parse(f"{canary} = 0").body
    code = ast.unparse(tree)
    # Of the same length, as a signal may tell the length of a program.
    yield code.replace(canary, "x" * len(canary)), code


def _compare(
    trial: Trial, writer: str, team: Mapping[str, str], marked_text: str, canary: str
) -> None:
    plain, canaried = trial.watch(trial.make()), trial.watch(trial.make())
    plain.reset(trial.seed)
    canaried.reset(trial.seed)
    if not plain.env.action_space(writer).contains(marked_text):
        return
    readers = {writer, *getattr(plain.env, "readers", {}).get(writer, ())}
    equal = {agent for agent in plain.env.possible_agents if agent not in readers}
    for _ in range(trial.max_turns):
        if not plain.env.agents or not canaried.env.agents:
            return
        actions = {agent: team[agent] for agent in plain.env.agents}
        # Messages are checked apart.
        is_marked = writer in actions and not getattr(message_turns(plain.env), "speaking", False)
        marked_actions = {**actions, writer: marked_text} if is_marked else actions
        first = plain.step(actions)
        second = canaried.step(dict(marked_actions))
        for agent in second.observations:
            if agent not in readers:
                _check_prompt(agent, writer, second, canary)
        same = first.rewards == second.rewards and first.agents == second.agents
        # Agents only leave this set: one that a signal has reached may know of the mark in all later turns.
        equal = {a for a in equal if same and first.infos.get(a) == second.infos.get(a)}
        for agent in sorted(equal & first.observations.keys() & second.observations.keys()):
            prompts = first.observations[agent], second.observations[agent]
            require(
                prompts[0] == prompts[1],
                f"the next prompt of {agent!r} to depend on the completion of {writer!r} only through "
                "infos and rewards, which are equal here",
                f"{short(prompts[0])} and {short(prompts[1])}",
                "Report the signal in the infos, or keep it out of the prompt.",
            )


def _check_listeners(trial: Trial, writer: str) -> None:
    """Send a unique word as every message of an agent, and look for it in the prompts of those it is not for."""
    watched, word = trial.watch(trial.make()), f"canary{trial.seed:x}qzjx"
    channel = message_turns(watched.env)
    if channel is None:
        return
    watched.reset(trial.seed)
    recipients = {writer, *channel.listeners(writer)}
    for _ in range(trial.max_turns):
        if not watched.env.agents:
            return
        texts = dict.fromkeys(watched.env.agents, PROSE)
        record = watched.step({**texts, writer: word} if channel.speaking else texts)
        for agent in record.observations.keys() - recipients:
            _check_prompt(agent, writer, record, word)


def _check_prompt(agent: str, writer: str, record: StepRecord, canary: str) -> None:
    prompt = record.observations[agent]
    require(
        canary not in prompt,
        f"nothing of the completion of {writer!r} in the next prompt of {agent!r}",
        f"the word {canary!r} of it, in {short(prompt)}",
        "Keep team-mates' texts out of prompts; where they are meant to read each other, pass "
        "decentralized=False.",
    )
