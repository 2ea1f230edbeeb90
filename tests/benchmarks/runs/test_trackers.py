"""Trackers get the rows of `metrics.jsonl`: TensorBoard as it is, the others as packages that take notes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import ANY, Mock

import pytest

from llm_decpomdp.benchmarks import load_config, train
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.benchmarks.config.trackers import Feed, get_values, require_packages, tracking
from llm_decpomdp.utils.storage import RunFolder, append_json_line, read_json_lines
from tests.benchmarks.runs.conftest import Runs

ROWS = [
    {"update": 0, "kind": "eval", "reward_mean": 0.25, "reward_standard_error": None},
    {"update": 1, "kind": "train", "reward_mean": 0.5},
]

WANDB = """
import json, pathlib
NOTES = pathlib.Path(__file__).with_name("notes.jsonl")
def note(*what):
    with NOTES.open("a") as file:
        file.write(json.dumps(what) + "\\n")
class Run:
    id = "abc"
    def define_metric(self, name, step_metric): note("axis", name, step_metric)
    def log(self, values, step): note("log", values, step)
    def finish(self): note("finish")
def init(**options):
    if "surprise" in options:
        raise TypeError("init() got an unexpected keyword argument 'surprise'")
    note("init", options)
    return Run()
def finish(): note("finish")
"""


Notes = Callable[[str], list[Any]]


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Notes:
    """Installs a package under a name; what it was called with since."""
    monkeypatch.syspath_prepend(tmp_path / "site")

    def called(name: str) -> list[Any]:
        package = tmp_path / "site" / name
        return [json.loads(line) for line in (package / "notes.jsonl").read_text().splitlines()]

    for name in ("wandb", "trackio"):
        package = tmp_path / "site" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(WANDB)
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    return called


def track(
    wanted: dict[str, Any], folder: RunFolder, rows: Sequence[Any], config: Any = None
) -> None:
    """Write rows to the folder and to a tracker."""
    with tracking(wanted, folder, config or {}) as (feed,):
        for row in rows:
            append_json_line(folder.metrics, row)
            feed.on_log(ANY, row)


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Values that TensorBoard reads."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_tensorboard_shows_every_number_of_a_run(quick: list[str], tmp_path: Path) -> None:
    overrides = [*quick, "output.report=false", "output.trackers.tensorboard=true"]
    train(load_config(find_config("demo"), overrides), "demo")
    expected: dict[str, list[tuple[int, float]]] = {}
    for row in read_json_lines(tmp_path / "run" / "metrics.jsonl"):
        for name, value in get_values(row).items():
            expected.setdefault(name, []).append((row["update"], pytest.approx(value, rel=1e-6)))
    shown = scalars(tmp_path / "run" / "tensorboard")
    assert shown == expected
    assert [step for step, _ in shown["eval/reward_mean"]] == [0, 2]
    assert [step for step, _ in shown["train/reward_mean"]] == [1, 2]


def test_a_run_that_goes_on_has_no_row_twice_in_tensorboard(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for rows in (ROWS, ROWS[1:]):  # the last row was dropped, and comes again
        track({"tensorboard": True}, folder, rows)
        folder.metrics.write_text(json.dumps(ROWS[0]) + "\n")
    assert scalars(tmp_path / "tensorboard") == {
        "eval/reward_mean": [(0, 0.25)],
        "train/reward_mean": [(1, 0.5)],
    }


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_trackers_get_options_and_rows(name: str, notes: Notes, tmp_path: Path) -> None:
    track({name: {"project": "some"}}, RunFolder(tmp_path / "mine"), ROWS, {"seed": 3})
    begun, *logged, finished = (what for what in notes(name) if what[0] != "axis")
    assert begun[0] == "init"
    assert begun[1].items() >= {"project": "some", "name": "mine", "config": {"seed": 3}}.items()
    updates = [{"update": 0}, {"update": 1}] if name == "wandb" else [{}, {}]
    assert logged == [
        ["log", {"eval/reward_mean": 0.25, **updates[0]}, 0],
        ["log", {"train/reward_mean": 0.5, **updates[1]}, 1],
    ]
    assert finished == ["finish"]


LESSONS: list[dict[str, Any]] = [
    {"update": 0, "kind": "untrained", "reward_mean": 0.0},
    *({"update": 0, "kind": "warm_start", "step": n, "nll/x": 3.0 - n} for n in (1, 2)),
    {"update": 0, "kind": "eval", "reward_mean": 0.5},
    *({"update": n, "kind": "train", "reward_mean": 0.5} for n in (1, 2, 3)),
]


def test_steps_of_a_warm_start_rise_in_tensorboard(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for rows in (LESSONS[:2], LESSONS[2:]):  # the run goes on within its warm start
        track({"tensorboard": True}, folder, rows)
    shown = scalars(tmp_path / "tensorboard")
    assert shown["warm_start/nll/x"] == [(1, 2.0), (2, 1.0)]
    assert [step for step, _ in shown["train/reward_mean"]] == [1, 2, 3]


def test_a_tracker_of_ones_own_gets_the_steps_of_a_warm_start() -> None:
    recorder = Mock()
    feed = Feed("recorder", recorder)
    for row in LESSONS:
        feed.on_log(ANY, row)
    steps = [
        (next(iter(call.args[0])).partition("/")[0], call.args[1])
        for call in recorder.log.mock_calls
    ]
    assert [step for kind, step in steps if kind == "warm_start"] == [1, 2]
    assert [step for kind, step in steps if kind == "train"] == [1, 2, 3]


def test_steps_of_wandb_never_fall(notes: Notes, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "mine")
    for rows in (LESSONS[:5], LESSONS[5:]):  # the run goes on
        track({"wandb": True}, folder, rows)
    logged = [(what[1], what[2]) for what in notes("wandb") if what[0] == "log"]
    assert [step for _, step in logged] == [0, 1, 2, 2, 3, 4, 5]
    assert [v["update"] for v, _ in logged if "train/reward_mean" in v] == [1, 2, 3]
    assert all("update" not in v for v, _ in logged if "warm_start/step" in v)
    axes = {what[1]: what[2] for what in notes("wandb") if what[0] == "axis"}
    assert axes["warm_start/*"] == "warm_start/step" and axes["train/*"] == "update"


@pytest.mark.parametrize(
    ("name", "first", "later"),
    [
        ("wandb", {}, {"id": "abc", "resume": "allow"}),
        ("trackio", {"resume": "never"}, {"resume": "allow"}),
    ],
)
def test_a_resumed_run_goes_on_in_the_tracker(
    name: str,
    first: dict[str, str],
    later: dict[str, str],
    notes: Notes,
    tmp_path: Path,
) -> None:
    folder = RunFolder(tmp_path / "mine")
    for _ in range(2):
        track({name: True}, folder, ROWS[:1])
    begun = [what[1] for what in notes(name) if what[0] == "init"]
    kept = [{key: value for key, value in one.items() if key in ("id", "resume")} for one in begun]
    assert kept == [first, later]


def test_a_tracker_that_fails_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    broken = Mock()
    broken.log.side_effect = ConnectionError("no way")
    feed = Feed("wandb", broken)
    with caplog.at_level(logging.WARNING):
        feed.on_log(ANY, ROWS[0])
        feed.on_log(ANY, ROWS[1])
        feed.close()
    assert len(broken.mock_calls) == 1
    (told,) = caplog.messages
    assert "wandb has failed" in told and "ConnectionError: no way" in told


def test_trackers_are_closed_when_a_run_fails(notes: Notes, tmp_path: Path) -> None:
    with (
        pytest.raises(FloatingPointError),
        tracking({"wandb": True, "trackio": True}, RunFolder(tmp_path), {}),
    ):
        raise FloatingPointError
    assert notes("wandb")[-1] == notes("trackio")[-1] == ["finish"]


def test_unknown_options_of_a_tracker_are_refused(notes: Notes, tmp_path: Path) -> None:
    wanted = {"wandb": {"surprise": 1}}
    with (
        pytest.raises(RunError, match=r"wandb cannot begin: TypeError: .*'surprise'"),
        tracking(wanted, RunFolder(tmp_path), {}),
    ):
        pass


def test_commands_of_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "wandb").mkdir()  # as wandb itself leaves it behind, and no package
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    for module in ("wandb", "trackio"):
        monkeypatch.delitem(__import__("sys").modules, module, raising=False)
    for name in ("wandb", "trackio"):
        with pytest.raises(ConfigError, match=f"pip install {name}$"):
            require_packages({name: True})
        require_packages({name: False})


def test_packages_are_required(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install tensorboard"):
        runs.train("output.trackers.tensorboard=true")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("output.trackers.tensorbord=true", "did you mean 'tensorboard'"),
        ("output.trackers.wandb=mine", "true, false or options"),
        ("output.trackers.wandb=null", "true, false or options"),
    ],
)
def test_a_wrong_tracker_is_refused(override: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_config(None, [override])


def test_a_section_wandb_of_an_older_file_means_its_tracker(tmp_path: Path) -> None:
    path = tmp_path / "old.yaml"
    path.write_text("wandb: {project: mlrl, entity: mine, tags: [a, b]}\n")
    options = {"project": "mlrl", "entity": "mine", "tags": ["a", "b"]}
    assert load_config(path).output.trackers == {"wandb": options}
    more = load_config(path, ["wandb.name=other", "output.trackers.tensorboard=true"])
    assert more.output.trackers == {"wandb": {**options, "name": "other"}, "tensorboard": True}
    off = load_config(path, ["output.trackers.wandb=false"])
    assert off.output.trackers == {"wandb": False}
