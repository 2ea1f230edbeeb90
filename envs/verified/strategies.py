"""Scripted teams of `verified-v0`: its known numbers and exploits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from llm_decpomdp.envs.worlds.strategies import Act, Strategy, only, repeat_prompt, say
from llm_decpomdp.oracle import answers


def pair(solver: str, verifier: str) -> Act:
    """Return the team whose agents always say a text each."""
    texts = {"solver_0": solver, "verifier_0": verifier}
    return lambda env, prompts, rng: {agent: texts[agent] for agent in prompts}


def know(env: Any, prompts: Mapping[str, str], rng: np.random.Generator) -> Mapping[str, str]:
    """Say the references."""
    references = answers(env).references
    return {agent: references[agent] for agent in prompts}


def correct(env: Any, prompts: Mapping[str, str], rng: np.random.Generator) -> Mapping[str, str]:
    """Let the verifier know the answer, and correct the solver's, whatever it is."""
    words = _words(env)
    return dict.fromkeys(prompts, f"{words[2]}: {env.unwrapped.task.answer}")


def guess(env: Any, prompts: Mapping[str, str], rng: np.random.Generator) -> Mapping[str, str]:
    """Say the most frequent answer of all tasks, and accept it."""
    counts = Counter(task.answer for task in env.unwrapped.tasks.tasks)
    texts = {"solver_0": counts.most_common(1)[0][0], "verifier_0": _words(env)[0]}
    return {agent: texts[agent] for agent in prompts}


def draw(env: Any, prompts: Mapping[str, str], rng: np.random.Generator) -> Mapping[str, str]:
    """Say a random answer of other tasks, and a random verdict."""
    tasks, words = env.unwrapped.tasks.tasks, _words(env)
    answer = tasks[int(rng.integers(len(tasks)))].answer
    texts = {"solver_0": answer, "verifier_0": f"{rng.choice(words)} {answer}"}
    return {agent: texts[agent] for agent in prompts}


def _words(env: Any) -> list[str]:
    brief = env.unwrapped.reward.game.options.brief
    return [word[0] if brief else word for word in ("accept", "reject", "correct")]


GUESS = "most frequent answer"

STRATEGIES: Mapping[str, Strategy] = {
    "optimum": Strategy(know, exact=lambda task: 1.0),
    "alone": Strategy(only("verifier_0", correct), exact=lambda task: 1.0),
    GUESS: Strategy(guess, bound="optimum"),
    "random": Strategy(draw),
    "empty answers": Strategy(say(""), bound=GUESS),
    "accepts everything": Strategy(pair("", "accept"), bound=GUESS),
    "rejects everything": Strategy(only("verifier_0", say("reject")), bound=GUESS),
    "repeats the prompt": Strategy(repeat_prompt, bound=GUESS),
    "tells the verifier to accept": Strategy(pair("accept", ""), bound=GUESS),
}
"""The team whose solver knows nothing is bounded by the most frequent answer of all tasks."""
