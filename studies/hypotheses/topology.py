"""Topologies of teams: turn order, own points of an agent, and partners from a pool."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from llm_decpomdp import make
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.parts import LETTERS, ProbeTask, probe_env
from llm_decpomdp.envs.probes.topology import FIRST, SECOND, UNKNOWN, ProbeGame
from llm_decpomdp.envs.worlds.game import Completions, Prompts, TurnGameMode, Turns
from llm_decpomdp.interfaces import Verdict
from llm_decpomdp.seeding import stream
from llm_decpomdp.wrappers.turn_order import set_order
from studies.hypotheses.hypothesis import Clause, Hypothesis, Measures
from studies.hypotheses.messages import SECRETS, announcement_env, announcement_tasks
from studies.hypotheses.training import (
    LEARNING_RATE,
    HashedParts,
    TabularPolicy,
    every_start,
    make_team,
    tasks,
    train,
    value,
)

EPISODES = RolloutOptions(mode="episodes")

ORDER = [FIRST, SECOND]

TALKS = 40
"""Updates of a team in which the second agent needs the first, if each agent answers once in an episode."""

JUDGEMENTS = 120
"""Updates of a team with a verifier."""

MEETINGS, MATES = 120, 60
"""Updates of a team that is to find a letter, and of the teams that it meets."""

POOL, STRANGERS = 4, 4
"""Numbers of teams that a pool has, and of teams that it has not."""

Tables = Mapping[str, TabularPolicy]


class TalkGame(ProbeGame):
    """Both agents act on two turns. On the second turn the second agent sees what the first wrote."""

    def prompts(self, task: ProbeTask, turns: Turns) -> Prompts:
        """Return the first agent's cue, and what the second agent has heard."""
        heard = f"{FIRST}: {turns[-1].completions[FIRST]}" if turns else ""
        return {FIRST: task.cues[0], SECOND: heard}

    def judge(self, task: ProbeTask, completions: Completions, turns: Turns) -> Verdict:
        """Judge the second agent's answer on the second turn."""
        right = bool(turns) and completions[SECOND][:1] == task.letters[1]
        return Verdict({"points": float(right)}, right)


def orders(seed: int) -> Measures:
    """Measure the returns of a second agent that needs the first, after equal numbers of completions."""
    game = TalkGame()
    mode = TurnGameMode(game)
    two_turns = probe_env("talk", announcement_tasks(), game, 1.0, None, mode, 2, False)
    settings = {
        "order": (set_order(announcement_env(), ORDER), TALKS),
        "simultaneous": (announcement_env(), TALKS),
        # Each agent answers twice in an episode, so half the updates have as many completions.
        "simultaneous, two turns": (two_turns, TALKS // 2),
    }
    values = {}
    for name, (env, updates) in settings.items():
        team = make_team(env, SECRETS, seed, spread=1.0)
        train(env, team, seed=seed, updates=updates, group_size=4, rollouts=EPISODES)
        values[name] = value(env, team)
    return values


def own_points(seed: int) -> Measures:
    """Measure the updates of a team with a verifier to half of the optimum, and its final expected return."""
    measures = {}
    for name, weight in {"team": 0.0, "own": 1.0}.items():
        env = make("probe-verifier-v0")
        team = make_team(env, LETTERS, seed)
        reached: list[int] = []

        def watch(
            update: int,
            _: Mapping[str, float],
            env: DecPOMDPEnv = env,
            team: Tables = team,
            reached: list[int] = reached,
        ) -> bool:
            reached += [update] if _expected_return(env, team) >= 0.5 else []
            return False

        train(
            env,
            team,
            seed=seed,
            updates=JUDGEMENTS,
            group_size=4,
            algorithm="marloo",
            rollouts=EPISODES,
            options=LearnerOptions(learning_rate=0.15, own_weight=weight),
            num_tasks=4,
            watch=watch,
        )
        # Teams that do not reach it count as if they did in the end, which favors those without own points.
        measures[f"updates, {name}"] = float(min(reached, default=JUDGEMENTS))
        measures[f"return, {name}"] = _expected_return(env, team)
    measures["doublings"] = math.log2(measures["updates, team"] / measures["updates, own"])
    return measures


def _expected_return(env: DecPOMDPEnv, team: Tables) -> float:
    """Return the expected return of a team with a verifier: the chance that all judgements of a task are right."""
    chances = {letter: _chance_of_right_judgement(team, letter) for letter in UNKNOWN}
    return float(np.mean([math.prod(chances[c] for c in task.letters) for task in tasks(env)]))


def _chance_of_right_judgement(team: Tables, letter: str) -> float:
    total = 0.0
    for answer, chance in team[FIRST].probabilities(UNKNOWN).items():
        judgements = team[SECOND].probabilities((answer or LETTERS) + letter)
        total += chance * judgements["a" if answer == letter else "b"]
    return total


def seen_partner(seed: int) -> Measures:
    """Measure the returns of a second agent that sees its partner's letter before it answers."""
    return _partner_pool(set_order(make("probe-rendezvous-v0"), ORDER), seed)


def unseen_partner(seed: int) -> Measures:
    """Measure the returns of a second agent that answers at the same time as its partner."""
    return _partner_pool(make("probe-rendezvous-v0"), seed)


def _partner_pool(env: DecPOMDPEnv, seed: int) -> Measures:
    """Measure the returns of the second agent with its own partner and strangers, with and without a pool."""
    mates = [_trained(env, 100 * seed + place, MATES) for place in range(POOL + STRANGERS)]
    pooled = _new_team(env, 100 * seed + 99)
    train_with_pool(env, pooled, [team[FIRST] for team in mates[:POOL]], seed)
    measures = {}
    for name, team in {"alone": _trained(env, 100 * seed + 99, MEETINGS), "pool": pooled}.items():
        measures[f"{name}, own partner"] = value(env, team)
        mixed = [{FIRST: mate[FIRST], SECOND: team[SECOND]} for mate in mates[POOL:]]
        measures[f"{name}, stranger"] = float(np.mean([value(env, m) for m in mixed]))
    return measures


def _trained(env: DecPOMDPEnv, seed: int, updates: int) -> dict[str, TabularPolicy]:
    team = _new_team(env, seed)
    train(env, team, seed=seed, updates=updates, rollouts=EPISODES)
    return team


def _new_team(env: DecPOMDPEnv, seed: int) -> dict[str, TabularPolicy]:
    return make_team(env, LETTERS, seed, spread=1.0)


def train_with_pool(
    env: DecPOMDPEnv,
    team: dict[str, TabularPolicy],
    pool: Sequence[TabularPolicy],
    seed: int,
    updates: int = MEETINGS,
) -> None:
    """Train the second agent with a first one that is drawn for each update (Strouse et al., arXiv 2110.08176).

    Args:
        env: The environment.
        team: The team that learns. Its own first agent is one of those that are drawn, and learns then.
        pool: Other first agents, which do not learn.
        seed: Of the draws and the rollouts.
        updates: Number of updates.
    """
    options = LearnerOptions(
        learning_rate=LEARNING_RATE, lr_schedule="linear", total_updates=updates
    )
    rng, draws = stream(seed, "handoff"), stream(seed, "pool")
    learners = [
        Learner(agents, ALGORITHMS["magrpo"], options, HashedParts())
        for agents in (team, {SECOND: team[SECOND]})
    ]
    for _ in range(updates):
        place = int(draws.integers(len(pool) + 1))
        own = place == len(pool)
        playing = team if own else {FIRST: pool[place], SECOND: team[SECOND]}
        batch = collect_rollouts(env, playing, every_start(env), EPISODES, group_size=8, rng=rng)
        learners[0 if own else 1].update(batch)


HYPOTHESES = (
    Hypothesis(
        "H14",
        "Where the second agent needs what the first knows, turn order beats simultaneous play at equal numbers "
        "of completions.",
        "At once, the second of two agents guesses one of four secrets. On two turns it sees what the first "
        "wrote before, but each agent answers twice, and half of the answers earn nothing.",
        "The game of H5 without a channel: with `order: [player_0, player_1]`; both at once; and both at once on "
        "two turns, the second of which is judged and shows the second agent what the first wrote. Tabular "
        "policies with logits that differ at first, MAGRPO over whole episodes, G = 4, "
        f"{TALKS} updates of 4 starts ({TALKS // 2} with two turns); mean return.",
        (
            Clause(
                "at once: order is better by over 0.3",
                {"order": 1, "simultaneous": -1},
                above=0.3,
            ),
            Clause(
                "at once on two turns: order is better by over 0.1",
                {"order": 1, "simultaneous, two turns": -1},
                above=0.1,
            ),
        ),
        orders,
        untested="games in which the first agent needs the second, too; language models, whose answers have "
        "unequal numbers of tokens.",
    ),
    Hypothesis(
        "H15",
        "Own points of a verifier at least halve the updates that its team needs, and do not move the optimum.",
        "The team is paid if four judgements are right. Own points are paid for each judgement, and the same "
        "answers earn the most of both.",
        "probe-verifier-v0, tabular policies, MARLOO over whole episodes, G = 4, 4 random tasks an update, "
        f"{JUDGEMENTS} updates, learning rate 0.15, `own_weight` 0 and 1. Updates until the expected return of "
        "the team is 0.5, and this return at the end; the optimum is 1.",
        (
            Clause("at least twice as fast", {"doublings": 1}, above=1),
            Clause("with own points: ends above 0.95", {"return, own": 1}, above=0.95),
            Clause(
                "ends no more than 0.05 below the team's reward alone",
                {"return, own": 1, "return, team": -1},
                above=-0.05,
            ),
        ),
        own_points,
        untested="own points whose optimum is not that of the team, and other weights.",
    ),
    Hypothesis(
        "H16",
        "A pool of partners improves play with strangers where an agent sees what its partner does, and costs at "
        "most 0.1 with its own partner.",
        "An agent with one partner has hardly seen other letters than that partner's. Partners with several "
        "conventions show it the others.",
        "probe-rendezvous-v0 with `order: [player_0, player_1]`, tabular policies with logits that differ at "
        f"first, MAGRPO over whole episodes, G = 8, {MEETINGS} updates. The second agent has its own partner, or "
        f"in each update a random first agent: its own or one of {POOL} from teams after {MATES} updates. Mean "
        f"return of the second agent with its own partner, and with the first agents of {STRANGERS} other teams.",
        (
            Clause(
                "with strangers: better by over 0.05",
                {"pool, stranger": 1, "alone, stranger": -1},
                above=0.05,
            ),
            Clause(
                "with its own partner: lower by less than 0.1",
                {"alone, own partner": 1, "pool, own partner": -1},
                below=0.1,
            ),
        ),
        seen_partner,
        seeds=30,
        untested="other-play, larger pools, and partners that also adapt to the agent.",
    ),
    Hypothesis(
        "H17",
        "A pool of partners gains little with strangers where nothing can be seen of them.",
        "Three letters are equally good. An agent that cannot see its partner's letter meets it by chance.",
        "As H16, with both agents at once.",
        (
            Clause(
                "with strangers: better by less than 0.15",
                {"pool, stranger": 1, "alone, stranger": -1},
                below=0.15,
            ),
            Clause("with strangers: below 0.5", {"pool, stranger": 1}, below=0.5),
        ),
        unseen_partner,
        seeds=30,
    ),
)
