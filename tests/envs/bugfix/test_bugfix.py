"""`bugfix-v0` refuses bad arguments and keeps its contract."""

from __future__ import annotations

import json

import pytest

import llm_decpomdp
from llm_decpomdp import check_env
from llm_decpomdp.envs.datasets.loading import KNOWN_ISSUES
from tests.envs.bugfix_examples import ROW

MODES = ("level_feedback", "level_passed", "passed", "plain", "expert_edits")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"bugs": 0}, "bugs must be"),
        ({"bugs": True}, "bugs must be"),
        ({"spread": "both"}, "unknown spread"),
        ({"task_seed": -1}, "task_seed must be"),
        ({"num_agents": 0}, "num_agents must be"),
        ({"split": "dev"}, "unknown split"),
        ({"source": "hub"}, "are made here"),
        ({"exclude_known_issues": 1}, "exclude_known_issues must be true or false, got 1"),
        ({"external_mode": "pased"}, "did you mean 'passed'"),
        ({"external_mode": "expert_edits"}, "needs expert_model"),
    ],
)
def test_bad_arguments_are_refused(arguments, why):
    with pytest.raises(ValueError, match=why):
        llm_decpomdp.make("bugfix-v0", **arguments)


def test_tasks_of_problems_with_known_issues_can_be_left_out(tmp_path):
    rows = [{**ROW, "task_id": task_id} for task_id in ("HumanEval/47", "HumanEval/48")]
    path = tmp_path / "programs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    every = llm_decpomdp.make("bugfix-v0", source=str(path)).metadata["data"]
    wrong = every["known_issues"]
    assert set(wrong.values()) == {KNOWN_ISSUES["HumanEval/47"]} and 2 * len(wrong) == every["rows"]
    left = llm_decpomdp.make("bugfix-v0", source=str(path), exclude_known_issues=True)
    assert left.metadata["data"]["excluded"] == wrong and len(left.tasks) == len(wrong)


@pytest.mark.parametrize("arguments", [{"num_agents": 9}, {"spread": "across"}])
def test_more_than_the_programs_have_is_refused(arguments):
    with pytest.raises(ValueError, match="no program has"):
        llm_decpomdp.make("bugfix-v0", **arguments).reset(seed=0)


class QuietExpert:
    """An expert that is never reached over a network and always says the same."""

    def edits(self, task_prompt, completions):
        return dict.fromkeys(completions, "No changes needed.")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_agents", [1, 2, 3])
def test_the_environment_keeps_its_contract(num_agents, mode, monkeypatch):
    monkeypatch.setattr(
        "llm_decpomdp.envs.feedback.code_mode.RemoteExpert", lambda model, base_url: QuietExpert()
    )
    expert = {"expert_model": "an expert"} if mode == "expert_edits" else {}
    settings = {"num_agents": num_agents, "external_mode": mode, "split": "test[:40]", **expert}
    check_env(lambda: llm_decpomdp.make("bugfix-v0", **settings))
