"""A folder of an evaluation: what it takes, and how it goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.agents.scripted import Constant, Gold, RandomText
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation import run
from llm_decpomdp.benchmarks.evaluation.folder import EvaluationResult, read_evaluation
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Completion
from llm_decpomdp.utils.storage import FolderInUse, read_json_lines
from tests.benchmarks.evaluations import rows_of, starts_of
from tests.support.locks import holder

Make = Callable[..., DecPOMDPEnv]


class Stopping(RandomText):
    """Is stopped after some completions, as by Ctrl-C."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def generate(self, prompts: Any, num_samples: int = 1) -> list[list[Completion]]:
        if self.left < len(prompts):
            raise KeyboardInterrupt
        self.left -= len(prompts)
        return super().generate(prompts, num_samples)


def test_stopped_evaluation_resumes_exactly(make_word_env: Make, tmp_path: Path) -> None:
    env, folders = make_word_env(num_turns=2), [tmp_path / "whole", tmp_path / "stopped"]

    def run(folder: Path, team: Any) -> EvaluationResult:
        return evaluate(env, team, starts_of(env), samples=3, folder=folder, seed=5, at_a_time=4)

    whole = run(folders[0], {"left_0": RandomText(), "right_0": RandomText()})
    with pytest.raises(KeyboardInterrupt):
        run(folders[1], {"left_0": RandomText(), "right_0": Stopping(15)})
    path = folders[1] / "episodes.jsonl"
    assert len(rows_of(folders[1])) == 6
    with pytest.raises(ConfigError, match=r"has 6 of 18 episodes"):
        read_evaluation(folders[1])
    path.write_bytes(path.read_bytes()[:-100])  # killed while it wrote
    again = run(folders[1], {"left_0": RandomText(), "right_0": RandomText()})
    assert path.read_bytes() == (folders[0] / "episodes.jsonl").read_bytes()
    assert again.values == whole.values


def test_finished_episodes_are_kept(make_word_env: Make, tmp_path: Path) -> None:
    env = make_word_env()

    def run(samples: int, left: int) -> EvaluationResult:
        team = {"left_0": RandomText(), "right_0": Stopping(left)}
        return evaluate(env, team, starts_of(env), samples=samples, folder=tmp_path / "e")

    first = run(2, left=24)
    before = (tmp_path / "e" / "episodes.jsonl").read_bytes()
    assert run(2, left=0).values == first.values
    more = run(3, left=12)
    assert (tmp_path / "e" / "episodes.jsonl").read_bytes().startswith(before)
    assert {len(v) for v in more.values["last/reward_mean"].values()} == {3}
    assert run(2, left=0).values == first.values  # what was asked for, though more is there


def test_times_are_those_of_the_batches_that_count(make_word_env: Make, tmp_path: Path) -> None:
    env, path = make_word_env(), tmp_path / "times.jsonl"
    team = {"left_0": Gold(), "right_0": Gold()}

    def seconds(tasks: int, samples: int) -> dict[str, float]:
        starts = starts_of(env)[:tasks]
        found = evaluate(env, team, starts, samples=samples, folder=tmp_path, at_a_time=4)
        return dict(found.seconds)

    def places() -> list[tuple[int, str]]:
        return [(row["sample"], row["start"]["task_id"]) for row in read_json_lines(path)]

    seconds(2, 1)
    seconds(6, 1)  # plays the two again, in a batch of four
    assert places() == [(0, "word/0"), (0, "word/4")]
    path.write_text(path.read_text()[:-5])  # killed while it wrote
    once = seconds(6, 2)
    assert places() == [(0, "word/0"), (1, "word/0"), (1, "word/4")]
    first, *others = [row["seconds"]["environment"] for row in read_json_lines(path)]
    assert once["environment"] == pytest.approx(first + sum(others))
    assert seconds(6, 1)["environment"] == first


def test_a_folder_tells_what_its_rows_were_made_with(
    make_word_env: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env, team = make_word_env(), {"left_0": Gold(), "right_0": Gold()}

    def packages(samples: int, version: str) -> list[dict[str, str]]:
        monkeypatch.setattr(run, "versions", lambda: {"torch": version})
        evaluate(env, team, starts_of(env), samples=samples, folder=tmp_path)
        manifest = json.loads((tmp_path / "manifest.json").read_text())
        sessions = [*manifest.get("earlier", []), manifest]
        return [session["packages"]["torch"] for session in sessions]

    assert packages(1, "1") == packages(1, "2") == ["1"]  # nothing is played
    assert packages(2, "2") == packages(2, "3") == packages(3, "2") == ["1", "2"]
    assert packages(4, "3") == ["1", "2", "3"]


def test_each_episode_counts_once_and_half_of_the_tasks_are_not_all(
    make_word_env: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env, path = make_word_env(), tmp_path / "episodes.jsonl"

    def play() -> EvaluationResult:
        team = {"left_0": RandomText(), "right_0": RandomText()}
        return evaluate(env, team, starts_of(env), samples=2, folder=tmp_path, at_a_time=2)

    whole = play()
    content, times = path.read_text(), (tmp_path / "times.jsonl").read_text()
    lines = content.splitlines(keepends=True)
    path.write_text("".join(line * 2 for line in lines))
    twice = read_evaluation(tmp_path)
    assert (twice.values, twice.episodes) == (whole.values, 12)
    assert f"{path}: 12 rows repeat an episode and are left out" in caplog.text
    path.write_text("".join(line * 2 for line in lines[:6]))
    with pytest.raises(ConfigError, match="has 6 of 12 episodes"):
        read_evaluation(tmp_path)
    (tmp_path / "times.jsonl").write_text(times * 2)
    assert play().values == whole.values
    assert path.read_text() == content
    assert len((tmp_path / "times.jsonl").read_text().splitlines()) == len(times.splitlines())


def test_failure_of_a_finished_episode_is_ignored(make_word_env: Make, tmp_path: Path) -> None:
    env, team = make_word_env(), {"left_0": Gold(), "right_0": Gold()}
    evaluate(env, team, starts_of(env), folder=tmp_path)
    start = rows_of(tmp_path)[0]["start"]
    failure = {"sample": 0, "start": start, "error": "timeout"}
    (tmp_path / "failures.jsonl").write_text(json.dumps(failure) + "\n")
    assert read_evaluation(tmp_path).failures == ()
    lines = (tmp_path / "episodes.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "episodes.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(ConfigError, match="has 5 of 6 episodes"):
        read_evaluation(tmp_path)


def test_two_processes_do_not_evaluate_into_one_folder(make_word_env: Make, tmp_path: Path) -> None:
    env, team = make_word_env(), {"left_0": Gold(), "right_0": Gold()}
    first = evaluate(env, team, starts_of(env), folder=tmp_path)
    with holder(tmp_path) as process:
        with pytest.raises(FolderInUse, match=f"^process {process.pid} on "):
            evaluate(env, team, starts_of(env), samples=2, folder=tmp_path)
        assert read_evaluation(tmp_path).values == first.values
    assert evaluate(env, team, starts_of(env), samples=2, folder=tmp_path).episodes == 12


def test_a_folder_keeps_to_what_it_began_with(make_word_env: Make, tmp_path: Path) -> None:
    env, folder = make_word_env(), tmp_path / "e"
    team = {"left_0": RandomText(), "right_0": RandomText()}
    evaluate(env, team, starts_of(env), folder=folder, about={"who": "one"})
    with pytest.raises(ConfigError, match=r"seed was 0 and is 1\).*--output"):
        evaluate(env, team, starts_of(env), folder=folder, about={"who": "one"}, seed=1)
    with pytest.raises(ConfigError, match="who was one and is two"):
        evaluate(env, team, starts_of(env), folder=folder, about={"who": "two"})
    run = tmp_path / "run"
    run.mkdir()
    (run / "manifest.json").write_text('{"algorithm": "magrpo"}')
    with pytest.raises(ConfigError, match="holds a run"):
        evaluate(env, team, starts_of(env), folder=run)
    assert json.loads((run / "manifest.json").read_text()) == {"algorithm": "magrpo"}


def test_a_run_is_no_evaluation(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"environment": "coophumaneval-v0"}')
    (tmp_path / "episodes.jsonl").write_text("")
    with pytest.raises(ConfigError, match="holds no evaluation: make one with llm-decpomdp eval"):
        read_evaluation(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"samples": 0}, "at least 1, got 0"),
        ({"k": [2]}, "pass@2 needs k from 1"),
        ({"starts": []}, "different tasks"),
        ({"starts": [Start(seed=1), Start(seed=1)]}, "different tasks"),
        ({"starts": [Start()]}, "task_id or a seed"),
        ({"team": {"left_0": Constant("a")}}, "the environment has left_0, right_0"),
    ],
)
def test_a_wrong_argument_is_an_error_before_anything_is_written(
    arguments: dict[str, Any], message: str, make_word_env: Make, tmp_path: Path
) -> None:
    team = {"left_0": Constant("a"), "right_0": Constant("b")}
    given = {"team": team, "starts": [Start(seed=1)], "folder": tmp_path / "e", **arguments}
    with pytest.raises(ConfigError, match=message):
        evaluate(make_word_env(), **given)
    assert not (tmp_path / "e").exists()
