"""The code blocks of the README and the pages work as they stand there."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomllib
import yaml

from llm_decpomdp import make, registry
from llm_decpomdp.benchmarks.runs.setup import load_config
from llm_decpomdp.benchmarks.suites.suite import load_suite
from tests.documentation.blocks import NOT_RUN, blocks, reason, units
from tests.support.packages import EXAMPLE
from tests.support.processes import ROOT

pytestmark = pytest.mark.filterwarnings("ignore:Overriding environment", "ignore:The hub")

MOST_NOT_RUN = 88
"""Commands and blocks that no test may run; a page that needs more says why in `blocks.NOT_RUN`."""


def page_names() -> list[str]:
    return sorted({block.page for block in blocks("python") if not reason(block.text)})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with the files that pages tell their reader to have."""
    for block in blocks():
        if block.saved_as:
            (tmp_path / block.saved_as).write_text(block.text)
    (tmp_path / "own_family.py").symlink_to(ROOT / "examples" / "own_family.py")
    (tmp_path / "terse_agents.py").symlink_to(EXAMPLE / "terse_agents.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in {"learn", "mine", "own_family", "page", "terse_agents"} - before:
        sys.modules.pop(name, None)


def tiny_team(page: dict[str, Any]) -> None:
    """A team and an environment, as the page on learners has them from the loop before."""
    from llm_decpomdp.agents import Sampling, tiny_causal_lm

    page["env"] = make("probe-halves-v0")
    agents = page["env"].possible_agents
    page["team"] = {agent: tiny_causal_lm("abc", Sampling(max_new_tokens=2)) for agent in agents}


def gold_evaluation(page: dict[str, Any]) -> None:
    """A folder `runs/gold`, as the page on evaluation makes one."""
    from llm_decpomdp.agents import Gold
    from llm_decpomdp.algorithms import Start
    from llm_decpomdp.benchmarks import evaluate

    env = make("probe-halves-v0")
    starts = [Start(task_id=task.task_id) for task in env.tasks.tasks]
    evaluate(env, dict.fromkeys(env.possible_agents, Gold()), starts, folder="runs/gold")


def exported(page: dict[str, Any]) -> None:
    """A data set, as the command of the page writes it."""
    from llm_decpomdp.benchmarks.cli.main import main

    gold_evaluation(page)
    path = Path("runs/gold/episodes.jsonl")
    path.write_text(path.read_text().replace('"phase": "eval"', '"phase": "train"'))
    with pytest.raises(SystemExit):
        main(["export", "runs/gold", "--to", "hub-folder", "--output", "data"])
    target = Path("runs/mine/trajectories-hub-folder")
    target.parent.mkdir(parents=True)
    Path("data").rename(target)


def family(page: dict[str, Any]) -> None:
    """The names of the module whose last line the page shows."""
    import own_family

    page.update(register=own_family.register, couplet=own_family.couplet)
    registry._registry.pop("couplet-v0")


BEFORE: dict[str, Callable[[dict[str, Any]], None]] = {
    "cooperation.md": gold_evaluation,
    "data.md": exported,
    "learners.md": tiny_team,
    "plugins.md": family,
}
"""What a page takes for granted."""

AFTER = {
    "README.md": "assert 'turn 2 of 2' in env.render()",
    "cooperation.md": "assert credit.shapley >= 0",
    "data.md": "assert len(data['train']) and len(joint) and not len(good)",
    "evaluation.md": "assert set(rewards.values()) == {4.0}",
    "learners.md": "assert ALGORITHMS['magrpo'].name == 'magrpo' and learner.policies",
    "plugins.md": """
import llm_decpomdp
env = llm_decpomdp.make("probe-halves-v0")
env.reset(seed=0)
verdict = Brief(env.reward)(env.task, {"player_0": "12345", "player_1": ""})
assert verdict.components["length"] == -0.05
assert llm_decpomdp.spec("couplet-v0")""",
    "integrations.md": "assert len(rows) == 2 * len(turns.tasks)",
    "start.md": "assert reward > 0.9",
    "wrappers.md": """
assert terminated or prompt, prompt
assert reward < 2
assert set(rewards.values()) == {rewards["player_0"]} and rewards["player_0"] != 0.0, rewards
assert type(twin) is Judged and twin.env is not env
assert env.metadata["id"] == "coophumaneval-v0" and gold.secrets""",
    "writing.md": "assert env.possible_agents",
}
"""What is true after the blocks of a page."""


@pytest.mark.parametrize("name", page_names())
def test_the_python_of_a_page_runs(folder: Path, name: str) -> None:
    page = sys.modules["page"] = types.ModuleType("page")
    BEFORE.get(name, lambda page: None)(page.__dict__)
    for block in blocks("python"):
        if block.page == name and not reason(block.text):
            if block.saved_as:  # a file is a module of its own
                stem = Path(block.saved_as).stem
                page = sys.modules[stem] = types.ModuleType(stem)
            exec(compile(block.text, name, "exec"), page.__dict__)
    exec(AFTER.get(name, ""), page.__dict__)


def test_every_yaml_is_read_by_its_kind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("LLM_DECPOMDP_VLLM_PYTHON", sys.executable)
    files = {"plugins.md": EXAMPLE / "terse_agents.py", "start.md": folder / "mine.py"}
    modules = {page: path.read_text(encoding="utf-8") for page, path in files.items()}
    for block in blocks("yaml"):
        if block.page in modules:
            Path("mine.py").write_text(modules[block.page], encoding="utf-8")
            sys.modules.pop("mine", None)
        path = folder / (block.saved_as or "block.yaml")
        path.write_text(block.text)
        if "arms" in yaml.safe_load(block.text):
            assert load_suite(path).arms
        else:
            load_config(path)


def test_the_row_of_a_problem_file_is_a_problem(folder: Path) -> None:
    block = next(block for block in blocks("json") if block.page == "data.md")
    (folder / "problems.jsonl").write_text(json.dumps(json.loads(block.text)))
    env = make("coophumaneval-v0", source="problems.jsonl", split="all", num_turns=1)
    env.reset(seed=0)
    _, rewards, *_ = env.step(env.roles and {r.agent: r.reference(env.task) for r in env.roles})
    assert set(rewards.values()) == {4.0}


def test_the_row_of_a_file_of_couplets_is_a_couplet(folder: Path) -> None:
    row = next(block for block in blocks("json") if block.page == "plugins.md")
    code = next(block for block in blocks("python") if "def load_tasks" in block.text)
    (folder / "couplets.jsonl").write_text(json.dumps(json.loads(row.text)))
    page: dict[str, Any] = {}
    exec(code.text, page)
    (task,) = page["load_tasks"]("couplets.jsonl", "train").tasks
    reward = make("own_family:couplet-v0", num_turns=1).reward
    assert reward(task, task.references).solved


def test_the_entry_points_are_those_of_the_example_package() -> None:
    (block,) = blocks("toml")
    shown = tomllib.loads(block.text)["project"]["entry-points"]["llm_decpomdp"]
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert shown.items() <= project["entry-points"]["llm_decpomdp"].items()


def test_what_is_not_run_is_counted_and_has_a_reason() -> None:
    skipped = [code for _, _, code in units() if reason(code)]
    assert len(skipped) <= MOST_NOT_RUN
    unused = [start for start in NOT_RUN if not any(code.startswith(start) for code in skipped)]
    assert unused == []


def test_every_block_says_its_language() -> None:
    languages = {"bash", "python", "yaml", "json", "toml", "text", "bibtex"}
    assert [block for block in blocks() if block.language not in languages] == []
