"""Small runs for tests: in this process, in processes that kill themselves, and in two that work together.

python -m tests.algorithms.runs kill FOLDER MOMENT...
python -m tests.algorithms.runs pair FOLDER
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS, Algorithm
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.preferences.stored import StoredSource
from llm_decpomdp.algorithms.rollout_workers.base import RolloutBatch, RolloutWorker, WorkerState
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, Timer
from llm_decpomdp.algorithms.rollouts.rollout_options import TrainerOptions
from llm_decpomdp.algorithms.sources import add_wrappers
from llm_decpomdp.algorithms.training import checkpoint, run_log
from llm_decpomdp.algorithms.training.callbacks import Interrupted
from llm_decpomdp.algorithms.training.checkpoint_manager import CheckpointManager
from llm_decpomdp.algorithms.training.rollout_source import RolloutSource, SampledSource
from llm_decpomdp.algorithms.training.run_log import RunLog
from llm_decpomdp.algorithms.training.sft import SupervisedTraining
from llm_decpomdp.algorithms.training.trainer import PeriodicEvaluation, Trainer
from llm_decpomdp.algorithms.training.worker_source import WorkerEvaluation, WorkerSource
from llm_decpomdp.utils.storage import RunFolder, read_json_lines
from studies.hypotheses.training import HashedParts
from tests.algorithms.conftest import EchoEnv, Recording, Recurrent, TinyPolicy
from tests.algorithms.preferences.teams import recurrent
from tests.algorithms.steps import declare
from tests.support.processes import ROOT

BATCHES = [[Start(seed=n), Start(seed=n + 1)] for n in range(4)]
EVAL_STARTS = [Start(seed=n) for n in range(20)]
ALIKE_STARTS = [Start(seed=n) for n in range(0, 40, 2)]
"""All ask the same."""


def make_team() -> dict[str, TinyPolicy]:
    """Two policies with weights of their own, the same ones each time."""
    models = {"x": Recurrent(3, 8, seed=1), "y": Recurrent(3, 8, seed=2)}
    return {agent: TinyPolicy(model, "ab", 3) for agent, model in models.items()}


def recording_team() -> dict[str, Recording]:
    """The same team, which records log-probabilities."""
    return {
        agent: Recording(policy.model, policy.alphabet, policy.max_tokens)
        for agent, policy in make_team().items()
    }


class LocalWorker(RolloutWorker):
    """A rollout worker in this process, which plays one batch after the other."""

    in_workers = False

    def __init__(self, state: WorkerState) -> None:
        self.state = state

    def update_weights(self, policies: Any, version: int) -> None:
        """Do nothing: the weights are in this process."""

    def prefetch(self, batches: Sequence[RolloutBatch]) -> None:
        """Do nothing: this process has other work."""

    def run_batches(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Play the batches."""
        return [batch.play(self.state, timer) for batch in batches]


class Run(Trainer):
    """A trainer with all that a run has, as `benchmarks/runs` builds it."""

    def __init__(
        self,
        folder: Path,
        batches: Sequence[Sequence[Start]],
        learner: LearnerOptions,
        options: TrainerOptions,
        *,
        env: Any = None,
        team: Any = None,
        algorithm: str | Algorithm = "magrpo",
        eval_env: Any = None,
        eval_starts: Sequence[Start] = EVAL_STARTS,
        warm_start: SupervisedTraining | None = None,
        problems: Sequence[Start] = (),
        opponent: Any = None,
        rollout_worker: Any = None,
        stored: Sequence[Sequence[Rollout]] = (),
    ) -> None:
        env, team = env or EchoEnv(2), team or make_team()
        eval_env = eval_env or env
        algorithm = ALGORITHMS[algorithm] if isinstance(algorithm, str) else algorithm
        learns = algorithm.make_learner(team, learner, options.seed)
        source: RolloutSource
        if stored:
            source = StoredSource(stored)
        elif rollout_worker is None:
            source = SampledSource(env, team, learns, options, batches, problems)
        else:
            source = WorkerSource(
                env, team, learns, options, batches, problems, worker=rollout_worker
            )
        if opponent or options.wraps_source or learns.has_opponent:
            source = add_wrappers(
                source,
                env,
                team,
                learns,
                options,
                problems=problems,
                opponents=opponent,
                can_prefetch=rollout_worker is not None,
            )
        self.folder, self.batches, self.warm_start = RunFolder(folder), batches, warm_start
        self.checkpoints, self.run_log = CheckpointManager(self.folder), RunLog(self.folder, False)
        self.evaluation = (
            PeriodicEvaluation(eval_env, eval_starts)
            if rollout_worker is None
            else WorkerEvaluation(rollout_worker, eval_env, eval_starts)
        )
        phases = [] if warm_start is None else [warm_start]
        callbacks = [self.checkpoints, self.run_log, *phases, self.evaluation]
        super().__init__(env, team, learns, source, options, callbacks)

    def run_updates(self) -> dict[str, Any]:
        """Train, and return what the log sums up."""
        self.train()
        return self.summary()

    def summary(self) -> dict[str, Any]:
        """Return the number of updates, and what the log sums up."""
        return {"updates": self.learner.updates, **self.run_log.summary()}

    @property
    def saved(self) -> int | None:
        """The newest update with a checkpoint."""
        return self.checkpoints.newest

    def save(self) -> None:
        """Write a checkpoint."""
        self.checkpoints.save()

    def load_best(self) -> dict[str, Any]:
        """Load the best policies."""
        return self.checkpoints.load_best()


def build(folder: Path, batches: Sequence[Sequence[Start]] = BATCHES, **options: Any) -> Run:
    """Build a run; `options` are those of the trainer, and any of the other arguments of `Run`."""
    names = ("env", "eval_env", "team", "algorithm", "eval_starts", "warm_start", "problems")
    names += ("opponent", "rollout_worker", "stored")
    given = {name: options.pop(name) for name in names if name in options}
    given["algorithm"], learner = declare(
        given.get("algorithm", "magrpo"), {"learning_rate": 0.05, **options.pop("learner", {})}
    )
    return Run(folder, batches, learner, TrainerOptions(**{"group_size": 3, **options}), **given)


def weights(trainer: Run) -> list[torch.Tensor]:
    policies = trainer.learner.policies.values()
    return [weight.detach() for policy in policies for weight in policy.parameters()]


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, without those entries that a clock decides."""
    timed = ("_seconds", "_per_second")
    return [{k: v for k, v in r.items() if not k.endswith(timed)} for r in read_json_lines(path)]


def require_equal(one: Run, other: Run) -> None:
    """Check that two runs wrote the same, and left the same weights and optimizers."""
    for name in ("metrics", "episodes"):
        assert rows(getattr(one.folder, name)) == rows(getattr(other.folder, name))
    for a, b in zip(weights(one), weights(other), strict=True):
        assert torch.equal(a, b)
    optimizers = [trainer.learner.state_dict()["optimizers"] for trainer in (one, other)]
    for name in optimizers[0]:
        moments = [of_one[name]["adamw"]["state"] for of_one in optimizers]
        for a, b in zip(moments[0].values(), moments[1].values(), strict=True):
            assert all(torch.equal(a[key], b[key]) for key in a)


# ------------------------------------------------------------------- processes that kill themselves

KILLED: dict[str, Any] = {
    "checkpoint_every": 1,
    "eval_every": 1,
    "eval_starts": EVAL_STARTS[:4],
    "keep_best": True,
    "learner": {"num_iterations": 2},
}
"""Options of the runs that are killed."""
MOMENTS = ("sampling", "between policies", "between steps", "writing", "saving", "pruning")
"""When a run is killed."""


def stop(run: Run, owner: Any, name: str, call: int) -> None:
    """Run until a signal on a call of a method, counted from 0."""
    setattr(owner, name, on_call(call, getattr(owner, name), interrupt))
    with pytest.raises(Interrupted):
        run.run_updates()


def require_resumed(straight: Run, again: Run, done: int | None = None) -> None:
    """Check that a stopped run continues after `done` updates, and ends as one that nothing stopped."""
    found = again.resume()
    assert done is None or found == done
    again.run_updates()
    require_equal(straight, again)


def require_exact_resume(
    folder: Path, batches: Sequence[Sequence[Start]] = BATCHES, **options: Any
) -> Run:
    """Check that a run of two updates that is made longer equals one that was as long from the start."""
    straight = build(folder / "straight", batches, **options)
    straight.run_updates()
    build(folder / "parts", batches[:2], checkpoint_every=2, **options).run_updates()
    require_resumed(straight, again := build(folder / "parts", batches, **options), 2)
    return again


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def on_call(number: int, function: Callable[..., Any], then: Callable[..., Any] = die) -> Any:
    """`function`, but `then` in its place on a call, counted from 0."""
    calls = iter(range(10**6))
    return lambda *a, **k: (then if next(calls) == number else function)(*a, **k)


def run_and_die(folder: Path, moment: str) -> None:
    """Train, and be killed in the third update or soon after it."""
    trainer = build(folder, **KILLED)
    optimizers = trainer.learner._optimizers
    if moment == "sampling":  # an update asks twice, and so does an evaluation in one or two parts
        trainer._run_update = on_call(2, trainer._run_update, lambda: sample_and_die(trainer))
    elif moment == "between policies":
        optimizers["y"].step = on_call(5, optimizers["y"].step)
    elif moment == "between steps":
        optimizers["x"].step = on_call(5, optimizers["x"].step)
    elif moment == "writing":
        half = lambda path, row: (path.open("a").write('{"update": 3, "ki'), die())  # noqa: E731
        run_log.append_json_line = on_call(22, run_log.append_json_line, half)
    elif moment == "saving":
        part = lambda state, file: (file.write(b"PK"), file.flush(), die())  # noqa: E731
        torch.save = on_call(5, torch.save, part)  # the first update tries the algorithm's state
    elif moment == "pruning":
        clear = lambda path, **_: (next(path.iterdir()).unlink(), die())  # noqa: E731
        checkpoint.shutil.rmtree = on_call(1, shutil.rmtree, clear)
    trainer.run_updates()


def sample_and_die(trainer: Run) -> None:
    trainer.team["y"].generate = die
    Trainer._run_update(trainer)


def fork(work: Callable[[], None]) -> int:
    """Do some work in a process of its own; its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


# --------------------------------------------------------------------- two processes that work together

UNEVEN = [BATCHES[0], BATCHES[1][:1], [*BATCHES[2], Start(seed=8)], BATCHES[3]]
"""Batches of two processes, one of which has nothing to do in the second update."""


BUNDLED: dict[str, Any] = {
    "rollout_batch_size": 1,
    "max_resample_rounds": 2,
    "problems": ALIKE_STARTS,
    "group_size": 2,
    "record_tokens": True,
    "learner": {"learning_rate": 0.0},
}
"""Options of a run that samples the same in any number of processes: its weights stay, to the last digit."""


def turns(folder: Path) -> Run:
    """Build a run in which agents take turns, and an update has an odd number of starts or a single one."""
    from tests.algorithms.rollout_workers.worker_states import take_turns  # which imports this file

    state = take_turns("probe-relay-turns-v0")
    options: dict[str, Any] = {
        "mode": "episodes",
        "rollout_batch_size": 1,
        "eval_starts": EVAL_STARTS[:3],
    }
    return build(folder, UNEVEN, env=state.env, team=state.team, **options)


def sampled(number: int = 8, group_size: int = 4) -> list[Rollout]:
    """Rollouts, the same ones each time."""
    starts, rng = [Start(seed=n) for n in range(number)], np.random.default_rng(0)
    settings: dict[str, Any] = {"group_size": group_size, "rng": rng, "views": True}
    return collect_rollouts(EchoEnv(2), make_team(), starts, **settings)


def sampled_for(name: str) -> list[Rollout]:
    """Rollouts for one of `LEARNERS`; those of an actor-critic have one or two turns."""
    return sampled(40, 1) if name == "critic" else sampled()


def one_sided(rollout: Rollout) -> Rollout:
    """The rollout with equal rewards, and without truncated completions of `y`."""
    groups = []
    for group in rollout.groups:
        y = tuple(replace(one, finish_reason="stop") for one in group.completions["y"])
        same = (0.0,) * len(group.rewards)
        groups.append(replace(group, rewards=same, completions={**group.completions, "y": y}))
    return replace(rollout, groups=tuple(groups))


def learned(
    rollouts: Sequence[Rollout], **options: Any
) -> tuple[list[torch.Tensor], dict[str, float]]:
    """The weights after three updates with the same rollouts, and the metrics of the last.

    In the second one `y` has nothing to learn, and `x` only if truncation is penalised.
    """
    team: dict[str, TinyPolicy] = make_team()
    algorithm, settings = declare(
        options.pop("algorithm", "magrpo"), {"learning_rate": 0.01, **options}
    )
    if algorithm.name == "madpo":
        team = {"x": recurrent(1), "y": recurrent(2)}
    learner = algorithm.make_learner(team, settings, features=HashedParts(size=16))
    learner.update(rollouts)
    learner.update([one_sided(rollout) for rollout in rollouts])
    metrics = learner.update(rollouts)
    return [weight.detach() for policy in team.values() for weight in policy.parameters()], metrics


LEARNERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "clipped": {"num_iterations": 2, "max_grad_norm": 0.1},
    "penalised": {"truncation": {"mode": "penalise", "overlong_penalty": 0.5}},
    "pairs": {"algorithm": "madpo", "num_iterations": 2, "max_grad_norm": 0.1},
    "history": {"algorithm": "madpo", "opponent": "history"},
    "critic": {"algorithm": "maac", "critic": {"learning_rate": 0.1, "gate": False}},
}


def work_together(folder: Path) -> None:
    """Do the work of one of the two processes."""
    processes.initialize(10)
    here = folder / f"process_{processes.rank()}"
    here.mkdir()
    for name, options in LEARNERS.items():
        torch.save(learned(processes.shard(sampled_for(name)), **options), here / f"{name}.pt")
    team = make_team()
    if processes.rank() == 1:  # begins elsewhere, and is given the weights of the first
        team["x"].model = Recurrent(3, 8, seed=7)
    straight = build(
        folder / "run",
        UNEVEN,
        team=team,
        eval_starts=ALIKE_STARTS,
        checkpoint_every=4,
        keep_best=True,
        eval_every=1,
    )
    summary = straight.run_updates()
    torch.save({"weights": weights(straight), "summary": summary}, here / "run.pt")
    if processes.rank() == 0:  # while the other goes on
        straight.load_best()
    build(folder / "parts", UNEVEN[:2], checkpoint_every=2).run_updates()
    parts = build(folder / "parts", UNEVEN, checkpoint_every=2)
    parts.resume()
    parts.run_updates()
    torch.save(weights(parts), here / "parts.pt")
    refilled = build(
        folder / "refilled", UNEVEN, max_resample_rounds=3, problems=ALIKE_STARTS, group_size=2
    )
    refilled.run_updates()
    torch.save(weights(refilled), here / "refilled.pt")
    lagged = {
        "max_async_level": 1,
        "max_resample_rounds": 1,
        "problems": ALIKE_STARTS,
        "group_size": 2,
    }
    build(folder / "lagged", UNEVEN, **lagged).run_updates()
    stopped = build(folder / "stopped", UNEVEN, **lagged)
    stopped.learner.accumulate = on_call(2, stopped.learner.accumulate, fail)  # type: ignore[method-assign]
    with suppress(RuntimeError):
        stopped.run_updates()
    again = build(folder / "stopped", UNEVEN, **lagged)
    assert again.resume() == 2
    again.run_updates()
    build(folder / "bundled", UNEVEN, **BUNDLED).run_updates()
    in_turns = turns(folder / "turns")
    in_turns.run_updates()
    torch.save(weights(in_turns), here / "turns.pt")
    collected = processes.gather_to_first([processes.rank()] * 2)
    torch.save(
        (collected, processes.compute_on_first(lambda: processes.rank())), here / "collected.pt"
    )
    broken = build(folder / "broken", UNEVEN)
    if processes.rank() == 1:
        broken._run_update = on_call(2, broken._run_update, interrupt)
    try:
        broken.run_updates()
    except Exception as error:
        (here / "broken.txt").write_text(type(error).__name__)


def fail(*_: Any) -> None:
    raise RuntimeError("a failure that all processes have")


def interrupt(*_: Any) -> None:
    signal.raise_signal(signal.SIGTERM)


def together(work: Callable[[], None]) -> None:
    """Start both processes, as a launcher does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    children = []
    for rank in range(2):
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        children.append(fork(work))
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]


def start(*arguments: str | Path, module: str = "tests.algorithms.runs") -> None:
    """Run a file in a process of its own, which fails if it is not done within ten minutes."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    # CUDA does not survive a fork, and two processes need two GPUs.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=600)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.optim.AdamW(
        [torch.nn.Parameter(torch.zeros(1))]
    ).step()  # imports much, once for all forks
    task, target = sys.argv[1], Path(sys.argv[2])
    if task == "kill":
        for when in sys.argv[3:]:
            _, status = os.waitpid(fork(lambda when=when: run_and_die(target / when, when)), 0)
            assert os.WTERMSIG(status) == signal.SIGKILL, f"{when}: {status}"
    elif task == "pair":
        together(lambda: work_together(target))
    elif task == "work":
        work_together(target)
