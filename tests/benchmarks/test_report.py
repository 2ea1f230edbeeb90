"""The report of run folders that are written by the trainer's own functions, without a model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.algorithms.records import episode_row, evaluation_metrics, reward_metrics
from llm_decpomdp.algorithms.rollout import Group, Parent, Rollout, Start
from llm_decpomdp.benchmarks.report import write_report
from llm_decpomdp.benchmarks.results import Change, change, pairs, read_results
from llm_decpomdp.episode import Episode, Outcome, Turn, Verdict
from llm_decpomdp.policy import Completion
from llm_decpomdp.storage import RunFolder, append_json_line

HOSTILE = "<script>alert('x')</script> & <img src=x onerror=alert(1)>"
DATA = {
    "name": "coophumaneval",
    "source": "bundled",
    "split": "test[:8]",
    "revision": "",
    "rows": 8,
    "stand_in": False,
    "fingerprint": "4d1377645d4d5900",
}
MANIFEST = {
    "created": "2026-03-01T12:00:00+00:00",
    "environment": "coophumaneval-v0",
    "algorithm": "magrpo",
    "model": "smollm2-135m-instruct",
    "seed": 7,
    "data": {"train": DATA, "eval": DATA},
    "packages": {"numpy": "2.0", "peft": None},
    "git": {"commit": "7977d54", "dirty": True},
}


def chain(
    task: str,
    rewards: list[list[float]],
    agents: tuple[str, ...] = ("aux_0", "main_0"),
    components: Mapping[str, float] | None = None,
) -> Rollout:
    """A chain with a list of rewards for each turn, split into components by their shares."""
    shares = {"tests": 0.75, "syntax": 0.25} if components is None else components
    turns, record = [], []
    for number, group in enumerate(rewards, 1):
        prompts = {agent: f"{agent}, solve {task}, turn {number}" for agent in agents}
        infos = [
            {"solved": float(r >= 4), **{f"reward/{name}": r * s for name, s in shares.items()}}
            for r in group
        ]
        texts = {
            agent: [f"def {agent}():\n    return {r}  # {HOSTILE}" for r in group]
            for agent in agents
        }
        completions = {a: tuple(Completion(t, (1, 2)) for t in texts[a]) for a in agents}
        joint = tuple((g, g) for g in range(len(group)))
        parent = Parent(number - 2, len(group) - 1) if turns else None
        turns.append(
            Group(
                number - 1,
                parent,
                prompts,
                completions,
                joint,
                tuple(group),
                tuple(infos),
                chosen=len(group) - 1,
            )
        )
        tests = (
            Outcome("assert f(1) == 2", True),
            Outcome("assert f('<i>') == 3", False, "error", "NameError: x", "main_0", 2),
        )
        points = {name: group[-1] * share for name, share in shares.items()}
        last = {agent: texts[agent][-1] for agent in agents}
        record.append(Turn(prompts, last, Verdict(points, False, tests)))
    final = Episode(task, tuple(record)).to_json()
    return Rollout(Start(task_id=task), tuple(turns), final)


def write(folder: RunFolder, update: int, kind: str, chains: list[Rollout]) -> None:
    times = {"sampling_seconds": 6.0, "stepping_seconds": 1.0, "learning_seconds": 3.0}
    if kind == "eval":
        row: dict[str, Any] = evaluation_metrics(chains)
    else:
        row = {**reward_metrics(chains), "tokens_per_second": 1234.0, **times}
    append_json_line(folder.metrics, {"update": update, "kind": kind, **row})
    for one in chains:
        append_json_line(folder.episodes, episode_row(one, update, kind))


def train(folder: RunFolder, updates: int, **options: Any) -> None:
    for update in range(1, updates + 1):
        rewards = [[0.5, 0.1 * update], [0.1 * update, 0.5]]
        write(folder, update, "train", [chain(f"train/{update}", rewards, **options)])


def evaluate(folder: RunFolder, update: int, rewards: list[float], **options: Any) -> None:
    chains = [chain(f"eval/{i}", [[r]], **options) for i, r in enumerate(rewards)]
    write(folder, update, "eval", chains)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A finished run: eight held-out tasks that all gain, the sixth the most."""
    run = RunFolder(tmp_path / "run")
    run.write_manifest(MANIFEST)
    run.config.write_text("algorithm:\n  name: magrpo\n", encoding="utf-8")
    evaluate(run, 0, [1.0, 0.5, 1.0, 0.5, 1.0, 0.5, 1.0, 0.5])
    train(run, 6)
    evaluate(run, 6, [2.0, 1.5, 2.0, 1.5, 2.1, 3.5, 2.0, 1.6])
    return run


def html(folder: RunFolder) -> str:
    return write_report(folder).read_text(encoding="utf-8")


def words(folder: RunFolder) -> str:
    """The page as a reader sees it, in one line."""
    text = re.sub(r"<style>.*?</style>|<svg.*?</svg>", " ", html(folder), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text).replace("\u00a0", " "))


class Tags(HTMLParser):
    """Counts elements and refuses those that are closed in the wrong order."""

    VOID = ("meta", "br", "path", "use")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag, (tag, self.getpos())


def test_the_page_is_well_formed_and_its_ids_are_unique(folder: RunFolder) -> None:
    tags = Tags(html(folder))
    assert tags.seen.count("svg") == 4  # two charts, each for wide and narrow screens
    assert len(tags.ids) == len(set(tags.ids))


def test_the_page_fetches_nothing_and_runs_nothing(folder: RunFolder) -> None:
    text = html(folder)
    assert not {"script", "link", "img", "iframe", "object"} & set(Tags(text).seen)
    assert not re.search(r"https?:|@import|url\((?!#)|\bsrc=(?!x onerror)", text)
    assert "default-src 'none'" in text


def test_what_models_and_tests_say_is_escaped(folder: RunFolder) -> None:
    text = html(folder)
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; &lt;img" in text
    assert "assert f(&#x27;&lt;i&gt;&#x27;) == 3" in text


def test_the_same_folder_gives_the_same_page(folder: RunFolder) -> None:
    assert html(folder) == html(folder)


def test_the_result_is_said_with_its_paired_uncertainty(folder: RunFolder) -> None:
    gains = [1.0, 1.0, 1.0, 1.0, 1.1, 3.0, 1.0, 1.1]
    mean = sum(gains) / 8
    error = (sum((gain - mean) ** 2 for gain in gains) / 7 / 8) ** 0.5
    found = change(read_results(folder))
    assert found.paired
    assert found.difference == pytest.approx(mean)
    assert found.standard_error == pytest.approx(error)
    text = words(folder)
    assert "rose from 0.75 ± 0.09 to 2.02 ± 0.23 over 8 episodes on held-out tasks" in text
    assert f"(+{mean:.2f} ± {error:.2f}, measured task by task) is larger than" in text


@pytest.mark.parametrize(
    ("difference", "error", "episodes", "clear"),
    [(0.5, 0.2, 6, True), (-0.5, 0.2, 6, True), (0.5, 0.2, 5, False), (0.4, 0.3, 16, False)],
)
def test_a_change_is_clear_beyond_two_errors_of_enough_episodes(
    difference: float, error: float, episodes: int, clear: bool
) -> None:
    assert Change(difference, error, True, episodes).clear is clear


def test_a_change_within_its_uncertainty_is_called_possible_chance(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    evaluate(run, 0, [1.0, 2.0, 1.0, 2.0, 1.0, 2.0])
    train(run, 2)
    evaluate(run, 2, [2.0, 1.0, 2.0, 1.0, 2.0, 1.5])
    assert "is not larger than its uncertainty" in words(run)


def test_tasks_that_were_trained_on_are_not_called_held_out(folder: RunFolder) -> None:
    write(folder, 6, "train", [chain("eval/3", [[1.0, 2.0]])])
    assert "evaluation tasks, 1 of 8 of which were also trained on" in words(folder)


def test_the_transcript_shows_the_largest_gain_and_says_so(folder: RunFolder) -> None:
    assert pairs(read_results(folder))[0].task == "eval/5"
    text = words(folder)
    assert "One task before and after training: eval/5" in text
    assert (
        "Chosen, not typical: of 8 evaluation episodes, this one has the largest gain, +3.00"
        in text
    )
    assert "main_0, solve eval/5, turn 1" in text
    assert "return 0.5" in text and "return 3.5" in text
    assert "1 of 2 tests pass" in text
    assert "error: NameError: x (line 2 of main_0)" in text


def test_stand_in_data_gets_a_banner_and_real_data_none(folder: RunFolder) -> None:
    assert "Stand-in data" not in words(folder)
    stand_in = {"train": DATA, "eval": {**DATA, "stand_in": True}}
    folder.write_manifest({**MANIFEST, "data": stand_in})
    assert "Stand-in data: bundled problems in place of coophumaneval" in words(folder)


def test_times_speed_configuration_and_origin_are_shown(folder: RunFolder) -> None:
    text = words(folder)
    assert (
        "MAGRPO on coophumaneval-v0 smollm2-135m-instruct · seed 7 · 2026-03-01 12:00:00 UTC"
        in text
    )
    assert "sampling (the models write) 6.00 s 60%" in text
    assert "1,234 sampled tokens per second" in text
    assert "algorithm: name: magrpo" in text
    assert "git checkout 7977d54 llm-decpomdp train --config config.yaml" in text


def test_components_carry_the_names_of_the_data(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    shares = {"style_$x$": 0.6, "length": 0.4, "never": 0.0}
    evaluate(run, 0, [1.0, 2.0], components=shares)
    train(run, 3, components=shares)
    assert ">style $x$</text>" in html(run)
    assert "Always zero, and not drawn: never." in words(run)


def test_environments_without_components_have_a_report(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    train(run, 2, components={})
    assert "Where the reward comes from" not in words(run)


def test_a_run_without_evaluation_shows_training_episodes(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    train(run, 8, agents=("solo_0",))
    text = words(run)
    assert "The run has no evaluation" in text
    assert "was 0.35 over the first 3 updates and 0.60 over the last, of 8" in text
    assert "Update 8: train/8: 0.65, mean of turns" in text
    assert "One of 2 joint samples, with rewards 0.50, 0.80." in text
    assert "solo_0 is asked" in text


@pytest.mark.parametrize("kind", ["train", "eval"])
def test_an_unfinished_run_of_one_row_has_a_report(tmp_path: Path, kind: str) -> None:
    run = RunFolder(tmp_path)
    if kind == "train":
        train(run, 1)
        assert "One update was made so far" in words(run)
    else:
        evaluate(run, 0, [1.0])
        assert (
            "one evaluation so far, before training: mean team reward 1.00 over 1 episode."
            in words(run)
        )


def test_environments_that_record_no_episode_have_a_report(folder: RunFolder) -> None:
    rows = [json.loads(line) for line in folder.episodes.read_text("utf-8").splitlines()]
    folder.episodes.unlink()
    for row in rows:
        append_json_line(folder.episodes, {**row, "final": None})
    text = words(folder)
    assert "One task before and after training: eval/5" in text
    assert "tests pass" not in text


def test_a_run_without_metrics_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no rows: train first"):
        write_report(RunFolder(tmp_path))
