"""Workers that take weights while they sample: order of batches, and what an announcement does."""

from __future__ import annotations

import threading
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.agents import CausalLM, Sampling, tiny_causal_lm
from llm_decpomdp.agents.inference.options import Caching
from llm_decpomdp.algorithms import Start, TrainerOptions, WorkerState
from llm_decpomdp.algorithms.rollout_workers import in_flight
from llm_decpomdp.algorithms.rollout_workers.in_flight import (
    AnnouncedWeights,
    Announcements,
    InFlightHandle,
    serve_in_flight,
)
from llm_decpomdp.algorithms.rollout_workers.pool import (
    BatchResult,
    RolloutRequest,
    WeightUpdate,
    save_weights,
)
from llm_decpomdp.algorithms.rollouts.rollout import Timer
from llm_decpomdp.algorithms.training.worker_source import UpdateBatch
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.rollout_workers.test_pool import Puppet, PuppetCrew, batches

BATCH = UpdateBatch(
    0, (Start(seed=1),), 1, TrainerOptions(rollout_batch_size=1, group_size=4), False
)


def team() -> dict[str, CausalLM]:
    return {
        agent: tiny_causal_lm("ab", Sampling(max_new_tokens=6), seed=seed)
        for agent, seed in (("x", 1), ("y", 2))
    }


class Driver:
    """The other end of a worker that runs in a thread; announces weights when a worker looks for the n-th time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.near, self.far = Pipe()
        self.team, self.folder = team(), folder
        self.state = WorkerState(EchoEnv(2), EchoEnv(2), self.team)
        self.announcements: dict[int, WeightUpdate] = {}
        self.looks = 0
        look = Announcements.look

        def counted(announced: Announcements) -> WeightUpdate:
            if (update := self.announcements.get(self.looks)) is not None:
                self.near.send(update)
            self.looks += 1
            return look(announced)

        monkeypatch.setattr(Announcements, "look", counted)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        try:
            serve_in_flight(self.far, self.state)
        except EOFError:
            return

    def write(self, version: int) -> WeightUpdate:
        """Write weights that are those of the team, but for a shift of all weights of the head by the version."""
        policies = team()
        with torch.no_grad():
            for place, policy in enumerate(policies.values()):
                head = policy.model.lm_head.weight
                head.add_(version * torch.linspace(-1, 1, head.numel()).view_as(head) * (1 + place))
        path = self.folder / f"{version}.pt"
        save_weights(policies, path)
        return WeightUpdate(path, {}, version)

    def play(self, weights: WeightUpdate) -> Any:
        self.near.send(RolloutRequest(BATCH, weights))
        result = self.near.recv()
        assert isinstance(result, BatchResult)
        return result.rollouts


def versions(rollouts: Any) -> list[tuple[int, ...]]:
    return [
        one.versions
        for rollout in rollouts
        for group in rollout.groups
        for completions in group.completions.values()
        for one in completions
    ]


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    running = Driver(tmp_path, monkeypatch)
    yield running
    running.near.close()


def test_weights_that_arrive_in_an_answer_write_the_rest_of_it(driver: Driver) -> None:
    first, second = driver.write(3), driver.write(4)
    before = driver.play(first)
    assert {*versions(before)} <= {(3,) * length for length in range(1, 7)}
    driver.announcements[driver.looks + 2 + 1 + 1] = second  # both models, the prompts, a token
    found = versions(driver.play(first))
    assert {len({*one}) for one in found} == {1, 2}
    mixed = next(one for one in found if len({*one}) == 2)
    assert mixed[:2] == (3, 3) and {*mixed[2:]} == {4}
    with torch.no_grad():
        states = torch.load(second.weights, weights_only=True)
        head = driver.team["x"].model.lm_head.weight
        assert torch.equal(head, states["x"]["weights"]["lm_head.weight"])
    assert {*versions(driver.play(second))} <= {(4,) * length for length in range(1, 7)}


def test_random_streams_do_not_begin_again_with_new_weights(driver: Driver) -> None:
    """With equal weights of another version, the texts of both turns are those without an announcement."""
    first = driver.write(3)
    before = driver.play(first)
    again = Path(driver.folder, "again.pt")
    again.write_bytes(first.weights.read_bytes())
    driver.announcements[driver.looks + 4] = first._replace(weights=again, version=4)
    after = driver.play(first)
    texts = [
        [one.text for g in r.groups for c in g.completions.values() for one in c]
        for r in (*before, *after)
    ]
    assert texts[0] == texts[1] and any(4 in one for one in versions(after))


def test_weights_that_were_replaced_before_they_were_read_are_skipped(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_flight, "POLL", 0.0)
    gone, newest = driver.write(3), driver.write(4)
    gone.weights.unlink()
    driver.announcements[driver.looks + 4] = newest
    assert {version for one in versions(driver.play(gone)) for version in one} == {4}


def test_options_without_effect_are_refused_where_weights_arrive(driver: Driver) -> None:
    """A frozen policy gets no weights, so it samples with its options."""
    for policy in driver.team.values():
        policy.engine.caching = Caching(continuous_batching=2)
    announced = Announcements(driver.far)
    announced.newest = driver.write(3)
    with pytest.raises(ValueError, match=r"has continuous_batching=2: .*ProcessRolloutWorkers"):
        AnnouncedWeights({"x": driver.team["x"]}, announced).load()
    AnnouncedWeights({"frozen": driver.team["y"]}, announced).load()
    assert driver.team["y"].engine.sample_in_flight is None


def test_weights_for_a_batch_that_has_just_ended_are_no_request(driver: Driver) -> None:
    weights = driver.write(3)
    driver.near.send(weights)
    assert driver.play(weights)


class FakeConnection:
    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, message: Any) -> None:
        self.sent.append(message)


def test_a_request_that_was_not_sent_yet_names_the_newest_weights() -> None:
    handle = object.__new__(InFlightHandle)
    handle.connection = FakeConnection()  # type: ignore[assignment]
    handle._ready, old, new = False, WeightUpdate("old", {}), WeightUpdate("new", {}, 1)
    handle.assign(0, RolloutRequest(BATCH, old))
    handle.announce(new)
    assert not handle.connection.sent and handle.request == (BATCH, new)  # type: ignore[attr-defined]
    handle._ready = True
    handle._send()
    handle.announce(old)
    assert handle.connection.sent == [(BATCH, new), old]  # type: ignore[attr-defined]


def test_batches_of_several_updates_wait_for_each_other() -> None:
    """An evaluation comes before batches for later updates, whose results are kept until they are asked for."""
    one, two, three, evaluation = ([batch] for batch in (*batches(3), *batches(4)[3:]))
    worker = Puppet(["play"] * 4)
    pool = PuppetCrew([worker], 1)
    pool.prefetch(one)
    pool.prefetch(two)
    pool.prefetch(three)
    order = []
    assign = worker.assign
    worker.assign = lambda index, request: (
        order.append(request.batch.index),
        assign(index, request),
    )  # type: ignore
    assert pool.run_batches(one, Timer()) == [[]] and worker.index is not None  # it goes on at once
    assert pool.run_batches(evaluation, Timer()) == [[]]
    timer = Timer()
    assert pool.run_batches(three, timer) == [[]] and timer.seconds == {"sampling": 2.0}
    assert pool.run_batches(two, Timer()) == [[]]
    assert order == [1, 3, 2]  # index of each batch
