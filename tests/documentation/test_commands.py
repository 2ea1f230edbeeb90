"""The commands of the README and the pages: all are understood, and those that take seconds run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from llm_decpomdp import registry
from llm_decpomdp.benchmarks.cli.main import app, spread
from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.benchmarks.runs.setup import load_config
from tests.documentation.blocks import blocks, reason
from tests.support.commands import call
from tests.support.packages import looked_up_anew, write_example
from tests.support.processes import ROOT

pytestmark = pytest.mark.filterwarnings("ignore:Overriding environment")

PREFIXES = ("llm-decpomdp ", "-m llm_decpomdp.benchmarks ")

COMMANDS = [(block.page, line) for block in blocks("bash") for line in block.commands]
OURS = [
    (page, line.partition(prefix)[2])
    for page, line in COMMANDS
    for prefix in PREFIXES
    if prefix in line
]

GROUP: Any = get_command(app)

QUICK = ("list", "bench --list", "bench couplets.yaml --dry-run")
"""Commands that take a second in this process."""

OWN = {"mine": "demo.yaml", "my_config.yaml": "demo.yaml"}
"""Configurations that a page's reader has, and what stands for them."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The current folder, with the files and packages that pages tell their reader to have."""
    site = tmp_path / "site"
    write_example(site)
    for block in blocks():
        if block.saved_as:
            (tmp_path / block.saved_as).write_text(block.text)
    shutil.copy(ROOT / "examples" / "own_family.py", tmp_path)
    for name, source in OWN.items():
        shutil.copy(ROOT / "benchmarks" / "configs" / source, tmp_path / name)
    row = next(block for block in blocks("json") if block.page == "data.md")
    rows = (row.text.strip().replace("mine/0", f"mine/{number}") for number in range(8))
    (tmp_path / "problems.jsonl").write_text("\n".join(rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    monkeypatch.setenv("LLM_DECPOMDP_VLLM_PYTHON", sys.executable)
    # Before the folder of packages: the end of the test restores the paths in the opposite order.
    monkeypatch.syspath_prepend(tmp_path)
    with looked_up_anew(site, monkeypatch):
        yield tmp_path
    for name in ("mine", "own_family"):
        sys.modules.pop(name, None)


def parsed(line: str) -> tuple[str, dict[str, Any]]:
    """The name and the options of a command."""
    name, *words = spread(shlex.split(line))
    return name, GROUP.commands[name].make_context(name, words).params


def test_every_command_is_understood(folder: Path) -> None:
    assert len(OURS) > 70
    for line in sorted({line for _, line in OURS}):
        name, options = parsed(line)
        config = options.get("config")
        if name in ("train", "eval") and config is not None:
            path = Path(config) if Path(config).exists() else find_config(config)
            load_config(path, options["override"] or ())


@pytest.mark.parametrize("line", QUICK)
def test_a_quick_command_runs(folder: Path, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = [command for _, command in OURS if command.startswith(line)][:1]
    assert call(*shlex.split(line)) == 0 and capsys.readouterr().out


def test_every_make_target_of_the_pages_exists() -> None:
    targets = {
        line.split()[0] for line in (ROOT / "Makefile").read_text().splitlines() if ": " in line
    }
    for page, line in COMMANDS:
        if line.startswith("make "):
            assert {f"{target}:" for target in line.split()[1:]} <= targets, (page, line)


TINY = (
    *("model.name=tiny-random", "model.max_new_tokens=4", "model.compute_dtype=float32"),
    *("algorithm.max_updates=1", "algorithm.num_generations=4", "evaluation.num_tasks=1"),
    *("algorithm.prompts_per_update=2", "output.save_final_model=true", "model.system_prompt=null"),
)
"""Overrides that make a training a matter of seconds; they stand after those of the page."""

SHIM = f"""#!{sys.executable}
import sys
from llm_decpomdp.benchmarks.cli.main import main

if __name__ == "__main__":  # workers import it
    words = sys.argv[1:]
    if words[0] == "train" or words[:2] == ["eval", "--config"]:
        words += ["--override", *{TINY!r}]
    if words[0] == "eval":
        words += ["--tasks", "2"]
    main(words)
"""
"""The command `llm-decpomdp`, with tiny models in place of those of the page."""

RUNS = ("demo-20260101-120000", "demo-20260301-120000", "magrpo", "grpo", "mine", "first")
"""Runs that pages take for granted: copies of one; `seed-0` to `seed-2` have seeds of their own."""

ALONE = sorted({page for page, line in COMMANDS if not reason(line)})
"""Pages with a command that can run."""


def give_gains(path: Path) -> None:
    """Let the joint samples of each group of training have different rewards, as tiny models earn none."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        for group in line["groups"] if line["phase"] == "train" else ():
            group["rewards"] = [float(number) for number in range(len(group["rewards"]))]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def shell(folder: Path, command: str) -> str:
    """Output of a command line in a folder whose `bin` goes first."""
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), "/usr/bin:/bin"])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": f"{ROOT}:site", "HF_HUB_OFFLINE": "1"}
    environment.pop("LLM_DECPOMDP_VLLM_PYTHON", None)  # `doctor` would look for vLLM there
    run = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, f"{command}\n{run.stdout[-2000:]}\n{run.stderr[-4000:]}"
    return run.stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the command and the runs that pages take for granted."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "bin").mkdir()
    (folder / "bin" / "llm-decpomdp").write_text(SHIM)
    (folder / "bin" / "llm-decpomdp").chmod(0o755)
    for seed in range(3):
        shell(folder, f"llm-decpomdp train --config demo --output runs/seed-{seed} --seed {seed}")
    for name in RUNS:
        shutil.copytree(folder / "runs" / "seed-0", folder / "runs" / name)
    shell(folder, "llm-decpomdp eval --config demo --output runs/eval-pair")
    single = "llm-decpomdp eval --config demo --baseline single_agent_matched"
    shell(folder, f"{single} --output runs/eval-single")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", ALONE)
def test_the_commands_of_a_page_run_with_tiny_models(folder: Path, runs: Path, page: str) -> None:
    shutil.copytree(runs, folder, dirs_exist_ok=True)
    if any("--pairs" in line for other, line in COMMANDS if other == page):
        for name in RUNS:
            give_gains(folder / "runs" / name / "episodes.jsonl")
    for name in ("examples", "benchmarks", "tests"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "answer.txt").write_text("def f():\n    return 1\n")
    for command_page, line in COMMANDS:
        if command_page == page and not reason(line):
            remade = re.search(r"--output (runs/seed-\d|runs/eval-\w+)", line)
            if remade and (folder / remade[1]).exists():
                shutil.rmtree(folder / remade[1])
            if "export runs/first" in line:  # sections of a page each write it anew
                shutil.rmtree(folder / "runs" / "first" / "pairs-jsonl", ignore_errors=True)
            shell(folder, line)


def test_the_configuration_of_the_first_page_learns_as_its_script_does(folder: Path) -> None:
    from llm_decpomdp.agents import tiny_causal_lm

    tiny_causal_lm("ud").save(folder / "tiny-ud")
    assert call("train", "--config", "opposites.yaml", "--override", "output.report=false") == 0
    rows = [json.loads(line) for line in Path("runs/opposites/metrics.jsonl").open()]
    assert rows[-1]["kind"] == "eval" and rows[-1]["reward_mean"] > 0.9
