"""A run with Ray actors, one of which has a program in its sandbox that does not end.

python -m tests.algorithms.rollout_workers.ray_runs FOLDER [ADDRESS]
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import torch

from llm_decpomdp.algorithms.rollout_workers.ray_workers import RayRolloutWorkers
from tests.algorithms.rollout_workers import worker_states
from tests.algorithms.rollout_workers.test_process_workers import trainer


def main(folder: Path, address: str | None = None) -> None:
    """Train with two actors, on a cluster or, without an address, on one of the run's own."""
    torch.set_num_threads(1)
    build = partial(worker_states.endless, folder / "note")
    rollout_worker = RayRolloutWorkers(
        build, 2, address=address, trusted_network=address is not None
    )
    trainer(folder / "run", rollout_worker=rollout_worker, checkpoint_every=1).run_updates()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
