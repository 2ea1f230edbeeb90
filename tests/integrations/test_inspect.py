"""Inspect's own evaluation plays teams; `make inspect` runs this where Inspect is installed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp import answers, make
from tests.support.processes import ROOT, python

inspect_ai = pytest.importorskip("inspect_ai")

pytestmark = pytest.mark.slow

CODE = {"source": "bundled", "split": "test[:4]", "num_turns": 2}

BOTH = ["aux_0", "main_0"]


def role(answer: Callable[[str], str]) -> Any:
    """Inspect's mock model, which answers a prompt by a function."""
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    def generate(messages: Any, *_: Any) -> Any:
        output = ModelOutput.from_content("mockllm", answer(messages[-1].text))
        # Without one it asks tiktoken, which downloads.
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    return get_model("mockllm/model", custom_outputs=generate, memoize=False)


def evaluate(folder: Path, task: Any, roles: dict[str, Any], **options: Any) -> Any:
    (log,) = inspect_ai.eval(
        task,
        model=role(lambda prompt: "nobody has this role"),
        model_roles=roles,
        log_dir=str(folder),
        display="none",
        **options,
    )
    return log


def scores(log: Any) -> dict[str, float]:
    """The mean of each score."""
    assert log.status == "success", log.error
    return {score.name: score.metrics["mean"].value for score in log.results.scores}


def gold() -> dict[tuple[str, str], str]:
    """The data's answers by agent and first prompt."""
    env = make("coophumaneval-v0", **CODE)
    texts = {}
    for task in env.tasks.tasks:
        prompts, _ = env.reset(seed=0, options={"task_id": task.task_id})
        texts |= {(agent, prompts[agent]): answers(env).reference(agent) for agent in env.agents}
    return texts


def test_gold_answers_earn_full_marks(tmp_path: Path) -> None:
    from llm_decpomdp.integrations.inspect import team

    texts = gold()
    roles = {agent: role(lambda prompt, a=agent: texts[a, prompt]) for agent in BOTH}
    log = evaluate(tmp_path, team("coophumaneval-v0", **CODE), roles)
    means = scores(log)
    assert (means["return"], means["solved"], means["turn"]) == (4.0, 1.0, 1.0)
    assert means["tests_passed"] == means["tests_total"] > 0
    assert len(log.samples) == 4
    agents = [message.text.split("\n")[0] for message in log.samples[0].messages[1::2]]
    assert agents == [f"[{agent}]" for agent in BOTH]


def test_wrong_answers_earn_what_they_earn_here_in_both_turns(tmp_path: Path) -> None:
    from llm_decpomdp.integrations.inspect import team

    local = make("coophumaneval-v0", **CODE)
    returns = []
    for task in local.tasks.tasks:
        local.reset(seed=0, options={"task_id": task.task_id})
        texts = {"aux_0": "def aux(x):\n    return x", "main_0": "nobody has this role"}
        returns.append(sum(local.step(texts)[1]["main_0"] for _ in range(2)))
    # The other one has the model of the evaluation.
    aux = role(lambda prompt: "def aux(x):\n    return x")
    log = evaluate(tmp_path, team("coophumaneval-v0", **CODE), {"aux_0": aux})
    assert [s.scores["team_reward"].value["return"] for s in log.samples] == returns
    assert scores(log)["solved"] == 0.0


def test_a_model_that_fails_is_no_low_reward(tmp_path: Path) -> None:
    from llm_decpomdp.integrations.inspect import team

    def fail(prompt: str) -> str:
        raise ConnectionError("as the test wants")

    log = evaluate(tmp_path, team("coophumaneval-v0", **CODE), {"aux_0": role(fail)})
    assert log.status == "error" and "as the test wants" in log.error.message


def test_a_role_that_is_no_agent_is_named(tmp_path: Path) -> None:
    from llm_decpomdp.integrations.inspect import team

    log = evaluate(tmp_path, team("coophumaneval-v0", **CODE), {"main_1": role(lambda _: "")})
    assert log.status == "error"
    assert "unknown model role 'main_1'; did you mean 'main_0'" in log.error.message


BY_NAME = """
from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model

def answer(*_):
    output = ModelOutput.from_content("mockllm", "a")
    output.usage = ModelUsage()
    return output

model = get_model("mockllm/model", custom_outputs=answer)
arguments = {"env_id": "probe-turns-v0"}
(log,) = eval("llm_decpomdp/team", task_args=arguments, model=model, limit=2, display="none")
print(log.status, log.eval.task, sorted(score.name for score in log.results.scores))
"""


@pytest.mark.skipif(
    not any(point.name == "llm_decpomdp" for point in entry_points(group="inspect_ai")),
    reason="Inspect finds tasks by name in installed packages",
)
def test_the_installed_task_is_known_by_its_name(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = python("-c", BY_NAME, cwd=tmp_path, env=environment)
    assert run.stdout.startswith("success llm_decpomdp/team [") and "return" in run.stdout


def test_the_example_prints_the_scores() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = python("examples/inspect_roles.py", env=environment)
    assert float(re.findall(r"^return +(\d\.\d\d)$", run.stdout, re.MULTILINE)[0]) > 0


def test_evaluations_are_logs_of_inspect(tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    from llm_decpomdp.benchmarks.export.write import export

    folder = tmp_path / "run"
    folder.mkdir()
    groups = [
        {
            "turn": turn,
            "prompts": {"aux_0": f"help {turn}", "main_0": f"do {turn}"},
            "completions": {"aux_0": ["a"], "main_0": ["b"]},
            "joint": [[0, 0]],
            "rewards": [float(turn)],
            "infos": [{"solved": float(turn), "reward/tests": float(turn)}],
            "chosen": 0,
        }
        for turn in range(2)
    ]
    row = {"phase": "eval", "update": 3, "start": {"task_id": "t", "seed": None}, "groups": groups}
    text = json.dumps({**row, "final": None}) + "\n"
    (folder / "episodes.jsonl").write_text(text, encoding="utf-8")
    made = export(folder, "inspect")
    log = read_eval_log(str(made.folder / "update-00003.eval"))
    (sample,) = log.samples
    assert [message.text for message in sample.messages] == [
        *("[aux_0]\nhelp 0", "a", "[main_0]\ndo 0", "b"),
        *("[aux_0]\nhelp 1", "a", "[main_0]\ndo 1", "b"),
    ]
    assert sample.id == "t" and sample.scores["reward"].value == 0.5
    means = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert means == {"reward": 0.5, "solved": 0.5, "reward/tests": 0.5}
