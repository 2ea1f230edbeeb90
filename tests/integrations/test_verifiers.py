"""verifiers' own evaluation command plays teams; `make verifiers` runs this where verifiers is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp import answers, make
from tests.support import servers
from tests.support.processes import ROOT

pytest.importorskip("verifiers.v1")

pytestmark = pytest.mark.slow

CODE = {"source": "bundled", "split": "test[:3]", "num_turns": 2}

Answer = Callable[[str, str], str | None]


class Models(servers.Server):
    """All models of an API: a function of model and prompt; `None` is an error of the server."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(Handler)
        self.answer = answer
        self.requests: list[dict[str, Any]] = []


class Handler(servers.Handler):
    server: Models

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        (message,) = request["messages"]
        text = self.server.answer(request["model"], message["content"])
        body: dict[str, Any] = {"error": {"message": "as the test wants", "type": "test"}}
        if text is not None:
            choice = {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
            body = {"id": "1", "object": "chat.completion", "created": 0, "model": request["model"]}
            body["choices"] = [choice]
            body["usage"] = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        status = 400 if text is None else 200
        self.send(status, json.dumps(body), {"Content-Type": "application/json"})


def evaluate(folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run verifiers' evaluation command; nothing is uploaded."""
    command = [str(Path(sys.executable).with_name("vf-eval")), *arguments, "--no-push", "--no-rich"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TEST_KEY": "k"}
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert process.returncode == 0 or not check, process.stdout + process.stderr
    return process


def episodes(
    folder: Path, answer: Answer, env_id: str, options: dict[str, Any], *arguments: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The records of an evaluation, and the requests to the server."""
    with Models(answer) as server:
        evaluate(
            folder,
            "llm-decpomdp-verifiers",
            *("--env.taskset.env-id", env_id),
            *("--env.taskset.env-options", json.dumps(options)),
            *("--client.base-url", f"{server.address}/v1", "--client.api-key-var", "TEST_KEY"),
            *("--model", "A", "--run.name", "test", *arguments),
        )
    lines = (folder / "outputs" / "test" / "traces.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines], server.requests


def gold(env_id: str, **options: Any) -> dict[str, str]:
    """The data's answer to each first prompt."""
    env = make(env_id, **options)
    texts = {}
    for task in env.tasks.tasks:
        prompts, _ = env.reset(seed=0, options={"task_id": task.task_id})
        texts |= {prompts[agent]: answers(env).reference(agent) for agent in env.agents}
    return texts


def rewards(episode: dict[str, Any]) -> list[tuple[str, float]]:
    return [(t["agent"]["name"], t["rewards"]["team_reward"]["score"]) for t in episode["traces"]]


def test_gold_answers_earn_full_marks_and_each_seat_has_its_model(tmp_path: Path) -> None:
    texts = gold("coophumaneval-v0", **CODE)
    seat = ("--env.main-0.model", "B", "--env.main-0.sampling.temperature", "0.5")
    played, requests = episodes(tmp_path, lambda m, p: texts[p], "coophumaneval-v0", CODE, *seat)
    assert len(played) == 3 and all(episode["ok"] for episode in played)
    for episode in played:
        assert sorted(rewards(episode)) == [("aux_0", 4.0), ("main_0", 4.0)]
        assert {trace["metrics"]["team_return"] for trace in episode["traces"]} == {4.0}
        assert {trace["metrics"]["solved"] for trace in episode["traces"]} == {1.0}
    env = make("coophumaneval-v0", **CODE)
    for task in env.tasks.tasks:
        prompts, _ = env.reset(seed=0, options={"task_id": task.task_id})
        models = {r["messages"][0]["content"]: r["model"] for r in requests}
        assert (models[prompts["aux_0"]], models[prompts["main_0"]]) == ("A", "B")
    assert {r.get("temperature") for r in requests if r["model"] == "B"} == {0.5}
    saved = tmp_path / "outputs" / "test" / "configs" / "resolved" / "eval.json"
    resumed = evaluate(tmp_path, "@", str(saved), "--resume")
    assert "nothing to resume" in resumed.stdout


def test_every_turn_is_asked_and_rewarded_on_its_own(tmp_path: Path) -> None:
    options = {**CODE, "split": "test[:1]"}
    texts = gold("coophumaneval-v0", **options)
    local = make("coophumaneval-v0", **options)
    local.reset(seed=0, options={"task_id": local.tasks.tasks[0].task_id})
    wrong = "  no code"
    prompts, first, *_ = local.step(dict.fromkeys(local.agents, wrong))
    second = dict(zip(prompts.values(), texts.values(), strict=True))
    played, requests = episodes(
        tmp_path, lambda m, p: second.get(p, wrong), "coophumaneval-v0", options
    )
    (episode,) = played
    bad = first["aux_0"]
    assert rewards(episode) == [("aux_0", bad), ("main_0", bad), ("aux_0", 4.0), ("main_0", 4.0)]
    assert {t["metrics"]["team_return"] for t in episode["traces"]} == {bad + 4.0}
    assert [r["messages"][0]["content"] for r in requests][2:] == list(prompts.values())


def test_a_team_of_three_has_three_seats(tmp_path: Path) -> None:
    options = {"source": "bundled", "num_agents": 3, "split": "test[:1]", "num_turns": 1}
    agents = make("classeval-v0", **options).possible_agents
    assert len(agents) == 3
    flag = f"--env.{agents[2].replace('_', '-')}.model"
    played, requests = episodes(tmp_path, lambda m, p: "?", "classeval-v0", options, flag, "C")
    assert sorted(t["agent"]["name"] for t in played[0]["traces"]) == sorted(agents)
    assert sorted(r["model"] for r in requests) == ["A", "A", "C"]


def test_the_example_plays_the_team_that_its_file_describes(tmp_path: Path) -> None:
    file = str(ROOT / "examples" / "verifiers_team.toml")
    with Models(lambda model, prompt: "no code") as server:
        here = ("--client.base-url", f"{server.address}/v1", "--client.api-key-var", "TEST_KEY")
        evaluate(tmp_path, "@", file, *here)
    assert len(server.requests) == 4 * 2 * 2
    assert {request["model"] for request in server.requests} == {"gpt-5", "gpt-5-mini"}


def test_a_server_that_fails_is_no_low_reward(tmp_path: Path) -> None:
    options = {**CODE, "split": "test[:1]"}
    played, _ = episodes(tmp_path, lambda m, p: None, "coophumaneval-v0", options)
    (episode,) = played
    assert not episode["ok"] and all(not trace["rewards"] for trace in episode["traces"])
    assert "gave no answer" in episode["errors"][0]["message"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--env.aux-7.model", "B"), "'aux_7' is neither an option nor an agent"),
        (("--env.taskset.env-id", "coophumanevil-v0"), "coophumaneval-v0"),
    ],
)
def test_seats_and_environments_that_do_not_exist_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    process = evaluate(tmp_path, "llm-decpomdp-verifiers", *arguments, "--dry-run", check=False)
    words = (process.stdout + process.stderr).replace("│", " ")
    assert process.returncode != 0 and text in " ".join(words.split())
