"""HumanEvalFix, from the hub's format and from faults of ours."""

from __future__ import annotations

from dataclasses import replace

import pytest

import llm_decpomdp
from llm_decpomdp.envs.bugfix.humanevalfix import HUMANEVALFIX
from llm_decpomdp.envs.bugfix.reward import MAXIMUM
from llm_decpomdp.envs.datasets.loading import load
from llm_decpomdp.envs.datasets.rows import KNOWN_ISSUES
from llm_decpomdp.oracle import answers
from tests.envs.bugfix_examples import sample
from tests.envs.own_rows import write_lines, write_parquet


def fix_row(**changed):
    """A row of our own in the hub's format."""
    return {
        "task_id": "Python/900",
        "prompt": 'from typing import List\n\n\ndef widest(gaps: List[int]) -> int:\n    """The largest '
        'gap, 0 if there is none.\n    >>> widest([1, 3])\n    3\n    """\n',
        "declaration": "from typing import List\n\n\ndef widest(gaps: List[int]) -> int:\n",
        "canonical_solution": "    return max(gaps, default=0)\n",
        "buggy_solution": "    return min(gaps, default=0)\n",
        "bug_type": "function misuse",
        "failure_symptoms": "incorrect output",
        "entry_point": "widest",
        "import": "",
        "test_setup": "",
        "test": "\n\n\ndef check(widest):\n    assert widest([1, 3]) == 3\n    assert widest([]) == 0\n\n"
        "check(widest)",
        "example_test": "",
        "signature": "widest(gaps: List[int]) -> int",
        "docstring": "The largest gap, 0 if there is none.",
        "instruction": "Write a function.",
        **changed,
    }


def fix_env(tmp_path, *rows, **options):
    path = write_lines(tmp_path / "fix.jsonl", rows)
    return llm_decpomdp.make("humanevalfix-v0", source=str(path), **options)


def test_rows_in_the_format_of_humanevalfix_become_tasks(tmp_path):
    env = fix_env(tmp_path, fix_row())
    prompts, _ = env.reset(seed=0)
    assert env.possible_agents == ["fixer_0"] and env.task.bugs == ("function misuse",)
    assert "return min(gaps, default=0)" in prompts["fixer_0"]
    assert "The largest gap" in prompts["fixer_0"] and "max(" not in prompts["fixer_0"]
    _, rewards, terminations, _, infos = env.step({"fixer_0": answers(env).reference("fixer_0")})
    assert rewards["fixer_0"] == MAXIMUM and terminations["fixer_0"] and infos["fixer_0"]["solved"]


def test_a_parquet_file_and_a_folder_of_the_hub_give_the_same_tasks(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    rows = [fix_row(), fix_row(task_id="Python/901")]
    folder = tmp_path / "pack"
    (folder / "data").mkdir(parents=True)
    path = write_parquet(folder / "data" / "python.parquet", rows)
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: python\n  data_files:\n"
        "  - split: test\n    path: data/python.parquet\n---\n"
    )
    lines = write_lines(tmp_path / "fix.jsonl", rows)
    there = replace(HUMANEVALFIX, hub=str(folder))
    sets = [load(HUMANEVALFIX, "test", str(path)), load(there, "test", "hub")]
    assert {found.fingerprint for found in sets} == {load(there, "test", str(lines)).fingerprint}
    assert sets[1].source == "hub" and not sets[1].stand_in and len(sets[1]) == 2


def test_tests_of_humanevalfix_may_call_helpers_which_stay(tmp_path):
    row = fix_row(
        declaration="def largest(gaps):\n    return max(gaps)\n\n\ndef widest(gaps):\n",
        canonical_solution="    return largest(gaps) if gaps else 0\n",
        buggy_solution="    return largest(gaps) if gaps else 1\n",
        test="def check(widest):\n    assert widest([]) == 0\n    assert widest([2]) == largest([2])\n",
    )
    env = fix_env(tmp_path, row)
    env.reset(seed=0)
    assert env.task.functions == ("widest",)
    assert env.reward(env.task, {"fixer_0": answers(env).reference("fixer_0")}).solved


@pytest.mark.parametrize(
    "field", ["prompt", "declaration", "canonical_solution", "buggy_solution", "test", "bug_type"]
)
def test_a_row_without_a_field_is_refused(tmp_path, field):
    with pytest.raises(ValueError, match=f"line 2: .*{field}"):
        env = fix_env(tmp_path, fix_row(), fix_row(task_id="Python/901", **{field: ""}))
        env.reset(seed=0)


def test_known_issues_of_humaneval_stand_in_the_metadata_and_can_be_left_out(tmp_path):
    rows = [fix_row(), fix_row(task_id="Python/47")]
    data = fix_env(tmp_path, *rows).metadata["data"]
    assert data["known_issues"] == {"Python/47": KNOWN_ISSUES["HumanEval/47"]}
    data = fix_env(tmp_path, *rows, exclude_known_issues=True).metadata["data"]
    assert (data["rows"], data["known_issues"]) == (1, {})
    assert data["excluded"] == {"Python/47": KNOWN_ISSUES["HumanEval/47"]}


def test_the_stand_in_of_humanevalfix_can_be_solved():
    env = llm_decpomdp.make("humanevalfix-v0", source="bundled")
    assert len(env.tasks) > 150 and env.tasks.stand_in
    for task in sample(env.tasks.tasks, 10):
        env.reset(options={"task_id": task.task_id})
        assert env.reward(task, {"fixer_0": answers(env).reference("fixer_0")}).reward == MAXIMUM
