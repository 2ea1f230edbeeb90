"""Train pairs, then agents with a pool of the other pairs' partners, and let them play with strangers.

    python -m studies.partner_pools runs/partner_pools
    python -m studies.partner_pools runs/partner_pools --order

The game is `compose-v0` with `convention: name`, as in the configuration `cooperation_demo`. `aux_0` gives a
function one of three names, and `main_0` has to call it by that name without any message. `pair-N` is a pair of
seed N. `pool-N` is a `main_0` of seed 100 + N that was trained with the partners of all pairs but pair N, so it
has never met the partner of pair N. It learns from as many completions of `main_0` as a pair: 16 in each of 16
updates. Finished runs are kept, so the same command continues.

Hypotheses, declared on 2026-11-26 before a `pool-N` was trained:

- P1: a `main_0` that was trained with a pool solves at least 0.30 of the held-out tasks with a stranger.
- P2: a pool costs at most 0.1 in self-play: the share that these partners solve with the agents they were
  trained with, less the share that `pool-N` solves with the partners of its own pool.

What is attainable: `main_0` has no information about its partner when it answers. If a share p of the partners
uses its most frequent name, no `main_0` solves more than p times the share that it solves when the names agree.
Seeds decide on names almost at random (`alpha`, `gamma`, `alpha`, none and `beta` in an earlier measurement),
and agreeing pairs solve about 0.6. So 0.2 to 0.3 is the most to expect for P1, and P2 should fail: an agent that
can choose one of three names loses more than 0.1 with four partners that use several. Neither bound holds for
conventions that do not depend on names, which other-play asks for (`--other-play` trains and measures `op-N`
too).

With `--order`, `main_0` reads what `aux_0` wrote before it answers (`env.order: [aux_0, main_0]`), in other runs:
`ordered-pair-N` of seed 200 + N is a pair that was trained so, and `ordered-pool-N` of the same seed is a `main_0`
that was trained so, with the partners of all `pair-N` but the N-th. These partners answered at the same time as
their `main_0`, but their prompts are equal. All learn from whole episodes, 16 in each of 16 updates. Hypotheses,
declared on 2026-11-26 before an `ordered-pool-N` was started:

- P3: as P1, with the order. The mean over seeds and tasks reaches the goal at 0.30, and P3 is confirmed if its
  whole 95 % interval does.
- P4: as P2, with the order: `ordered-pool-N` solves at most 0.1 less with the partners of its pool than
  `ordered-pair-N` does with its own partner.

An earlier declaration of the same day had partners that were trained with the order too. It was given up because
ten runs did not fit into the day, when one pair was about to finish. That pair had not been evaluated, and is now
`ordered-pair-0`.

Power: one undeclared seed solved 0.34 with a stranger, one sample of each of 32 tasks. `main_0` copied the name
in every transcript that was read, and failures were wrong steps of `aux_0` or of `main_0`. With a deviation of 0.1
between seeds, the interval of five seeds reaches 0.12 to both sides. So a true 0.34 reaches the goal in 4 of 5
such studies and is confirmed in few, and a true 0.45 is confirmed in 3 of 4. A true cost of 0 misses P4 in 1 of
80 studies if its deviation is 0.1.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from llm_decpomdp.algorithms.rollouts.collection import sample_groups
from llm_decpomdp.algorithms.rollouts.play import play_episodes, seed_policies
from llm_decpomdp.algorithms.rollouts.rollout import Start, TextEnv, reset_branch, step_branches
from llm_decpomdp.benchmarks.evaluation.folder import estimate_text
from llm_decpomdp.benchmarks.evaluation.request import EvalRequest, resolve_request
from llm_decpomdp.benchmarks.evaluation.statistics import paired_difference, share
from llm_decpomdp.benchmarks.evaluation.teams import load_teams
from llm_decpomdp.policy import Completion

AUX, MAIN = "aux_0", "main_0"
ORDER = [
    f"env.order=[{AUX},{MAIN}]",
    "algorithm.rollout.mode=episodes",
    "algorithm.rollout.joint_mode=aligned",
    "algorithm.rollout.num_partners=1",
]
NAMES = re.compile(r"\b(alpha|beta|gamma)\b")

Answers = Mapping[str, Sequence[tuple[Completion, ...]]]
"""For each `TEAM/AGENT` its completions of each task."""

Scores = npt.NDArray[np.float64]
"""Share of solved samples, (seeds, tasks)."""


def train(folder: Path, name: str, *overrides: str) -> None:
    """Train a team by `cooperation_demo`, unless it is there."""
    if (folder / name / "final_model" / "team.json").is_file():
        return
    settings = [f"output.base_dir={folder}", f"output.name={name}", "output.report=false"]
    settings.append("evaluation.num_tasks=0")  # all teams are measured together at the end
    command = [sys.executable, "-m", "llm_decpomdp", "train", "--config", "cooperation_demo"]
    subprocess.run([*command, "--override", *settings, *overrides], check=True)


def pool_overrides(folder: Path, seeds: Sequence[int], seed: int, first: int) -> list[str]:
    """Return the settings of a run with a pool, whose own seed is `first + seed`."""
    others = ",".join(str(folder / f"pair-{other}") for other in seeds if other != seed)
    return [
        # Another seed than the stranger's, as the warm start of a seed favors some names.
        f"seed={first + seed}",
        f"partners.pool=[{others}]",
        f"partners.agents=[{AUX}]",
        f"policies.{AUX}=null",
    ]


def play(folder: Path, names: Sequence[str], samples: int) -> tuple[Answers, list[Start], TextEnv]:
    """Sample the answers of all teams to the held-out tasks, in batches of several teams.

    Agents answer once and without messages, so each answer of one agent can be judged with any of the other.
    """
    setting = resolve_request(EvalRequest(team=folder / names[0]))
    teams = load_teams({name: folder / name / "final_model" for name in names}, setting)
    # The partner of a `pool-N` is one of the pairs.
    players = {
        f"{name}/{agent}": team[agent]
        for name, team in teams.items()
        for agent in team
        if agent == MAIN or not name.startswith("pool-")
    }
    seed_policies(players, 0, "partner pools", index=0)
    starts = setting.starts()
    prompts = [reset_branch(setting.env, start)[1] for start in starts]
    texts = [{name: of[name.partition("/")[2]] for name in players} for of in prompts]
    groups = sample_groups(players, [setting.env] * len(starts), texts, samples)
    return {name: [group[name] for group in groups] for name in players}, starts, setting.env


class Judge(Protocol):
    """Tells what an agent of one team solves with the partner of another."""

    def solved(self, aux: str, main: str) -> Sequence[float]:
        """Return the share of samples of each task that the partner of one team and the agent of another solve."""


class AnswerJudge:
    """Judges the answers of any two agents together, which were sampled apart.

    Args:
        answers: The answers of all teams.
        starts: The tasks.
        env: The environment.
    """

    def __init__(self, answers: Answers, starts: Sequence[Start], env: TextEnv) -> None:
        self.answers, self.starts, self.env = answers, starts, env
        self._known: dict[tuple[str, str], list[float]] = {}

    def solved(self, aux: str, main: str) -> list[float]:
        """Return the share of samples of each task that the partner of one team and the agent of another solve."""
        if (aux, main) not in self._known:
            self._known[aux, main] = [self._task(aux, main, t) for t in range(len(self.starts))]
        return self._known[aux, main]

    def _task(self, aux: str, main: str, task: int) -> float:
        groups = {
            agent: self.answers[f"{name}/{agent}"][task]
            for agent, name in ((AUX, aux), (MAIN, main))
        }
        pairs = zip(*(map(name_of, groups[agent]) for agent in (AUX, MAIN)), strict=True)
        # Other pairs of names solve nothing, and need not be run.
        joint = tuple((place, place) for place, pair in enumerate(pairs) if len({*pair}) == 1)
        if not joint:
            return 0.0
        branch, _ = reset_branch(self.env, self.starts[task])
        (outcomes,) = step_branches([branch], [groups], [joint])
        return sum(outcome.info["solved"] for outcome in outcomes) / len(groups[AUX])


class EpisodeJudge:
    """Plays an episode of any two agents for each sample, as one reads what the other wrote.

    Args:
        folder: The folder of the study.
        names: The names of its runs.
        samples: Episodes of each task.
    """

    def __init__(self, folder: Path, names: Sequence[str], samples: int) -> None:
        self.setting = resolve_request(EvalRequest(team=folder / names[-1]))  # with the order
        self.samples = samples
        self.teams = load_teams(
            {name: folder / name / "final_model" for name in names}, self.setting
        )
        self._known: dict[tuple[str, str], list[float]] = {}

    def solved(self, aux: str, main: str) -> list[float]:
        """Return the share of solved episodes of each task."""
        if (aux, main) not in self._known:
            team = {AUX: self.teams[aux][AUX], MAIN: self.teams[main][MAIN]}
            seed_policies(team, 0, "partner pools", index=0)
            starts = self.setting.starts()
            repeated = [start for start in starts for _ in range(self.samples)]
            rollouts = play_episodes(self.setting.env, team, repeated)
            solved = [rollout.groups[-1].infos[0]["solved"] for rollout in rollouts]
            self._known[aux, main] = np.reshape(solved, (len(starts), -1)).mean(axis=1).tolist()
        return self._known[aux, main]


def rows(judge: Judge, cells: Sequence[Sequence[tuple[str, str]]]) -> Scores:
    """Return a row for each list of cells: the mean of these cells, (seeds, tasks)."""
    return np.array([np.mean([judge.solved(*cell) for cell in row], axis=0) for row in cells])


def name_of(completion: Completion) -> str:
    """Return the name that a completion uses; `-` for none or several."""
    names = {*NAMES.findall(completion.text)}
    return names.pop() if len(names) == 1 else "-"


def print_names(answers: Answers) -> None:
    """Print how often each agent uses each name."""
    for player, groups in answers.items():
        print(player, dict(Counter(map(name_of, chain.from_iterable(groups)))))


def report(judge: Judge, seeds: Sequence[int], other_play: bool, order: bool) -> None:
    """Print shares of solved tasks, and the hypotheses."""

    def others(seed: int) -> list[int]:
        return [other for other in seeds if other != seed]

    pair, pool = ("ordered-pair", "ordered-pool") if order else ("pair", "pool")
    cases = {
        "pairs, own partner": [[(f"{pair}-{s}", f"{pair}-{s}")] for s in seeds],
        "pairs, stranger": [[(f"pair-{o}", f"{pair}-{s}") for o in others(s)] for s in seeds],
        "pool, stranger": [[(f"pair-{s}", f"{pool}-{s}")] for s in seeds],
        "pool, partners of the pool": [
            [(f"pair-{o}", f"{pool}-{s}") for o in others(s)] for s in seeds
        ],
    }
    own = "pairs, own partner"
    if not order:
        own = "these partners, own agent"
        cases[own] = [[(f"pair-{o}", f"pair-{o}") for o in others(s)] for s in seeds]
    if other_play:
        cases["other-play, own partner"] = [[(f"op-{s}", f"op-{s}")] for s in seeds]
        cases["other-play, stranger"] = [[(f"op-{s}", f"op-{o}") for o in others(s)] for s in seeds]
    scores = {title: rows(judge, cells) for title, cells in cases.items()}
    for title, table in scores.items():
        by_seed = ", ".join(f"{value:.2f}" for value in table.mean(axis=1))
        print(f"{title:<28} {estimate_text(share(table))}   by seed: {by_seed}")
    for words, less, more in (
        ("pool minus pairs, stranger", "pairs, stranger", "pool, stranger"),
        ("cost in self-play", "pool, partners of the pool", own),
    ):
        print(f"{words:<28} {estimate_text(paired_difference(scores[less], scores[more]))}")


def main() -> None:
    """Train what is missing, and measure."""
    parser = argparse.ArgumentParser(prog="python -m studies.partner_pools", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--samples", type=int, default=2, help="answers of each agent to a task")
    parser.add_argument(
        "--other-play", action="store_true", help="also train pairs with other-play"
    )
    parser.add_argument("--order", action="store_true", help="main_0 reads what aux_0 wrote")
    parser.add_argument("--only", help="train the run of this name alone, such as pool-3")
    options = parser.parse_args()
    folder, seeds = options.folder.resolve(), options.seeds
    runs = {f"pair-{seed}": [f"seed={seed}"] for seed in seeds}
    if options.order:
        for seed in seeds:
            overrides = pool_overrides(folder, seeds, seed, first=200)
            runs[f"ordered-pool-{seed}"] = [*overrides, *ORDER]
            runs[f"ordered-pair-{seed}"] = [f"seed={200 + seed}", *ORDER]
    else:
        runs |= {f"pool-{s}": pool_overrides(folder, seeds, s, first=100) for s in seeds}
    if options.other_play:
        runs |= {f"op-{s}": [f"seed={s}", "partners.other_play=true"] for s in seeds}
    for name, overrides in runs.items():
        if options.only in (None, name):
            train(folder, name, *overrides)
    if options.only is not None:
        return
    judge: Judge
    if options.order:
        judge = EpisodeJudge(folder, list(runs), options.samples)
    else:
        judge = AnswerJudge(*play(folder, list(runs), options.samples))
        print_names(judge.answers)
    report(judge, seeds, options.other_play, options.order)


if __name__ == "__main__":
    main()
