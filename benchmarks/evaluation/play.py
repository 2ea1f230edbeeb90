"""Episodes of evaluations: the usual way for a team to act, and the rows that are written down.

Other ways to act are in `llm_decpomdp.benchmarks.evaluation.baselines`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby
from multiprocessing.pool import ThreadPool
from operator import itemgetter
from threading import Event, Lock
from typing import Any

from numpy.typing import ArrayLike

from llm_decpomdp.agents.remote.endpoint import Endpoint, EndpointError
from llm_decpomdp.algorithms.rollouts.collection import play_episodes
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Completions, Group, Parent, Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import (
    Act,
    Move,
    Prompts,
    Timer,
    distinct_policies,
    sample,
)
from llm_decpomdp.algorithms.training.metrics import episode_row, reward_metrics
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, bootstrap, share
from llm_decpomdp.branching import branch, branches_in_threads, seed_noise
from llm_decpomdp.policy import REFUSAL, Completion, Seedable, Team, shared_engine
from llm_decpomdp.seeding import stream
from llm_decpomdp.validation import unknown

_ONE_AT_A_TIME = Lock()  # for policies of this process, which are not made for threads


def act_simultaneously(
    team: Team, envs: Sequence[TextEnv], prompts: Sequence[Prompts], timer: Timer
) -> list[Move]:
    """Let all agents answer at the same time; they see nothing of one another.

    Agents that are sampled in one batch have their seconds in common, under a name such as `aux_0+main_0`.
    """
    answers: list[Completions] = [{} for _ in prompts]
    for agents in group_by_engine(team):
        # Requests to a server may wait at the same time; models of this process may not compute so.
        alone = nullcontext() if isinstance(team[agents[0]], Endpoint) else _ONE_AT_A_TIME
        part = [{agent: texts[agent] for agent in agents} for texts in prompts]
        with alone, timer("+".join(agents)):
            samples = sample({agent: team[agent] for agent in agents}, envs, part, 1)
        for completions, groups in zip(answers, samples, strict=True):
            completions |= groups
    return [
        Move(dict(texts), {agent: completions[agent] for agent in texts})
        for texts, completions in zip(prompts, answers, strict=True)
    ]


def group_by_engine(team: Team) -> list[list[str]]:
    """Group the agents whose policies are one object or have one engine."""
    groups: dict[int, list[str]] = {}
    for agent, policy in team.items():
        # Agents with adapters on one base share an engine, which samples them in one batch.
        key = shared_engine(policy) or policy
        groups.setdefault(id(key), []).append(agent)
    return list(groups.values())


def sample_row(rollout: Rollout, number: int) -> dict[str, Any]:
    """Return an episode as a row of `episodes.jsonl`.

    It has `sample`, the number among the episodes of its start; in `tokens` those that each agent sampled in each
    turn, and in `prompt_tokens` those that it was asked with (`None` where nobody knows).
    """
    return {
        **episode_row(rollout, 0, "eval"),
        "sample": number,
        "tokens": [_sums(group, "num_tokens") for group in rollout.groups],
        "prompt_tokens": [_sums(group, "prompt_tokens") for group in rollout.groups],
    }


def _sums(group: Group, count: str) -> dict[str, int | None]:
    """Add up a count over the answers of each agent, drafts included; `None` if one of them is not known."""
    sums: dict[str, int | None] = {}
    for agent in group.completions:
        answers = [c for groups in (group.completions, *group.drafts) for c in groups[agent]]
        counts = [getattr(answer, count) for answer in answers]
        sums[agent] = None if None in counts else sum(counts)
    return sums


def read_rollout(row: Mapping[str, Any]) -> Rollout:
    """Build the rollout of a row of `episodes.jsonl`, with tokens if they were recorded."""
    groups = []
    for group in row["groups"]:
        reasons, tokens = group["finish_reasons"], group.get("token_ids", {})
        completions = {
            agent: tuple(
                Completion(text, tuple(ids), finish_reason=reason)
                for text, reason, ids in zip(
                    texts,
                    reasons[agent],
                    tokens.get(agent, [()] * len(texts)),  # older rows have no tokens
                    strict=True,
                )
            )
            for agent, texts in group["completions"].items()
        }
        groups.append(
            Group(
                turn=group["turn"],
                parent=Parent(**group["parent"]) if group["parent"] else None,
                prompts=group["prompts"],
                completions=completions,
                joint=tuple(map(tuple, group["joint"])),
                rewards=tuple(group["rewards"]),
                infos=tuple(group["infos"]),
                chosen=group["chosen"],
                anchors=tuple(map(tuple, group.get("anchors", ()))),
                scores=tuple(group.get("scores", ())),
            )
        )
    return Rollout(
        Start(**row["start"]), tuple(groups), row["final"], pooled=row.get("pooled", False)
    )


ON_ERROR = ("raise", "skip")
"""Choices once a request to a server has failed for good: end the evaluation, or go on without its episode."""

Batch = tuple[int, Sequence[Start]]
"""The number of a sample, and the episodes of it that are played together."""


def check_on_error(choice: str) -> None:
    """Check a choice of `ON_ERROR`.

    Raises:
        ConfigError: If it is none.
    """
    if choice not in ON_ERROR:
        raise ConfigError(unknown("on_error", choice, ON_ERROR))


@dataclass(frozen=True)
class PlayedBatch:
    """The outcome of a batch."""

    batch: Batch
    rows: Sequence[dict[str, Any]]
    """Those of `episodes.jsonl`; none if a request has failed."""
    seconds: dict[str, float]
    """Spent by agents and `environment`."""
    error: EndpointError | None = None


@dataclass(frozen=True)
class EpisodePlayer:
    """A team, its way to act, and the environment that it plays."""

    env: TextEnv
    team: Team
    act: Act
    seed: int

    @property
    def waiting(self) -> int:
        """Most episodes that may wait for a server at once; 0 of a team that asks none."""
        return max(
            (p.max_parallel for p in self.team.values() if isinstance(p, Endpoint)), default=0
        )

    def play(self, batches: Sequence[Batch]) -> Iterator[PlayedBatch]:
        """Play one batch after the other; its sample and its first start decide its random numbers."""
        for number, starts in batches:
            # Random numbers depend on the sample and the first task alone, so that a batch that is
            # played again gives the same rows.
            first = starts[0]
            self._restart(number, str(first.seed if first.task_id is None else first.task_id))
            yield self._batch(self.env, (number, starts))

    def play_apart(
        self, batches: Sequence[Batch], parallel: int, skip_failed: bool
    ) -> Iterator[PlayedBatch]:
        """Play batches in threads, and yield them in the order in which they end, sample by sample.

        Branches are played where they can step in threads (`branches_in_threads`); any other environment is played
        itself, one batch after the other.

        Args:
            batches: What is played, in the order of the samples.
            parallel: How many batches are played at once.
            skip_failed: Whether to yield a batch in which a request has failed, and go on; otherwise none begins
                after it, and those that have begun are played to their end.

        Raises:
            EndpointError: If a request has failed, and `skip_failed` is false.
        """
        for number, group in groupby(batches, key=itemgetter(0)):
            self._restart(number)
            yield from self._play_sample(list(group), parallel, skip_failed)

    def _play_sample(
        self, batches: Sequence[Batch], parallel: int, skip_failed: bool
    ) -> Iterator[PlayedBatch]:
        # An event instead of a cancelled pool: what was paid for is played to its end.
        env, stopped = self.env, Event()
        apart = branches_in_threads(env)
        failed: EndpointError | None = None

        def play(batch: Batch) -> PlayedBatch | None:
            if stopped.is_set():
                return None
            outcome = self._batch(branch(env) if apart else env, batch)
            if outcome.error is not None and not skip_failed:
                stopped.set()
            return outcome

        # Threads of such a pool are daemons, so that Ctrl-C waits for no server.
        # An environment that cannot branch in threads is played by one thread.
        threads = min(parallel, len(batches)) if apart else 1
        with ThreadPool(threads) as pool:
            for outcome in pool.imap_unordered(play, batches):
                if outcome is not None and (outcome.error is None or skip_failed):
                    yield outcome
                elif outcome is not None:
                    failed = failed or outcome.error
        if failed is not None:
            raise failed

    def _batch(self, env: TextEnv, batch: Batch) -> PlayedBatch:
        clock = Timer()
        number, starts = batch
        seed_noise(env, self.seed, "evaluation", number, *map(str, starts[:1]))
        try:
            rollouts = play_episodes(env, self.team, starts, act=self.act, timer=clock)
        # A failed request costs its own episode only.
        except EndpointError as error:
            return PlayedBatch(batch, [], _agent_seconds(clock), error)
        rows = [sample_row(rollout, number) for rollout in rollouts]
        return PlayedBatch(batch, rows, _agent_seconds(clock))

    def _restart(self, *names: int | str) -> None:
        """Give every policy that samples random numbers of its own for a part of the evaluation."""
        for name, policy in distinct_policies(self.team).items():
            if isinstance(policy, Seedable):
                policy.seed(int(stream(self.seed, "evaluation", *names, name).integers(2**32)))


def _agent_seconds(clock: Timer) -> dict[str, float]:
    """Return the seconds of the agents, and those of steps as the `environment`'s."""
    return {"environment" if k == "stepping" else k: s for k, s in clock.seconds.items()}


Row = Mapping[str, Any]

REWARD = "last/reward_mean"
"""The measure that teams are ranked by: the reward at the end of the episode."""

COOPERATION = {"uses_aux": 0.5, "not_wrapper": 1.0, "aux_ignored": -0.5}
"""The components of the code reward that tell how helpers are used, and their points where all of them are."""

_OF_GROUPS = ("reward_std", "stopped_early")
"""Metrics of several samples and of groups that stop early: an episode has neither."""


def measures(row: Row) -> dict[str, float]:
    """Compute all measures of an episode; those that it has no value for are missing."""
    values = {
        key: value
        for key, value in reward_metrics([read_rollout(row)]).items()
        if key not in _OF_GROUPS and not key.endswith("/groups")
    }
    turns = len(row["groups"])
    values["turns"] = float(turns)
    for k in range(2, turns + 1):
        # The gain from feedback, turn by turn.
        before, after = (values[f"turn_{turn}/reward_mean"] for turn in (k - 1, k))
        values[f"turn_{k}/improvement"] = after - before
    return {**values, **_tests(row), **_cooperation(row), **_refusals(row), **_tokens(row)}


def episode_passes(row: Row) -> bool:
    """Check whether pass@k counts an episode: all tests pass in the end, or, where there is none, it is solved."""
    return passes(_last_info(row))


def passes(info: Mapping[str, float]) -> bool:
    """Check the same from the infos of a turn."""
    # Tasks with tests follow the pass@k of HumanEval: all tests pass.
    if info.get("tests_total"):
        return bool(info["tests_passed"] == info["tests_total"])
    return bool(info.get("solved", 0.0))


def is_share(measure: str) -> bool:
    """Check whether a measure lies between 0 and 1, so that equal values still leave room for chance."""
    shares = ("truncated/", "refused/", "cooperation/", "pass@")
    return measure.startswith(shares) or measure.endswith(("solved", "tests_passed"))


def estimate_measure(measure: str, scores: ArrayLike) -> Estimate:
    """Estimate a measure from scores of shape (tasks,) or (seeds, tasks)."""
    return share(scores) if is_share(measure) else bootstrap(scores)


def _last_info(row: Row) -> Mapping[str, float]:
    info: Mapping[str, float] = row["groups"][-1]["infos"][0]
    return info


def _tests(row: Row) -> dict[str, float]:
    info = _last_info(row)
    if not info.get("tests_total"):
        return {}
    return {
        "tests_passed": info["tests_passed"] / info["tests_total"],
        "all_tests_passed": float(episode_passes(row)),
    }


def _cooperation(row: Row) -> dict[str, float]:
    info = _last_info(row)
    if len(row["groups"][-1]["completions"]) < 2:
        return {}
    return {
        f"cooperation/{name}": info[f"reward/{name}"] / points + 0.0  # 0.0 / -0.5 is -0.0
        for name, points in COOPERATION.items()
        if f"reward/{name}" in info
    }


def _refusals(row: Row) -> dict[str, float]:
    """Compute the share of each agent's completions that a remote model refused."""
    refusals: dict[str, list[bool]] = {}
    for group in row["groups"]:
        for agent, reasons in group["finish_reasons"].items():
            refusals.setdefault(agent, []).extend(reason == REFUSAL for reason in reasons)
    return {f"refused/{agent}": sum(flags) / len(flags) for agent, flags in refusals.items()}


def _tokens(row: Row) -> dict[str, float]:
    """Count the tokens of an episode, sampled and of prompts, by agent and in all, as far as they are known."""
    totals: dict[str, float] = {}
    for name in ("tokens", "prompt_tokens"):
        turns: list[dict[str, int | None]] = row.get(name, [{}])  # older rows count no prompts
        of_agents = {}
        for agent in turns[0]:
            counts = [turn[agent] for turn in turns]
            if None not in counts:
                of_agents[f"{name}/{agent}"] = float(sum(filter(None, counts)))
        if of_agents and len(of_agents) == len(turns[0]):
            of_agents[name] = sum(of_agents.values())
        totals |= of_agents
    return totals
