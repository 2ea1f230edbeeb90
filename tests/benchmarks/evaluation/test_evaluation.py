"""Evaluations and their folders."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp import Completion, DecPOMDPEnv, make
from llm_decpomdp.agents import Constant, Gold, RandomText, Replay, Sampling, tiny_causal_lm
from llm_decpomdp.agents.scripted import Scripted
from llm_decpomdp.algorithms.rollouts.rollout import Start, Timer
from llm_decpomdp.algorithms.training.metrics import evaluation_metrics
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation import run
from llm_decpomdp.benchmarks.evaluation.experiments import format_estimate
from llm_decpomdp.benchmarks.evaluation.folder import (
    EvaluationResult,
    estimate_text,
    overall,
    read_evaluation,
    table,
)
from llm_decpomdp.benchmarks.evaluation.play import act_simultaneously, measures, read_rollout
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, bootstrap, share
from llm_decpomdp.benchmarks.runs.results import task_name
from llm_decpomdp.policy import Dialogue, DialogueTurn
from llm_decpomdp.utils.storage import FolderInUse, read_json_lines
from tests.algorithms.conftest import EchoEnv
from tests.benchmarks.evaluations import rows_of, starts_of
from tests.support.locks import holder

Make = Callable[..., DecPOMDPEnv]


class Guess(Scripted):
    """Writes one of the six words, as its seed has it: right once in six on average."""

    def seed(self, seed: int) -> None:
        self._next = seed

    def act(self, prompt: str) -> str:
        self._next += 1
        return ("apple", "brook", "cedar", "delta", "ember", "fjord")[self._next % 6]


@pytest.fixture
def guessed(make_word_env: Make, tmp_path: Path) -> EvaluationResult:
    """Six tasks of two turns, each played four times by two who guess."""
    env = make_word_env(num_turns=2)
    team = {"left_0": Guess(), "right_0": Guess()}
    return evaluate(
        env, team, starts_of(env), samples=4, folder=tmp_path / "e", seed=1, at_a_time=4
    )


def test_rows_of_an_evaluation(guessed: EvaluationResult) -> None:
    rows = rows_of(guessed.folder)
    assert len(rows) == 24
    assert [row["sample"] for row in rows] == [0, 1, 2, 3] * 6  # the samples of a task together
    assert [task_name(row) for row in rows[::4]] == [f"word/{n}" for n in range(6)]
    for row in rows:
        assert (row["phase"], row["update"]) == ("eval", 0)
        assert row["start"] == {"seed": None, "task_id": task_name(row)}
        assert row["final"]["task_id"] == task_name(row)
        assert row["tokens"] == [{"left_0": None, "right_0": None}] * len(row["groups"])
        for turn, group in enumerate(row["groups"]):
            assert (group["turn"], group["chosen"], group["joint"]) == (turn, 0, [[0, 0]])
            assert group["parent"] == (None if turn == 0 else {"group": turn - 1, "sample": 0})
    plain = set(rows[0]) - {"sample", "tokens", "prompt_tokens"}
    assert plain == {"update", "phase", "start", "groups", "stopped_early", "final"}


def test_the_means_are_those_that_a_run_reports(guessed: EvaluationResult) -> None:
    metrics = evaluation_metrics([read_rollout(row) for row in rows_of(guessed.folder)])
    found = overall(guessed)
    for name in (
        "reward_mean",
        "last/reward_mean",
        "reward/word",
        "last/solved",
        "truncated/left_0",
    ):
        assert found[name].value == pytest.approx(metrics[name]), name
    assert found["turn_1/reward_mean"].value == pytest.approx(metrics["turn_1/reward_mean"])


def test_every_task_has_the_mean_of_its_samples(guessed: EvaluationResult) -> None:
    by_task: dict[str, list[float]] = {}
    for row in rows_of(guessed.folder):
        by_task.setdefault(task_name(row), []).append(row["groups"][-1]["rewards"][0])
    means = guessed.means("last/reward_mean")
    assert list(means) == list(guessed.tasks) == [f"word/{n}" for n in range(6)]
    assert means == {task: pytest.approx(sum(r) / 4) for task, r in by_task.items()}


def test_pass_at_k_counts_the_samples_that_pass_all_tests(guessed: EvaluationResult) -> None:
    counts = {task: sum(flags) for task, flags in guessed.passes.items()}
    assert 0 < sum(counts.values()) < 24
    assert guessed.pass_at_k(1) == {task: pytest.approx(n / 4) for task, n in counts.items()}
    assert guessed.pass_at_k(4) == {task: float(n > 0) for task, n in counts.items()}
    solved = guessed.values["last/solved"]
    assert {task: tuple(map(bool, v)) for task, v in solved.items()} == guessed.passes


def test_later_turns_are_measured_where_they_were_played(guessed: EvaluationResult) -> None:
    rows = [row for row in rows_of(guessed.folder) if len(row["groups"]) == 2]
    assert 0 < len(rows) <= 24
    values = [v for of_task in guessed.values["turn_2/improvement"].values() for v in of_task]
    gains = [row["groups"][1]["rewards"][0] - row["groups"][0]["rewards"][0] for row in rows]
    assert sorted(values) == pytest.approx(sorted(gains))
    turns = [v for of_task in guessed.values["turns"].values() for v in of_task]
    assert turns.count(2.0) == len(rows)


def test_the_folder_tells_everything_that_the_evaluation_found(guessed: EvaluationResult) -> None:
    folder = guessed.folder
    assert read_evaluation(folder) == guessed
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["tasks"], summary["samples"], summary["episodes"]) == (6, 4, 24)
    ends = summary["overall"]["last/reward_mean"]
    assert ends["units"] == 6
    assert ends["low"] <= ends["value"] <= ends["high"]
    assert ends["value"] == pytest.approx(sum(guessed.means("last/reward_mean").values()) / 6)
    assert summary["of_task"]["word/0"]["last/reward_mean"]["units"] == 4
    assert set(summary["seconds"]) == {"left_0", "right_0", "environment"}
    with (folder / "summary.csv").open() as file:
        lines = {line["measure"]: line for line in csv.DictReader(file)}
    assert float(lines["last/reward_mean"]["value"]) == ends["value"]
    assert set(lines) == set(summary["overall"]) and "pass@1" in lines
    with (folder / "tasks.csv").open() as file:
        tasks = list(csv.DictReader(file))
    assert [line["task"] for line in tasks] == list(guessed.tasks)
    assert float(tasks[3]["last/reward_mean"]) == guessed.means("last/reward_mean")["word/3"]


def test_tables_have_intervals_of_one_form() -> None:
    equal, two_tasks = bootstrap([0.0, 0.0]), share([0.0, 0.0])
    one_task = Estimate(0.5, None, None, 1)
    texts = [estimate_text(equal), estimate_text(two_tasks), estimate_text(one_task)]
    assert texts == ["0.000", "0.000 (0.000 to 0.776)", "0.500"]
    assert [format_estimate(e) for e in (equal, two_tasks, one_task)] == [
        *("0.00", "0.00 (0.00 to 0.78)", "0.50"),
    ]


def test_turns_in_table(guessed: EvaluationResult, make_word_env: Make, tmp_path: Path) -> None:
    def shown(found: EvaluationResult) -> list[str]:
        return [str(cell) for cell in table(found).columns[0].cells]

    assert {"last/reward_mean", "turn_2/improvement", "pass@1"} <= set(shown(guessed))
    env = make_word_env(num_turns=1)
    team = {"left_0": Gold(), "right_0": Gold()}
    once = evaluate(env, team, starts_of(env), folder=tmp_path / "once")
    assert not [name for name in shown(once) if name.startswith("turn")]


def test_models_sample_by_the_seed_alone_whatever_was_sampled_before(tmp_path: Path) -> None:
    env = make("probe-turns-v0")
    sampling = Sampling(max_new_tokens=2)
    team = {f"player_{n}": tiny_causal_lm("abc", sampling, seed=n) for n in range(2)}

    def texts(name: str, seed: int) -> list[Any]:
        found = evaluate(env, team, starts_of(env), samples=4, folder=tmp_path / name, seed=seed)
        rows = rows_of(found.folder)
        assert all(1 <= n <= 2 for row in rows for turn in row["tokens"] for n in turn.values())
        return [[group["completions"] for group in row["groups"]] for row in rows]

    first = texts("first", 0)
    team["player_0"].generate(["a"], 3)
    assert texts("second", 0) == first
    assert texts("third", 1) != first
    assert len({json.dumps(one) for one in first}) > 3  # samples of a task differ
    found = read_evaluation(tmp_path / "first")
    total = sum(
        n for row in rows_of(tmp_path / "first") for turn in row["tokens"] for n in turn.values()
    )
    assert overall(found)["tokens"].value == pytest.approx(total / len(rows_of(tmp_path / "first")))
    assert set(found.seconds) == {"player_0", "player_1", "environment"}


def test_agents_that_are_sampled_together_have_their_seconds_in_common(tmp_path: Path) -> None:
    env = make("probe-halves-v0")
    policy = tiny_causal_lm("abc", Sampling(max_new_tokens=2))
    team = dict.fromkeys(env.possible_agents, policy)
    found = evaluate(env, team, starts_of(env), folder=tmp_path / "e")
    assert set(found.seconds) == {"player_0+player_1", "environment"}


def test_a_start_may_be_a_seed(make_word_env: Make, tmp_path: Path) -> None:
    env = make_word_env()
    team = {"left_0": Gold(), "right_0": Gold()}
    found = evaluate(env, team, [Start(seed=3)], samples=2, folder=tmp_path / "e", k=[2])
    assert len(found.tasks) == 1
    assert overall(found)["pass@2"].value == 1.0
    assert overall(found)["last/reward_mean"].low is None  # one task tells nothing of others


def test_cooperation_is_told_in_shares_of_the_helpers(tmp_path: Path) -> None:
    """The points of the components are those of the code reward: gold uses its helper, and wraps nothing."""
    env = make("coophumaneval-v0", source="bundled", split="test[:1]")
    gold = evaluate(
        env, dict.fromkeys(env.possible_agents, Gold()), starts_of(env), folder=tmp_path
    )
    shares = {name: gold.means(f"cooperation/{name}") for name in ("uses_aux", "not_wrapper")}
    assert [list(share.values()) for share in shares.values()] == [[1.0], [1.0]]
    assert list(gold.means("cooperation/aux_ignored").values()) == [0.0]
    assert list(gold.means("tests_passed").values()) == [1.0]
    row = rows_of(tmp_path)[0]
    row["groups"][0]["infos"][0] |= {
        "reward/aux_ignored": -0.5,
        "tests_passed": 1.0,
        "tests_total": 4.0,
    }
    changed = measures(row)
    assert changed["cooperation/aux_ignored"] == 1.0
    assert (changed["tests_passed"], changed["all_tests_passed"]) == (0.25, 0.0)


def test_time_to_answer_is_that_of_longest_answers(make_word_env: Make, tmp_path: Path) -> None:
    env = make_word_env(num_turns=2)
    evaluate(env, dict.fromkeys(env.possible_agents, Guess()), starts_of(env), folder=tmp_path)
    row = rows_of(tmp_path)[0]
    assert "sequential_tokens" not in measures(row)  # scripts have no tokens
    at_once = [{"left_0": 30, "right_0": 50}, {"left_0": 10, "right_0": 5}]
    in_order = [{"left_0": 30}, {"right_0": 50}, {"left_0": 10}, {"right_0": 5}]
    found = [measures({**row, "tokens": tokens}) for tokens in (at_once, in_order)]
    assert [values["sequential_tokens"] for values in found] == [60.0, 95.0]
    assert [values["tokens"] for values in found] == [95.0, 95.0]
    seconds = [60 / 50 + 2 * 0.2, 95 / 50 + 4 * 0.2]
    assert [values["answer_seconds"] for values in found] == pytest.approx(seconds)


class Stopping(RandomText):
    """Is stopped after some completions, as by Ctrl-C."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def generate(self, prompts: Any, num_samples: int = 1) -> list[list[Completion]]:
        if self.left < len(prompts) * num_samples:
            raise KeyboardInterrupt
        self.left -= len(prompts) * num_samples
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


class Asked(RandomText):
    """Keeps how many prompts it was asked to answer, and how often each."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[int, int]] = []

    def generate(self, prompts: Any, num_samples: int = 1) -> list[list[Completion]]:
        self.calls.append((len(prompts), num_samples))
        return super().generate(prompts, num_samples)


def test_prompt_is_computed_once_for_all_samples(make_word_env: Make, tmp_path: Path) -> None:
    env = make_word_env(num_turns=1)
    team = {"left_0": Asked(), "right_0": Asked()}
    evaluate(env, team, starts_of(env), samples=4, folder=tmp_path, at_a_time=8)
    assert team["left_0"].calls == team["right_0"].calls == [(2, 4)] * 3
    rows = rows_of(tmp_path)
    texts = {json.dumps(row["groups"][0]["completions"]) for row in rows}
    assert len(texts) == len(rows) == 24
    evaluate(env, team, starts_of(env), samples=15, folder=tmp_path, at_a_time=8)
    # What is added has batches of its own, of 8 and of 3 samples.
    assert team["left_0"].calls[3:] == [(1, 8)] * 6 + [(2, 3)] * 3
    assert json.loads((tmp_path / "manifest.json").read_text())["sample_blocks"] == [4, 8, 3]
    alone = {"left_0": Asked(), "right_0": Asked()}
    evaluate(env, alone, starts_of(env), folder=tmp_path / "one", at_a_time=4)
    assert alone["left_0"].calls == [(4, 1), (2, 1)]


def test_equal_prompts_are_shared_by_models_alone() -> None:
    env = make("probe-turns-v0")
    env.reset()
    one, other = (dict.fromkeys(env.possible_agents, text) for text in ("a", "b"))
    prompts = [one] * 4 + [other] * 2

    def calls(team: Any, prompts: Any) -> list[tuple[int, int]]:
        moves = act_simultaneously(team, [env] * len(prompts), prompts, Timer(), share_prompts=True)
        assert [move.prompts for move in moves] == prompts
        assert {move.size for move in moves} == {1}
        return list(team["player_0"].calls)

    team = {agent: Asked() for agent in env.possible_agents}
    assert calls(team, prompts) == [(3, 2)]
    assert calls(team, prompts[:5])[1:] == [(5, 1)]  # four and one
    reader = ReadsEnv()
    assert calls({**team, "player_1": reader}, prompts)[2:] == [(3, 2)]
    assert reader.envs == 6


def test_equal_texts_after_different_turns_are_not_shared() -> None:
    env = make("probe-turns-v0")
    env.reset()
    later = Dialogue("go", [DialogueTurn("before", Completion("a"))])
    team = {agent: Asked() for agent in env.possible_agents}
    for texts in (("go", later), (later, "go")):
        prompts = [dict.fromkeys(team, text) for text in texts]
        act_simultaneously(team, [env] * 2, prompts, Timer(), share_prompts=True)
    assert team["player_0"].calls == [(2, 1)] * 2


def test_a_model_computes_at_most_max_rows_of_a_prompt_together(
    make_word_env: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MAX_ROWS", 2)
    env, manifest = make_word_env(num_turns=1), tmp_path / "manifest.json"
    team = {"left_0": Asked(), "right_0": RandomText()}
    evaluate(env, team, starts_of(env), samples=3, folder=tmp_path, at_a_time=4)
    assert json.loads(manifest.read_text())["sample_blocks"] == [2, 1]
    assert team["left_0"].calls == [(2, 2)] * 3 + [(4, 1), (2, 1)]
    # Blocks that were written stay.
    monkeypatch.setattr(run, "MAX_ROWS", 1)
    evaluate(env, team, starts_of(env), samples=4, folder=tmp_path, at_a_time=4)
    assert json.loads(manifest.read_text())["sample_blocks"] == [2, 1, 1]


def test_texts_in_order_are_given_sample_by_sample(make_word_env: Make, tmp_path: Path) -> None:
    env = make_word_env(num_turns=1)
    texts = [f"{number}" for number in range(2 * len(starts_of(env)))]
    team = {"left_0": Replay(texts), "right_0": RandomText()}
    evaluate(env, team, starts_of(env), samples=2, folder=tmp_path)
    rows = rows_of(tmp_path)
    assert [row["groups"][0]["completions"]["left_0"] for row in rows] == [[text] for text in texts]
    assert [row["sample"] for row in rows] == sorted([0, 1] * len(starts_of(env)))


class ReadsEnv(Constant):
    """Answers by the environment, which may differ where prompts are equal."""

    envs = 0

    def __init__(self) -> None:
        super().__init__("a")

    def generate_with_envs(
        self, envs: Any, agents: Any, num_samples: int = 1
    ) -> list[list[Completion]]:
        self.envs += len(envs)
        return [[Completion("a")] * num_samples for _ in envs]


def test_folder_of_an_earlier_version_keeps_its_rows(make_word_env: Make, tmp_path: Path) -> None:
    env, manifest = make_word_env(), tmp_path / "manifest.json"
    path = tmp_path / "episodes.jsonl"

    def run(samples: int) -> list[int]:
        team = {"left_0": RandomText(), "right_0": RandomText()}
        evaluate(env, team, starts_of(env), samples=samples, folder=tmp_path, at_a_time=4)
        return list(json.loads(manifest.read_text())["sample_blocks"])

    for samples in (1, 2, 3):
        run(samples)
    content = json.loads(manifest.read_text())
    del content["sample_blocks"]
    manifest.write_text(json.dumps({**content, "samples": 2}))  # the last request was of fewer
    before = path.read_bytes()
    assert run(3) == [1, 1, 1]
    assert path.read_bytes() == before
    manifest.write_text(json.dumps(content))
    path.write_bytes(before[:-50])  # a batch of one sample is played again
    assert run(3) == [1, 1, 1]
    assert path.read_bytes() == before
    assert run(5) == [1, 1, 1, 2]
    assert path.read_bytes().startswith(before)


def test_seconds_of_larger_batches_count_in_part(make_word_env: Make, tmp_path: Path) -> None:
    env, team = make_word_env(), {"left_0": Gold(), "right_0": Gold()}
    whole = evaluate(env, team, starts_of(env), samples=4, folder=tmp_path).seconds
    part = evaluate(env, team, starts_of(env), samples=1, folder=tmp_path).seconds
    assert dict(part) == {name: pytest.approx(value / 4) for name, value in whole.items()}


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
        versions = "llm_decpomdp.benchmarks.runs.manifest.versions"
        monkeypatch.setattr(versions, lambda: {"torch": version})
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


def test_an_environment_of_another_library_is_refused(tmp_path: Path) -> None:
    team = {"x": Constant("a"), "y": Constant("b")}
    with pytest.raises(TypeError, match=r"evaluate needs an environment with tasks.*EchoEnv"):
        evaluate(EchoEnv(1), team, [Start(seed=0)], folder=tmp_path / "e")  # type: ignore[arg-type]
    assert not (tmp_path / "e").exists()
