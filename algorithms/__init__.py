"""Learners: rollouts -> returns -> group baseline -> loss -> optimizer -> training loop.

Each algorithm is a declaration on one screen (`magrpo.py`) over one `Learner`. Importing this
package loads no torch, nor does looking an algorithm up: each name loads its module when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from llm_decpomdp.plugins import find
from llm_decpomdp.utils.extras import lazy_names

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.learning.advantages import BASELINES as BASELINES
    from llm_decpomdp.algorithms.learning.algorithm import Algorithm as Algorithm
    from llm_decpomdp.algorithms.learning.learner import Learner as Learner
    from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions as LearnerOptions
    from llm_decpomdp.algorithms.learning.losses import LossInputs as LossInputs
    from llm_decpomdp.algorithms.learning.losses import LossOutputs as LossOutputs
    from llm_decpomdp.algorithms.rollout_workers.base import WorkerState as WorkerState
    from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts as collect_rollouts
    from llm_decpomdp.algorithms.rollouts.rollout import Group as Group
    from llm_decpomdp.algorithms.rollouts.rollout import Rollout as Rollout
    from llm_decpomdp.algorithms.rollouts.rollout import Start as Start
    from llm_decpomdp.algorithms.rollouts.rollout import TextEnv as TextEnv
    from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions as RolloutOptions
    from llm_decpomdp.algorithms.rollouts.rollout_options import TrainerOptions as TrainerOptions
    from llm_decpomdp.algorithms.sources import add_wrappers as add_wrappers
    from llm_decpomdp.algorithms.training.callbacks import TrainerCallback as TrainerCallback
    from llm_decpomdp.algorithms.training.checkpoint_manager import (
        CheckpointManager as CheckpointManager,
    )
    from llm_decpomdp.algorithms.training.rollout_source import RolloutSource as RolloutSource
    from llm_decpomdp.algorithms.training.rollout_source import SampledSource as SampledSource
    from llm_decpomdp.algorithms.training.run_log import RunLog as RunLog
    from llm_decpomdp.algorithms.training.trainer import PeriodicEvaluation as PeriodicEvaluation
    from llm_decpomdp.algorithms.training.trainer import Trainer as Trainer
    from llm_decpomdp.algorithms.training.worker_source import WorkerEvaluation as WorkerEvaluation
    from llm_decpomdp.algorithms.training.worker_source import WorkerSource as WorkerSource
    from llm_decpomdp.utils.storage import RunFolder as RunFolder
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
    __all__ += ["ALGORITHMS"]

NAMES = tuple("grpo magrpo marloo maremax mareinforce rae iac maac coma madpo".split())
"""Names of the algorithms: each is a module here with a declaration of this name in capitals."""


class _Algorithms(Mapping[str, "Algorithm"]):
    """Declarations by name, each loaded when it is first looked up: of `magrpo`, `MAGRPO` in `magrpo.py`."""

    def __getitem__(self, name: str) -> Algorithm:
        from llm_decpomdp.algorithms.learning.algorithm import Algorithm

        if name in NAMES:
            name = f"{__name__}.{name}:{name.upper()}"
        remedy = "assign an `llm_decpomdp.algorithms.Algorithm` to that name"
        algorithm: Algorithm = find("algorithm", name, NAMES, Algorithm, remedy)
        return algorithm

    def __contains__(self, name: object) -> bool:
        return name in NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


ALGORITHMS: Mapping[str, Algorithm] = _Algorithms()
"""Algorithm by name, as in `ALGORITHMS["magrpo"]`; unknown names raise with the nearest one. `module:NAME` is one
of your own, in a module that can be imported from here, or an installed package announces a name for it."""
