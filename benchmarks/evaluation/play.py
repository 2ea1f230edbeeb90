"""Episodes of evaluations: how a team plays them, their rows, and the measures of a row.

`llm_decpomdp.benchmarks.evaluation.baselines` has other ways to act.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from math import gcd
from multiprocessing.pool import ThreadPool
from threading import Event, Lock
from typing import Any

from llm_decpomdp.agents import Endpoint, EndpointError
from llm_decpomdp.algorithms.rollouts.collection import Act, Move, Prompts, sample_groups
from llm_decpomdp.algorithms.rollouts.histories import restore_histories
from llm_decpomdp.algorithms.rollouts.play import play_episodes
from llm_decpomdp.algorithms.rollouts.rollout import (
    Completions,
    Group,
    Parent,
    Rollout,
    Start,
    TextEnv,
    Timer,
)
from llm_decpomdp.algorithms.training.metrics import episode_row, reward_metrics
from llm_decpomdp.benchmarks.runs.results import sequential_tokens
from llm_decpomdp.branching import branch, branches_in_threads, seed_noise
from llm_decpomdp.policy import (
    REFUSAL,
    Completion,
    Seedable,
    Team,
    distinct_policies,
    policy_attribute,
    shared_engine,
    turns_before,
)
from llm_decpomdp.seeding import stream

# Policies of this process are not thread-safe.
_ONE_AT_A_TIME = Lock()


def act_simultaneously(
    team: Team,
    envs: Sequence[TextEnv],
    prompts: Sequence[Prompts],
    timer: Timer,
    *,
    share_prompts: bool = False,
) -> list[Move]:
    """Let all agents answer at the same time, without seeing each other's answers.

    Agents that are sampled in one batch share their seconds, under a name such as `aux_0+main_0`. With
    `share_prompts`, a model computes equal prompts of successive states once, if each occurs equally often.
    """
    answers: list[Completions] = [{} for _ in prompts]
    for agents in group_by_engine(team):
        # Requests to a server may run in parallel.
        alone = nullcontext() if isinstance(team[agents[0]], Endpoint) else _ONE_AT_A_TIME
        part = [{agent: texts[agent] for agent in agents if agent in texts} for texts in prompts]
        players = {agent: team[agent] for agent in agents}
        size = _repetitions(players, part) if share_prompts else 1
        with alone, timer("+".join(agents)):
            # Samples of one start stand side by side, so every size-th prompt stands for them.
            samples = sample_groups(players, envs[::size], part[::size], size)
        for state, completions in enumerate(answers):
            groups = samples[state // size]
            completions |= {agent: (group[state % size],) for agent, group in groups.items()}
    return [
        Move(dict(texts), {agent: completions[agent] for agent in texts})
        for texts, completions in zip(prompts, answers, strict=True)
    ]


def _repetitions(team: Team, prompts: Sequence[Prompts]) -> int:
    """Return how often the prompts of each state are repeated by the states that follow it; 1 if that differs."""
    policies = team.values()
    # Policies that read the environment may answer equal prompts differently.
    reads_env = (policy_attribute(p, n) for p in policies for n in ("generate_with_envs", "member"))
    if any(attribute is not None for attribute in reads_env):
        return 1
    # As keys, since a text is equal to each dialogue that ends with it.
    keys = ({a: (str(text), turns_before(text)) for a, text in texts.items()} for texts in prompts)
    # One size for all prompts: the largest that divides each series of equal ones.
    return gcd(*(len(list(equal)) for _, equal in groupby(keys)))


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

    `sample` is its number among the episodes of its start. `tokens` and `prompt_tokens` have the sampled tokens
    and those of the prompts, drafts included, by turn and agent; `None` if they are unknown.
    """
    row = {**episode_row(rollout, 0, "eval"), "sample": number}
    for name, attribute in (("tokens", "num_tokens"), ("prompt_tokens", "prompt_tokens")):
        turns: list[dict[str, int | None]] = [{} for _ in rollout.groups]
        for group, sums in zip(rollout.groups, turns, strict=True):
            for agent in group.completions:
                answers = [c for part in (group.completions, *group.drafts) for c in part[agent]]
                counts = [getattr(answer, attribute) for answer in answers]
                sums[agent] = None if None in counts else sum(counts)
        row[name] = turns
    return row


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
                own={agent: tuple(points) for agent, points in group.get("own", {}).items()},
            )
        )
    dialogues = tuple(row.get("dialogues", ()))
    return Rollout(
        Start(**row["start"]),
        restore_histories(groups, dialogues),
        row["final"],
        pooled=row.get("pooled", False),
        dialogues=dialogues,
    )


Batch = tuple[range, Sequence[Start]]
"""Numbers of samples, and starts. All these samples of these starts are played together."""


def episodes_of(batch: Batch) -> list[tuple[int, Start]]:
    """Return the number and the start of each episode of a batch; the samples of a start stand together."""
    numbers, starts = batch
    return [(number, start) for start in starts for number in numbers]


@dataclass(frozen=True)
class PlayedBatch:
    """The rows of `episodes.jsonl` of a batch, none if a request failed, and the seconds of each agent."""

    batch: Batch
    rows: Sequence[dict[str, Any]]
    seconds: dict[str, float]
    error: EndpointError | None = None


@dataclass(frozen=True)
class EpisodePlayer:
    """Plays episodes of an environment with a team and its way to act."""

    env: TextEnv
    team: Team
    act: Act
    seed: int

    @property
    def waiting(self) -> int:
        """Maximum number of parallel requests to servers; 0 for a team without remote models."""
        return max(
            (p.max_parallel for p in self.team.values() if isinstance(p, Endpoint)), default=0
        )

    def play(self, batches: Sequence[Batch]) -> Iterator[PlayedBatch]:
        """Play one batch after the other."""
        for numbers, starts in batches:
            # Random numbers depend only on the first sample and the first task, so that a batch that is
            # played again gives the same rows.
            first = starts[0]
            task = first.seed if first.task_id is None else first.task_id
            self._restart(numbers.start, str(task))
            yield self._batch(self.env, (numbers, starts))

    def play_apart(
        self, batches: Sequence[Batch], parallel: int, skip_failed: bool
    ) -> Iterator[PlayedBatch]:
        """Play batches in threads, sample by sample, and yield them in the order in which they end.

        Args:
            batches: The batches, in the order of the samples.
            parallel: Number of batches that are played at once, if the environment can branch in threads.
            skip_failed: Whether to yield a batch with a failed request, and go on. Otherwise no new batch begins
                after it, but those that have begun are played to their end.

        Raises:
            EndpointError: If a request has failed, and `skip_failed` is false.
        """
        env, apart = self.env, branches_in_threads(self.env)
        # An event instead of a cancelled pool: an episode whose requests were paid for is finished.
        stopped = Event()

        def play(batch: Batch) -> PlayedBatch | None:
            if stopped.is_set():
                return None
            outcome = self._batch(branch(env) if apart else env, batch)
            if outcome.error is not None and not skip_failed:
                stopped.set()
            return outcome

        for numbers, group in groupby(batches, key=lambda batch: batch[0]):
            self._restart(numbers.start)
            of_sample, failed = list(group), None
            # The threads of this pool are daemons, so that Ctrl-C does not wait for a server.
            with ThreadPool(min(parallel, len(of_sample)) if apart else 1) as pool:
                for outcome in pool.imap_unordered(play, of_sample):
                    if outcome is None:
                        continue
                    if outcome.error is None or skip_failed:
                        yield outcome
                    else:
                        failed = failed or outcome.error
            if failed is not None:
                raise failed

    def _batch(self, env: TextEnv, batch: Batch) -> PlayedBatch:
        clock, error = Timer(), None
        numbers, starts = batch
        episodes = episodes_of(batch)
        act = self.act
        if act is act_simultaneously and len(numbers) > 1:
            act = partial(act_simultaneously, share_prompts=True)
        rows: list[dict[str, Any]] = []
        seed_noise(env, self.seed, "evaluation", numbers.start, *map(str, starts[:1]))
        try:
            rollouts = play_episodes(
                env, self.team, [start for _, start in episodes], act=act, timer=clock
            )
            pairs = zip(rollouts, episodes, strict=True)
            rows = [sample_row(rollout, number) for rollout, (number, _) in pairs]
        # A failed request costs only its own episode.
        except EndpointError as failure:
            error = failure
        seconds = {"environment" if k == "stepping" else k: s for k, s in clock.seconds.items()}
        return PlayedBatch(batch, rows, seconds, error)

    def _restart(self, *names: int | str) -> None:
        """Restart the random numbers of every policy that samples, for a part of the evaluation."""
        for name, policy in distinct_policies(self.team).items():
            if isinstance(policy, Seedable):
                policy.seed(int(stream(self.seed, "evaluation", *names, name).integers(2**32)))


Row = Mapping[str, Any]

REWARD = "last/reward_mean"
"""The measure that ranks teams: the reward at the end of the episode."""

DECODING_SPEED = 50.0
"""Tokens per second of the speed model of `answer_seconds`: one stream of a model behind a server."""

TURN_SECONDS = 0.2
"""Seconds of each turn before its first token, in the speed model of `answer_seconds`."""

COOPERATION = {"uses_aux": 0.5, "not_wrapper": 1.0, "aux_ignored": -0.5}
"""The components of the code reward for the use of helpers, and their full points."""


def measures(row: Row) -> dict[str, float]:
    """Compute all measures of an episode that have a value."""
    values = {
        key: value
        for key, value in reward_metrics([read_rollout(row)]).items()
        # Metrics of several samples and of groups, which a single episode does not have.
        if key not in ("reward_std", "stopped_early") and not key.endswith("/groups")
    }
    turns, info = len(row["groups"]), _last_info(row)
    values["turns"] = float(turns)
    for k in range(2, turns + 1):
        before, after = (values[f"turn_{turn}/reward_mean"] for turn in (k - 1, k))
        values[f"turn_{k}/improvement"] = after - before
    if info.get("tests_total"):
        values["tests_passed"] = info["tests_passed"] / info["tests_total"]
        values["all_tests_passed"] = float(episode_passes(row))
    authors = {agent for group in row["groups"] for agent in group["completions"]}
    if len(authors) > 1:
        for name, points in COOPERATION.items():
            if f"reward/{name}" in info:
                # The sum turns -0.0, which is 0.0 / -0.5, into 0.0.
                values[f"cooperation/{name}"] = info[f"reward/{name}"] / points + 0.0
    refusals: dict[str, list[bool]] = {}
    for group in row["groups"]:
        for agent, reasons in group["finish_reasons"].items():
            refusals.setdefault(agent, []).extend(reason == REFUSAL for reason in reasons)
    values |= {f"refused/{agent}": sum(flags) / len(flags) for agent, flags in refusals.items()}
    for name in ("tokens", "prompt_tokens"):
        by_turn: list[dict[str, int | None]] = row.get(name, [{}])  # older rows count no prompts
        totals = {}
        agents = {agent: 0 for turn in by_turn for agent in turn}
        for agent in agents:
            counts = [turn[agent] for turn in by_turn if agent in turn]
            if None not in counts:
                # `filter` tells mypy that no count is None; that it drops zeros changes no sum.
                totals[f"{name}/{agent}"] = float(sum(filter(None, counts)))
        if totals and len(totals) == len(agents):
            totals[name] = sum(totals.values())
        values |= totals
    if "tokens" in values and (sequential := sequential_tokens(row["tokens"])) is not None:
        seconds = sequential / DECODING_SPEED + TURN_SECONDS * len(row["tokens"])
        values |= {"sequential_tokens": sequential, "answer_seconds": seconds}
    return values


def episode_passes(row: Row) -> bool:
    """Check whether pass@k counts an episode, by `passes` of its last turn."""
    return passes(_last_info(row))


def passes(info: Mapping[str, float]) -> bool:
    """Check from the infos of a turn whether all tests pass, or without tests whether the task is solved."""
    # Tasks with tests follow the pass@k of HumanEval: all tests pass.
    if info.get("tests_total"):
        return bool(info["tests_passed"] == info["tests_total"])
    return bool(info.get("solved", 0.0))


def _last_info(row: Row) -> Mapping[str, float]:
    info: Mapping[str, float] = row["groups"][-1]["infos"][0]
    return info
