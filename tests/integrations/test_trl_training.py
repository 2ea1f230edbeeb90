"""TRL's own loop learns with the functions that it is given; `make trl` runs this where TRL is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm_decpomdp import make, single_agent_view
from llm_decpomdp.agents import Constant, Gold, tiny_causal_lm
from llm_decpomdp.integrations import trl as adapter
from tests.support.processes import ROOT

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
trl = pytest.importorskip("trl")

pytestmark = pytest.mark.slow

G = 16

SEEDS = [0, 1, 2]


def trainer(tmp_path: Path, rows: Any, reward: Any, seed: int, **options: Any) -> Any:
    """A trainer of a tiny model for some seconds."""
    rollout = {key: options.pop(key) for key in ("rollout_func",) if key in options}
    base = {
        "output_dir": str(tmp_path),
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "top_k": 0,
        "learning_rate": 4e-3,
        "lr_scheduler_type": "constant",
        "logging_steps": 10,
        "shuffle_dataset": False,
        "max_grad_norm": 0.3,
        "scale_rewards": "none",
        "loss_type": "grpo",
        "seed": seed,
        "num_generations": G,
        "max_completion_length": 2,
        "max_steps": 60,
    }
    model = tiny_causal_lm("abc", seed=seed)
    model.tokenizer.padding_side = "left"
    return trl.GRPOTrainer(
        model=model.model,
        processing_class=model.tokenizer,
        reward_funcs=reward,
        train_dataset=rows,
        args=trl.GRPOConfig(**(base | options)),
        **rollout,
    )


def curve(trained: Any) -> list[float]:
    """Mean rewards of every ten updates."""
    return [row["reward"] for row in trained.state.log_history if "reward" in row]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seat_learns_the_best_response_to_a_silent_partner(tmp_path: Path, seed: int) -> None:
    env = make("probe-halves-v0")
    reward = adapter.seat_reward(env, "player_0", {"player_1": Constant("")})
    rows = adapter.dataset(env, ["player_0"])
    trained = trainer(tmp_path, rows, reward, seed, per_device_train_batch_size=3 * G)
    trained.train()
    assert curve(trained)[-1] >= 0.45  # of 0.5


@pytest.mark.parametrize("seed", SEEDS)
def test_a_team_learns_with_shared_weights(tmp_path: Path, seed: int) -> None:
    env = make("probe-halves-v0")
    rows, reward = adapter.dataset(env), adapter.team_reward(env)
    trained = trainer(tmp_path, rows, reward, seed, per_device_train_batch_size=6 * G)
    trained.train()
    assert curve(trained)[-1] >= 0.9


@pytest.mark.parametrize("options", [{"per_device_train_batch_size": G}, {"shuffle_dataset": True}])
def test_batches_that_cut_a_team_end_training(tmp_path: Path, options: dict[str, Any]) -> None:
    env = make("probe-halves-v0")
    options = {"per_device_train_batch_size": 6 * G, **options}
    cut = trainer(tmp_path, adapter.dataset(env), adapter.team_reward(env), 0, **options)
    weights = [parameter.detach().clone() for parameter in cut.model.parameters()]
    with pytest.raises(ValueError, match="a batch must hold whole teams"):
        cut.train()
    assert all((a == b).all() for a, b in zip(weights, cut.model.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in cut.model.parameters())


@pytest.mark.parametrize("seed", SEEDS)
def test_trainers_in_lockstep_learn_and_have_equal_curves(tmp_path: Path, seed: int) -> None:
    env = make("probe-rendezvous-v0")
    builders = {
        agent: lambda reward, rows, s=2 * seed + number: trainer(
            tmp_path / str(s), rows, reward, s, per_device_train_batch_size=G
        )
        for number, agent in enumerate(env.possible_agents)
    }
    first, second = map(curve, adapter.lockstep(env, builders).values())
    assert first == second and first[-1] >= 0.95 and first[-1] > first[0]
    if seed == 0:
        assert curve(adapter.lockstep(env, builders)["player_0"]) == first


@pytest.mark.parametrize("seed", SEEDS)
def test_rollouts_of_two_turns_learn(tmp_path: Path, seed: int) -> None:
    env = make("probe-turns-v0")
    rows, rollout = adapter.dataset(env, keyed=True), adapter.rollout_func(env)
    size = 2 * G * min(len(env.tasks), 3)
    trained = trainer(
        *(tmp_path, rows, adapter.rollout_reward, seed),
        rollout_func=rollout,
        per_device_train_batch_size=size,
    )
    trained.train()
    assert curve(trained)[-1] >= 1.5 > curve(trained)[0]  # of 2; seed 2 is slower than the others


def test_code_is_written_in_conversations_and_rewarded(tmp_path: Path) -> None:
    from llm_decpomdp.agents import load_policy

    env = make("coophumaneval-v0", source="bundled", num_turns=1, split="test[:2]")
    model = load_policy("tiny-random", compute_dtype="float32")
    model.tokenizer.padding_side = "left"
    rewards = []

    def heard(**columns: Any) -> list[float]:
        rewards.append(adapter.seat_reward(env, "main_0", {"aux_0": Gold()})(**columns))
        return rewards[-1]

    options = {"max_steps": 2, "num_generations": 4, "per_device_train_batch_size": 8}
    args = trl.GRPOConfig(
        str(tmp_path), report_to=[], use_cpu=True, bf16=False, max_completion_length=16, **options
    )
    chat = bool(model.tokenizer.chat_template)
    rows = adapter.dataset(env, ["main_0"], chat=chat)
    trl.GRPOTrainer(model.model, heard, args, rows, processing_class=model.tokenizer).train()
    assert [len(batch) for batch in rewards] == [8, 8] and min(map(min, rewards)) >= 0.4


class SeatWithOneTool:
    """A seat as `environment_factory` takes it: every public method but these three would be a tool too."""

    def __init__(self) -> None:
        self._seat = single_agent_view(
            make("probe-turns-v0"), "player_0", {"player_1": Constant("a")}
        )
        self._earned, self._over = 0.0, False

    def reset(self, task_id: str, **_: Any) -> None:
        self._seat.reset(options={"task_id": task_id})
        self.task_id = task_id
        self._earned, self._over = 0.0, False

    def submit(self, answer: str) -> str:
        """Submit an answer, and read what comes next.

        Args:
            answer: The answer.
        """
        if self._over:
            return "It is over."
        prompt, reward, terminated, truncated, _ = self._seat.step(answer)
        self._earned += reward
        self._over = terminated or truncated
        return prompt

    def get_reward(self) -> float:
        return self._earned


CALL = '<tool_call>\n{"name": "submit", "arguments": {"answer": "a"}}\n</tool_call><|im_end|>'


def test_a_seat_with_one_tool_is_an_environment_of_trl(tmp_path: Path) -> None:
    from llm_decpomdp.agents import load_policy

    model = load_policy("tiny-random", compute_dtype="float32")
    tokenizer = model.tokenizer
    tokenizer.padding_side = "left"
    template = Path(trl.__file__).with_name("chat_templates") / "qwen3.jinja"
    tokenizer.chat_template = template.read_text(encoding="utf-8")
    rows = adapter.dataset(make("probe-turns-v0"), ["player_0"], chat=True)
    args = trl.GRPOConfig(
        str(tmp_path), report_to=[], use_cpu=True, bf16=False, max_steps=1, logging_steps=1
    )
    args.num_generations, args.max_completion_length = 2, 1024
    trainer = trl.GRPOTrainer(
        model.model,
        None,
        args,
        rows,
        processing_class=tokenizer,
        environment_factory=SeatWithOneTool,
    )
    assert [tool.__name__ for tool in trainer.tools] == ["submit"]
    call = tokenizer(CALL, add_special_tokens=False).input_ids
    trainer._generate_single_turn = lambda prompts, *_, **__: ([list(call) for _ in prompts], None)
    trainer.max_tool_calling_iterations = 3  # the last one is told that it is over
    trainer.train()
    played = [(env.task_id, env.get_reward()) for env in trainer.environments]
    assert len(played) == 8 and np.mean([earned for _, earned in played]) > 0
    for task_id, earned in played:
        env = SeatWithOneTool()
        env.reset(task_id)
        env.submit("a"), env.submit("a")
        assert earned == env.get_reward()
    assert trainer.state.log_history[0]["reward"] == np.mean([earned for _, earned in played])


def test_the_example_runs_and_its_team_learns() -> None:
    command = [sys.executable, str(ROOT / "examples" / "trl_lockstep.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    curves = [
        literal_eval(line.partition(" ")[2])
        for line in run.stdout.splitlines()
        if line.startswith("player_")
    ]
    assert len(curves) == 2 and curves[0] == curves[1] and curves[0][-1] >= 0.95
