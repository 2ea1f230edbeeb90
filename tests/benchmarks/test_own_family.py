"""The example of a family of one's own goes through every command, from the folder that it lies in."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_decpomdp import check_env, make, registry
from llm_decpomdp.benchmarks import load_config, train, write_report
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.benchmarks.suites.suite import load_suite
from tests.support.processes import ROOT

PAGE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
GUIDE = PAGE[PAGE.index("## A family of your own") :]
FILES = dict(re.findall(r"Save this as `(\w+\.yaml)`:\n\n```yaml\n(.*?)```", GUIDE, re.DOTALL))
COMMANDS = [
    line
    for block in re.findall(r"```bash\n(.*?)```", GUIDE, re.DOTALL)
    for line in block.splitlines()
]
ID = "own_family:couplet-v0"


pytestmark = pytest.mark.filterwarnings("ignore:Overriding environment")
"""PettingZoo's registry keeps what a test adds; ours doesn't."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with what a reader of the guide has in it."""
    shutil.copy(ROOT / "examples" / "own_family.py", tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    yield tmp_path
    sys.modules.pop("own_family", None)


def run(command: str) -> str:
    """What a command line prints, as a shell runs it."""
    found = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, f"{command}\n{found.stdout}\n{found.stderr}"
    return found.stdout


def test_the_example_keeps_the_contract_and_its_references_earn_full_marks(folder: Path) -> None:
    check_env(lambda: make(ID, num_turns=3), completions=["a cat sat on the mat", "a hat"])
    for split in ("train", "test"):
        env = make(ID, split=split)
        for task in env.tasks.tasks:
            env.reset(options={"task_id": task.task_id})
            _, rewards, *_, infos = env.step(dict(task.references))
            assert rewards == {"poet_0": 1.0, "poet_1": 1.0} and infos["poet_0"]["solved"]


@pytest.mark.parametrize(
    ("first", "second", "reward"),
    [
        ("the sun sinks low", "and cold winds blow", 1.0),
        ("the sun sinks low", "and all the cold winds blow", 0.5 + 0.5 * 4 / 6),
        ("the sun sinks low", "the moon hangs low", 0.5),  # the same word is no rhyme
        ("low", "blow", 0.5 + 0.5 / 4),
        ("", "and cold winds blow", 0.0),
    ],
)
def test_the_reward_of_the_example(folder: Path, first: str, second: str, reward: float) -> None:
    env = make(ID)
    env.reset(seed=0)
    _, rewards, *_ = env.step({"poet_0": first, "poet_1": second})
    assert rewards["poet_0"] == pytest.approx(reward)


def test_the_guide_shows_files_that_load(folder: Path) -> None:
    assert load_config(folder / "couplet.yaml").env.id == ID
    assert len(load_suite(folder / "couplets.yaml").arms) == 5


def test_a_quick_command_of_the_guide_runs_as_it_stands(folder: Path) -> None:
    run(next(one for one in COMMANDS if "tiny" not in one))


@pytest.mark.slow
def test_all_commands_of_the_guide_run_as_they_stand(folder: Path) -> None:
    for command in COMMANDS:
        run(command)
    assert (folder / "runs" / "tiny" / "report.html").is_file()


def test_a_run_and_all_that_follows_it_know_the_module(folder: Path, quick: list[str]) -> None:
    items = [*quick, "dataset.source=auto", "output.checkpoint_every=1"]
    train(load_config(folder / "couplet.yaml", items), "couplet")
    result = resume(folder / "run")
    assert result.summary["updates"] == 2
    assert result.folder.read_manifest()["environment"] == ID
    assert ID in write_report(result.folder).read_text()
    run("llm-decpomdp check rewards run")


@pytest.mark.slow
def test_the_processes_of_a_suite_find_the_module(folder: Path) -> None:
    (folder / "two.yaml").write_text("config: couplet.yaml\ncells: [{method: [random, gold]}]\n")
    run("llm-decpomdp bench two.yaml --cores 1")
    text = (folder / "runs" / "two" / "leaderboard.md").read_text()
    assert "couplet-v0, 2 problems" in text and "failed" not in text.lower()
    run("llm-decpomdp check rewards runs/two/gold-seed-0")


def test_folders_have_names_for_every_file_system(folder: Path) -> None:
    run("llm-decpomdp eval --config couplet.yaml --baseline gold")
    assert [path.name for path in (folder / "runs").iterdir()] == [
        "eval-gold-own_family-couplet-v0"
    ]
