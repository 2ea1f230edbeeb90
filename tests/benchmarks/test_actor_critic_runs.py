"""Actor-critics in a run: one word swaps the algorithm, and a run folder resumes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.config.inputs import find_config
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.export.source import EpisodeSource
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.benchmarks.runs.train import train


@pytest.mark.parametrize(("name", "size"), [("iac", 1), ("coma", 2)])
def test_one_word_trains_and_resumes_an_actor_critic(
    name: str, size: int, quick: list[str], tmp_path: Path
) -> None:
    own = [f"algorithm.name={name}", f"algorithm.num_generations={size}", "output.report=false"]
    own += ["algorithm.normalize_advantages=false"]  # the demo sets it
    short = ["algorithm.max_updates=1", "output.checkpoint_every=1", "evaluation.num_tasks=1"]
    train(load_config(find_config("demo"), [*quick, *own, *short]), "demo")
    longer = resume(tmp_path / "run", ["algorithm.max_updates=2"])
    assert longer.summary["updates"] == 2 and longer.config.algorithm.critic is None
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").open()]
    (first, second) = (row for row in rows if row["kind"] == "train")
    key = "turn_1/explained_variance" if name == "iac" else "turn_1/explained_differences"
    assert key in first and key in second
    decisions = list(EpisodeSource(tmp_path / "run").decisions("train"))
    assert decisions and not any(one.advantages for one in decisions)  # no critic is in the folder
