"""Whom a crew gives its batches, with workers that are placed late, never, or die."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.agents.remote.options import SamplerError, SamplerOptions, ServerLost
from llm_decpomdp.algorithms.rollout_workers.base import RolloutBatch
from llm_decpomdp.algorithms.rollout_workers.options import RolloutWorkerError
from llm_decpomdp.algorithms.rollout_workers.pool import (
    BatchFailure,
    BatchResult,
    RolloutRequest,
    RolloutWorkerPool,
    WorkerHandle,
    WorkerReady,
)
from llm_decpomdp.algorithms.rollouts.rollout import Start, Timer
from llm_decpomdp.algorithms.training.worker_source import EvaluationBatch


class Puppet(WorkerHandle):
    """A worker that says what a list holds, and in place of `play` what it has played."""

    def __init__(self, words: list[Any], placed: bool = True) -> None:
        self.words, self.is_placed = words, placed

    def assign(self, index: int, request: RolloutRequest) -> None:
        self.index, self.request = index, request

    def receive(self) -> WorkerReady | BatchResult | BatchFailure | None:
        word = self.words.pop(0)
        if word == "play":
            assert self.request is not None
            return BatchResult([], {"sampling": float(self.request.batch.index)})
        self.is_placed = self.is_placed or isinstance(word, WorkerReady)
        return word  # type: ignore[no-any-return]

    def terminate(self) -> None:
        self.words = []

    def end(self) -> str:
        return "a word"

    def log_tail(self) -> str:
        return "nothing"


class PuppetCrew(RolloutWorkerPool):
    """Starts the puppets of a list, and hears all that have something to say."""

    def __init__(
        self, puppets: list[Puppet], workers: int, max_retries: int = 3, samplers: Any = None
    ) -> None:
        super().__init__(workers, max_retries, samplers)
        self.puppets = puppets

    def _store(self, policies: Mapping[str, Any], version: int) -> Any:
        return version

    def _start(self) -> WorkerHandle:
        return self.puppets.pop(0)

    def _wait(self) -> list[Any]:
        able = [
            w for w in self.workers if w.words and (w.index is not None or w.words[0] != "play")
        ]
        assert able, "nobody will ever speak again"
        return able


class PuppetSampler:
    """Notes what a crew wants of a server, and gives it numbers."""

    def __init__(self, max_restarts: int = 3, exact: bool = False) -> None:
        self.options = SamplerOptions(engine="vllm", max_restarts=max_restarts, exact=exact)
        self.server = self
        self.wishes: list[str] = []

    def launch(self) -> None:
        self.wishes.append("launch")

    def update_weights(self, version: int) -> None:
        self.wishes.append(f"publish {version}")

    def serve(self) -> Any:
        self.wishes.append("serve")
        return len(self.wishes)

    def last_words(self) -> str:
        return "no room on the device"

    def close(self) -> None:
        self.wishes.append("close")


def batches(number: int) -> list[RolloutBatch]:
    return [EvaluationBatch(index, (Start(seed=index),), 0, 1) for index in range(number)]


def test_who_is_never_placed_keeps_nobody_waiting() -> None:
    able, unplaced = Puppet(["play"] * 4), Puppet([], placed=False)
    timer = Timer()
    assert PuppetCrew([able, unplaced], 2).run_batches(batches(4), timer) == [[]] * 4
    assert unplaced.request is None and timer.seconds == {"sampling": 6.0}


def test_who_is_placed_later_plays_what_is_left() -> None:
    late = Puppet([WorkerReady(), "play", "play"], placed=False)
    assert PuppetCrew([late], 1).run_batches(batches(2), Timer()) == [[], []]


def test_a_begun_bundle_is_played_once() -> None:
    able = Puppet(["play", "play"])
    rollout_worker = PuppetCrew([able], 1)
    rollout_worker.prefetch(batches(2))
    assert able.index == 0
    rollout_worker.run_batches(batches(2), Timer())
    assert not able.words


def test_a_death_without_a_batch_is_none_of_a_batch() -> None:
    puppets = [Puppet([None], placed=False) for _ in range(5)]
    rollout_worker = PuppetCrew([*puppets, Puppet(["play"])], 1, max_retries=0)
    assert rollout_worker.run_batches(batches(1), Timer()) == [[]]


def test_deaths_with_a_bundle_are_counted() -> None:
    rollout_worker = PuppetCrew(
        [Puppet([None]), Puppet([None]), Puppet(["play"])], 1, max_retries=1
    )
    with pytest.raises(RolloutWorkerError, match=r"2 workers have died of batch 0 of an eval"):
        rollout_worker.run_batches(batches(1), Timer())


LOSS = BatchFailure.from_error(ServerLost("no answer"))


def test_a_server_is_looked_after_once_for_all_workers_who_lost_it() -> None:
    server = PuppetSampler()
    workers = [Puppet([LOSS]), Puppet([LOSS]), Puppet(["play", "play"]), Puppet(["play"])]
    rollout_worker = PuppetCrew(list(workers), 2, samplers={"aux_0": server, "main_0": server})
    rollout_worker.update_weights({}, 5)
    assert server.wishes == ["launch", "publish 5", "serve"]
    timer = Timer()
    assert rollout_worker.run_batches(batches(3), timer) == [[]] * 3
    assert timer.seconds == {"sampling": 3.0}
    assert server.wishes[3:] == ["serve"] and rollout_worker.workers == workers[2:]
    orders = [worker.request for worker in workers[2:]]
    assert all(order and order.weights == (None, {"aux_0": 4, "main_0": 4}, 5) for order in orders)
    rollout_worker.close()
    assert server.wishes[4:] == ["close"]


def test_a_server_that_is_lost_too_often_with_a_bundle_ends_the_run() -> None:
    server = PuppetSampler(max_restarts=1)
    each_once = [Puppet([LOSS]), Puppet(["play"]), Puppet([LOSS]), Puppet(["play"])]
    rollout_worker = PuppetCrew(each_once, 1, samplers={"aux_0": server})
    rollout_worker.update_weights({}, 1)
    for _ in range(2):
        rollout_worker.run_batches(batches(1), Timer())
        rollout_worker.workers.clear()
    rollout_worker = PuppetCrew([Puppet([LOSS]), Puppet([LOSS])], 1, samplers={"aux_0": server})
    rollout_worker.update_weights({}, 1)
    told = (
        r"(?s)lost a server that samples 2 times as they sampled batch 0.*no answer.*no room on the"
    )
    with pytest.raises(SamplerError, match=told):
        rollout_worker.run_batches(batches(1), Timer())


def test_who_loses_a_server_does_not_keep_others_from_playing() -> None:
    workers = [Puppet([LOSS]), Puppet(["play", "play"])]
    rollout_worker = PuppetCrew(workers, 1, samplers={"aux_0": PuppetSampler()})
    rollout_worker.update_weights({}, 1)
    assert rollout_worker.run_batches(batches(2), Timer()) == [[], []]
    assert rollout_worker.workers[0].request.batch.index == 0  # it came last


def test_other_words_of_a_server_end_the_run_at_once() -> None:
    refusal = BatchFailure.from_error(SamplerError("a prompt is too long"))
    rollout_worker = PuppetCrew([Puppet([refusal])], 1, samplers={"aux_0": PuppetSampler()})
    with pytest.raises(SamplerError, match="a prompt is too long"):
        rollout_worker.run_batches(batches(1), Timer())


def test_weights_that_no_server_has_go_to_the_workers() -> None:
    rollout_worker = PuppetCrew([Puppet(["play"])], 1, samplers={"aux_0": PuppetSampler()})
    aux, main = tiny_causal_lm("ab"), tiny_causal_lm("ab")
    aux.engine.remote = object()  # type: ignore[assignment]
    kept: list[set[str]] = []
    rollout_worker._store = lambda policies, version: kept.append({*policies})  # type: ignore[method-assign]
    rollout_worker.update_weights({"aux_0": aux, "main_0": main}, 1)
    rollout_worker.update_weights({"aux_0": aux}, 1)
    assert kept == [{"main_0"}]


def test_a_server_that_holds_batches_back_is_refused() -> None:
    with pytest.raises(ValueError, match="samplers need exact=False"):
        PuppetCrew([], 1, samplers={"aux_0": PuppetSampler(exact=True)})
