"""Credit: what team-mates do to what an agent learns from."""

from __future__ import annotations

import numpy as np

from llm_decpomdp import make
from llm_decpomdp.agents.scripted import Scripted
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.advantages import (
    group_advantages,
    leave_one_out,
    subtract_baseline,
)
from llm_decpomdp.algorithms.learning.learner_options import AggregationOptions, LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.env import GRADES
from llm_decpomdp.envs.probes.parts import LETTERS
from llm_decpomdp.seeding import stream
from studies.hypotheses.hypothesis import Clause, Hypothesis, Measures
from studies.hypotheses.training import LEARNING_RATE, make_team, tasks, train, value

COMMON = RolloutOptions(joint_mode="common", num_partners=4)

TEAM_SIZES = (2, 4, 8, 16)

WAYS = {"aligned": ("aligned", 1), "common, K = 1": ("common", 1), "common, K = 4": ("common", 4)}
"""Joint mode and K of each way."""


class RandomLetter(Scripted):
    """Gives a random letter."""

    def __init__(self, agent: str, seed: int) -> None:
        self._rng = stream(seed, "letters", agent)

    def act(self, prompt: str) -> str:
        """Draw a letter."""
        return str(self._rng.choice(list(GRADES)))


def noise_to_signal(
    way: str, num_agents: int, *, group_size: int, groups: int, seed: int = 0
) -> float:
    """Return the mean squared error of one agent's advantages, as a share of their mean square.

    Random teams play `probe-noisy-partners-v0`, whose reward is a sum of what each agent earns by itself, so the
    advantage A' that an agent should be given is known: that of its reward with silent partners (a difference
    reward, Wolpert and Tumer 2001). Noise is the mean of (A - A')^2, signal that of A'^2, over completions of one
    agent; all ways sample the same completions.
    """
    env = make("probe-noisy-partners-v0", num_agents=num_agents)
    team = {agent: RandomLetter(agent, seed) for agent in env.possible_agents}
    mode, partners = WAYS[way]
    starts = [Start(task_id=env.tasks.tasks[0].task_id)] * groups
    rollouts = collect_rollouts(
        env,
        team,
        starts,
        RolloutOptions(joint_mode=mode, num_partners=partners),
        group_size=group_size,
        rng=stream(seed, "partners"),
    )
    first = env.possible_agents[0]
    errors, squares = [], []
    for credit in group_advantages(rollouts, [first], ALGORITHMS["marloo"], LearnerOptions()):
        words = [completion.text for completion in credit.group.completions[first]]
        right = subtract_baseline(
            np.array([_single_agent(env, first, word) for word in words]), leave_one_out
        )
        errors.append((credit.advantages[first] - right) ** 2)
        squares.append(right**2)
    return float(np.mean(errors) / np.mean(squares))


def _single_agent(env: DecPOMDPEnv, agent: str, word: str) -> float:
    """Return the reward of a word beside silent partners."""
    words = {mate: word if mate == agent else "" for mate in env.possible_agents}
    return env.reward(env.tasks.tasks[0], words).reward


def noise(seed: int) -> Measures:
    """Measure how noise over signal grows with each further team-mate."""
    slopes = {}
    for way in ("aligned", "common, K = 4"):
        ratios = [
            noise_to_signal(way, size, group_size=4, groups=40, seed=seed) for size in TEAM_SIZES
        ]
        slopes[way.partition(",")[0]] = float(np.polyfit(TEAM_SIZES, ratios, 1)[0])
    return slopes


def lazy(seed: int) -> Measures:
    """Measure how often the second agent works, after equal completions with either credit."""
    shares = {}
    for name, rollouts in {"aligned": RolloutOptions(), "common": COMMON}.items():
        env = make("probe-lazy-v0")
        team = make_team(env, LETTERS, seed)
        train(env, team, seed=seed, updates=20, rollouts=rollouts)
        second = env.possible_agents[1]
        prompts = {task.cues[1]: task.letters[1] for task in tasks(env)}
        shares[name] = float(
            np.mean([team[second].probabilities(cue)[word] for cue, word in prompts.items()])
        )
    return shares


def climbing(seed: int) -> Measures:
    """Measure the final rewards of the climbing game by how partners are aggregated."""
    values = {}
    for how in ("mean", "max"):
        env = make("probe-climbing-v0")
        team = make_team(env, LETTERS, seed)
        options = LearnerOptions(
            learning_rate=LEARNING_RATE, joint_aggregation=AggregationOptions(how)
        )
        train(env, team, seed=seed, updates=120, rollouts=COMMON, options=options)
        values[how] = value(env, team)
    return values


def normalize(seed: int) -> Measures:
    """Measure the largest difference of any logit from MAGRPO's, after ten updates with z-scored advantages."""
    tables = {}
    for algorithm in ("magrpo", "marloo", "maremax"):
        env = make("probe-rendezvous-v0")
        team = make_team(env, LETTERS, seed)
        options = LearnerOptions(learning_rate=LEARNING_RATE, normalize_advantages=True)
        train(env, team, seed=seed, updates=10, algorithm=algorithm, options=options)
        tables[algorithm] = [policy.logits.detach().numpy().copy() for policy in team.values()]
    return {
        name: max(
            float(np.abs(table - reference).max())
            for table, reference in zip(tables[name], tables["magrpo"], strict=True)
        )
        for name in ("marloo", "maremax")
    }


HYPOTHESES = (
    Hypothesis(
        "H1",
        "The noise of team-mates grows with their number, and common partners have none of it.",
        "Under aligned joint samples each team-mate adds the variance of its own worth to an agent's reward; "
        "beside common partners it is subtracted.",
        "probe-noisy-partners-v0, random teams of 2 to 16, G = 4, 40 groups a seed; slope of noise over signal "
        "of an agent's advantages against the number of agents.",
        (
            Clause("aligned: each further agent adds more than 0.7", {"aligned": 1}, above=0.7),
            Clause("four common partners: less than 0.1", {"common": 1}, below=0.1),
        ),
        noise,
        untested="other numbers of partners and other games.",
    ),
    Hypothesis(
        "H2",
        "A reward of the team makes a lazy agent, and credit for an agent's own contribution does not.",
        "While the second agent knows nothing, its help costs more than silence. Common partners give the "
        "advantages of the difference reward, but the same expectations.",
        "probe-lazy-v0, tabular policies, MAGRPO, 20 updates, G = 8; probability of the second agent's right "
        "letter.",
        (
            Clause("aligned: it works in less than half of all cases", {"aligned": 1}, below=0.5),
            Clause(
                "common partners: it works more often than aligned, by over 0.1",
                {"common": 1, "aligned": -1},
                above=0.1,
            ),
        ),
        lazy,
        untested="other costs of effort, and whether the credit equals the difference reward, as it does where "
        "rewards add up.",
    ),
    Hypothesis(
        "H8",
        "The mean over partners falls for the safe joint action, the maximum does not.",
        "Beside a partner who still tries everything, the letter of the best pair is the worst of all; its best "
        "partner makes it the best one.",
        "probe-climbing-v0, tabular policies, MAGRPO with four common partners, G = 8, 120 updates; "
        "mean reward afterwards.",
        (
            Clause("max is better than mean by over 2", {"max": 1, "mean": -1}, above=2),
            Clause("max ends above 9", {"max": 1}, above=9),
            Clause("mean ends below 8", {"mean": 1}, below=8),
        ),
        climbing,
        untested="rewards with noise, of which the maximum takes the luckiest (a table in docs/learners.md).",
    ),
    Hypothesis(
        "H11",
        "With advantages that are divided by their deviation the baselines mean, leave-one-out and maximum are "
        "the same algorithm.",
        "Z-scores leave no trace of what was subtracted before, nor of a factor. `normalize_advantages` divides, "
        "and does not centre again.",
        "probe-rendezvous-v0, tabular policies, equal seeds, 10 updates, `normalize_advantages`; largest "
        "difference of any logit from MAGRPO's.",
        (
            Clause("leave-one-out: below 1e-4", {"marloo": 1}, below=1e-4),
            Clause("maximum: below 1e-4", {"maremax": 1}, below=1e-4),
        ),
        normalize,
        untested="z-scores, for which it is an identity, and other games.",
    ),
)
