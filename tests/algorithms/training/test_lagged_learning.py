"""Teams learn a probe from what earlier weights have sampled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp import make
from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.training.trainer_options import TrainerOptions
from llm_decpomdp.envs.probes.known import PROBES
from llm_decpomdp.utils.storage import read_json_lines
from studies.hypotheses.training import every_start
from tests.algorithms.runs import Run
from tools.performance.models.probe_curves import MAX_TOKENS, value

RENDEZVOUS = next(iter(PROBES))


def reached(
    folder: Path, *, updates: int, lag: int, seed: int = 0, rate: float = 4e-3, **learner: Any
) -> tuple[float, list[dict[str, Any]]]:
    """The share of the optimum that a team has after some updates, and their rows."""
    env, probe = make(RENDEZVOUS), PROBES[RENDEZVOUS]
    team = {
        agent: tiny_causal_lm(
            probe.letters, Sampling(max_new_tokens=MAX_TOKENS), seed=10 * seed + index
        )
        for index, agent in enumerate(env.possible_agents)
    }
    trainer = Run(
        folder,
        [every_start(env)] * updates,
        LearnerOptions(learning_rate=rate, max_grad_norm=1.0, **learner),
        TrainerOptions(group_size=32, lag=lag, seed=seed),
        env=env,
        team=team,
        eval_starts=[],
    )
    trainer.run_updates()
    return value(env, team) / probe.optimum, list(read_json_lines(trainer.folder.metrics))


def test_a_team_learns_with_a_lag_of_one_about_as_fast_as_without(tmp_path: Path) -> None:
    share, rows = reached(tmp_path / "1", updates=16, lag=1, correction="truncate")
    without, _ = reached(tmp_path / "0", updates=16, lag=0)
    assert without > 0.9 and share > without - 0.1
    assert rows[0]["reward_mean"] < 0.5  # there was something to learn
    agents = [name.removeprefix("ess/") for name in rows[0] if name.startswith("ess/")]
    assert len(agents) == 2
    for agent in agents:  # the sampler itself at first, and then a policy that is one update older
        assert rows[0][f"mismatch/{agent}"] < 1e-5
        assert rows[0][f"ess/{agent}"] == pytest.approx(1, abs=1e-5)
        assert rows[1][f"mismatch/{agent}"] > 0.01 and rows[1][f"ess/{agent}"] < 0.999


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["truncate", "mask"])
@pytest.mark.parametrize("lag", [1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_a_team_reaches_the_optimum_with_a_lag(
    tmp_path: Path, mode: str, lag: int, seed: int
) -> None:
    share, _ = reached(tmp_path, updates=30, lag=lag, seed=seed, correction=mode)
    assert share > 0.95
