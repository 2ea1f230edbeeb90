"""Benchmarks of the learners measure what they say. How fast anything is, no test can know."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from llm_decpomdp.agents.single_model import load_policy
from llm_decpomdp.algorithms.rollouts.rollout import Start
from tools.performance.harness.trials import Measured, Measurement
from tools.performance.models import dialogue, learning, product_floors, sampling, update, workload


def sized(model: str, group_size: int, new_tokens: int, **more: Any) -> dict[str, Any]:
    """Arguments of a trial."""
    size = {"model": model, "group_size": group_size, "new_tokens": new_tokens}
    return {**size, "dtype": "float32", "device": "cpu", **more}


def last(trial: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """The answer that is counted."""
    _, answer = islice(trial, 2)
    return answer


def test_end_token_of_an_endless_copy(tiny_model: str, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<turn>", "<over>", "<x>", "<y>"]})
    tokenizer.chat_template = "<turn>{% for m in messages %}{{ m.content }}<over>{% endfor %}"
    model = load_policy(tiny_model, device="cpu").model
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with workload.endless_copy(str(tmp_path)) as folder:
        copy = load_policy(folder, device="cpu")
        assert {copy.tokenizer.eos_token, copy.tokenizer.pad_token} == {"<x>", "<y>"}
        assert sampling.ends(copy) == {copy.tokenizer.eos_token_id}
        assert copy.engine.end_ids == [copy.tokenizer.eos_token_id]
        end = copy.tokenizer.eos_token
        assert workload.to_messages(folder, {"a": "hi"}) == {"a": f"<turn>hi{end}"}
    assert not Path(folder).exists() and (tmp_path / "model.safetensors").exists()


def test_both_samplers_and_the_floor_count_real_tokens(tiny_model: str) -> None:
    case = sized(tiny_model, 3, 5, prompts=["a prompt"])
    for function in (sampling.ours, sampling.transformers_generate, product_floors.sampling):
        assert 3 <= last(function(**case))["units"] <= 15


def test_all_ways_to_learn_have_the_same_gradient_and_tokens(tiny_model: str) -> None:
    case = sized(tiny_model, 3, 8, prompts=["a prompt", "a longer one"])
    answers = [
        last(learning.ours(**case)),
        last(learning.padded_batch(**case, together=True)),
        last(learning.padded_batch(**case, together=False)),
        last(learning.one_by_one(**case)),
    ]
    norm = answers[0]["figures"]["gradient norm"]
    for answer in answers:
        assert answer["units"] == 2 * (2 + 5 + 8)
        assert answer["figures"]["gradient norm"] == pytest.approx(norm, rel=1e-4)
    assert last(product_floors.learning(**case))["units"] == answers[0]["units"]


def test_the_variants_of_learning_are_judged_against_ours() -> None:
    names = learning.variants({}, "float32")
    section = [
        Measured(variant, (Measurement(10, 1.0 + i, 2.0, 100.0 * (1 + i), {}, {}),))
        for i, variant in enumerate(names)
    ]
    speed, memory, *_, floor, fused, compiled = learning.judge(section, "float32")
    assert (speed.goal, memory.goal) == (learning.SPEED, learning.MEMORY)
    assert (speed.met, memory.met) == (False, True)
    assert floor.goal.name == "speed against the floor, float32"
    assert fused.goal.name == "fused kernels against the floor, float32"
    assert compiled.goal.name == "fused and compiled against the floor, float32"
    assert all(j.met is None for j in learning.judge(section, "bfloat16"))


@pytest.mark.parametrize("weights", ["own", "shared"])
def test_an_update_samples_is_rewarded_and_learns(tiny_model: str, weights: str) -> None:
    env = workload.environment()
    tasks = workload.task_ids(env, 2)
    answer = last(update.ours(**sized(tiny_model, 2, 4, tasks=tasks, weights=weights)))
    assert set(answer["parts"]) == {"sampling", "reward", "learning"}
    assert 4 <= answer["units"] <= 16 and min(answer["parts"].values()) > 0


def test_reuse_leaves_fewer_tokens_of_prompts_to_compute(tiny_model: str) -> None:
    env = workload.environment()
    case = sized(tiny_model, 2, 4, tasks=workload.task_ids(env, 2), turns=3, history="none")
    whole, rest = (last(dialogue.play(**case, prefix_cache=size)) for size in (0.0, 1.0))
    for answer in (whole, rest):
        assert 2 * 2 * 3 <= answer["units"] <= 2 * 2 * 3 * 4
    # Modes write the newest feedback first, so that even without a history some tokens are equal.
    assert rest["figures"]["prompt tokens"] < whole["figures"]["prompt tokens"]


def test_floor_of_an_update(tiny_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[tuple[int, int]] = []
    forward = product_floors.Products.forward

    def counted(self: product_floors.Products, rows: int, head_rows: int) -> None:
        passes.append((rows, head_rows))
        forward(self, rows, head_rows)

    monkeypatch.setattr(product_floors.Products, "forward", counted)
    tasks = workload.task_ids(workload.environment(), 2)
    taken = {}
    for weights in ("own", "adapters"):
        passes.clear()
        case = sized(tiny_model, 3, 4, tasks=tasks, weights=weights)
        answer = last(product_floors.update(**case))
        assert answer["units"] == 2 * 3 * 4 and set(answer["parts"]) == {"sampling", "learning"}
        taken[weights] = passes[1:]  # the first one only warms up
    assert [head_rows for _, head_rows in taken["adapters"]] == [2, 6, 6, 6, 12, 12]
    assert [head_rows for _, head_rows in taken["own"]] == [1, 3, 3, 3, 1, 3, 3, 3, 12, 12]
    assert sum(rows for rows, _ in taken["own"]) == sum(rows for rows, _ in taken["adapters"])


def test_every_group_of_a_timed_update_teaches_something(tiny_model: str) -> None:
    env = workload.environment()  # a tiny model's programs all earn the same
    case = workload.Case(**sized(tiny_model, 2, 3))
    team = update.build_team(case, env.possible_agents)
    before = [p.detach().clone() for policy in team.values() for p in policy.parameters()]
    (answer,) = update.updates(env, team, [Start(seed=0)], 2)
    after = [p for policy in team.values() for p in policy.parameters()]
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert 4 <= answer["units"] <= 12


def test_peers_that_are_not_there_are_named(tiny_model: str) -> None:
    assert update.installed_versions(None) == {"comlrl": "", "trl": ""}
    assert set(update.installed_versions(Path(sys.executable))) == {"comlrl", "trl"}
    common = {"model": tiny_model, "group_size": 2, "new_tokens": 4}
    there = update.variants(common, "cpu", None, update.installed_versions(None), False)
    assert set(there) == {*update.TEAMS, *update.PRODUCTS}
    judgements = update.judge({})
    pairs = sum(2 if ours in update.TEAMS else 1 for ours, *_ in update.BOUNDS)
    assert len({each.goal.name for each in judgements}) == len(judgements) == pairs == 12
    assert all(each.value is None and "comlrl" in each.note for each in judgements[:2])


def test_peers_get_the_prompts_that_our_models_see(tiny_model: str) -> None:
    versions = {"comlrl": "1.4.3", "trl": "1.16.0"}
    common = {"model": tiny_model, "group_size": 2, "new_tokens": 4}
    there = update.variants(common, "cpu", Path("peers/bin/python"), versions, False)
    env = workload.environment()
    tasks = there[update.OWN].arguments["tasks"]
    for name in (update.COMLRL, update.TRL, update.TRL_DEFAULTS):
        assert there[name].python == "peers/bin/python"
        assert there[name].arguments["prompts"] == [
            [*workload.prompts(env, task).values()] for task in tasks
        ]


@pytest.mark.slow
def test_the_command_measures_an_update_from_end_to_end(
    tiny_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"group_size": 2, "new_tokens": 4, "rounds": 1, "threads": 1}
    update.main(tiny_model, **sizes, only=["shared"], json_file=tmp_path / "update.json")
    (section,) = json.loads((tmp_path / "update.json").read_text())["sections"]
    (trial,) = section[update.SHARED]
    assert 4 <= trial["units"] <= 16 and trial["megabytes"] > 100
    assert set(trial["parts"]) == {"sampling", "reward", "learning"}
    assert "not run: " in capsys.readouterr().out
