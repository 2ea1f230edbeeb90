"""A run is resolved once: environments are built once each, the team is read once, and mistakes end it early."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.benchmarks import load_config, train
from llm_decpomdp.benchmarks.cli.run_text import describe_cost
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.load import find_config, read_config
from llm_decpomdp.benchmarks.runs import setup
from llm_decpomdp.benchmarks.runs.setup import resolve
from llm_decpomdp.env import DecPOMDPEnv
from tests.support.commands import call

Counts = Counter[str]


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    """Counts of environments built and teams read."""
    counts: Counts = Counter()

    def count(owner: Any, name: str, key: str) -> None:
        function = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            counts[key] += 1
            return function(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    count(DecPOMDPEnv, "__init__", "environments")
    count(setup, "policies_of", "teams")
    return counts


def test_a_run_builds_each_environment_once_and_reads_its_team_once(
    quick: list[str], tmp_path: Path, counts: Counts
) -> None:
    more = ["output.report=false", "output.save_final_model=true", "output.checkpoint_every=1"]
    overrides = [*quick, *more, "algorithm.max_updates=1"]
    assert call("train", "--config", "demo", "--override", *overrides) == 0
    assert counts == {"environments": 2, "teams": 1}
    counts.clear()
    assert (
        call("train", "--resume", f"{tmp_path}/run", "--override", "algorithm.max_updates=2") == 0
    )
    assert counts == {"environments": 2, "teams": 1}
    counts.clear()
    again = ["--override", f"output.base_dir={tmp_path}", "output.name=again"]
    assert call("train", "--from", f"{tmp_path}/run", *again) == 0
    assert counts == {"environments": 2, "teams": 2}  # as declared, and as trained


def test_a_dry_run_builds_and_reads_as_much(quick: list[str], counts: Counts) -> None:
    assert call("train", "--config", "demo", "--dry-run", "--override", *quick) == 0
    assert counts == {"environments": 2, "teams": 1}


WRONG = {
    "algorithm.learning_rate=-1": "algorithm.learning_rate",
    "env.options={color: red}": "color",
    "dataset.train_split=train[": "split must look like",
    "dataset.eval_split=tset": "tset",
    "team={nobody: a}": "nobody",
    "algorithm.rollout.branch_selection=best algorithm.rollout.mode=tree": "means nothing with mode=tree",
    "output.trackers={nothing: true}": "unknown tracker",
    "algorithm.truncation.mode=penalise": "overlong_penalty",
}


@pytest.mark.parametrize(("overrides", "words"), WRONG.items())
def test_a_run_refuses_what_its_configuration_is_refused_for(
    quick: list[str], tmp_path: Path, overrides: str, words: str
) -> None:
    more = [*quick, *overrides.split(" algorithm.rollout.mode")[:1]]
    more += ["algorithm.rollout.mode=tree"] * overrides.endswith("mode=tree")
    demo = find_config("demo")
    with pytest.raises(ConfigError, match=words) as refusal:
        load_config(demo, more)
    for start in (train, lambda config, name: list(describe_cost(config, name))):
        with pytest.raises(ConfigError) as error:
            start(read_config(demo, more), "demo")  # type: ignore[operator]
        assert str(error.value) == str(refusal.value)
    assert not (tmp_path / "run").exists()


def test_what_is_skipped_leaves_the_schedule_and_its_length(quick: list[str]) -> None:
    run = resolve(read_config(find_config("demo"), [*quick, "algorithm.max_updates=null"]))
    tasks = [task.task_id for task in run.train_env.tasks.tasks]
    shorter = run.skip_tasks(tasks[:3])
    assert {start.task_id for batch in shorter.batches for start in batch} == set(tasks[3:])
    assert len(shorter.batches) == shorter.learner.total_updates < len(run.batches)
    assert run.learner.total_updates == len(run.batches)


def test_a_warm_start_that_keeps_all_problems_to_itself_is_refused(quick: list[str]) -> None:
    few = ["dataset.train_split=test[:4]", "warm_start={source: gold, share: 0.9, disjoint: true}"]
    config = read_config(find_config("demo"), [*quick, *few])
    with pytest.raises(RunError, match=r"warm_start\.share=0\.9 of 4 problems, rounded up, is all"):
        resolve(config)
