"""The learners' benchmarks measure what they say. How fast anything is, no test can know."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from llm_decpomdp.agents.inference.sampling import Sampling
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.benchmarks.performance.harness import trials
from llm_decpomdp.benchmarks.performance.harness.comparison import BenchmarkError
from llm_decpomdp.benchmarks.performance.harness.trial_tables import Report, trial_table
from llm_decpomdp.benchmarks.performance.harness.trials import Measured, Trial, Variant
from llm_decpomdp.benchmarks.performance.models import (
    growth,
    growth_variants,
    learning,
    learning_variants,
    product_floors,
    sampling_variants,
    update,
    update_variants,
    workload,
)

SCRIPT = """
import os

def work(tokens, fail=False):
    print("chatter")
    assert not fail, "this went wrong"
    ballast = bytearray(50_000_000)
    setting = float(os.environ["MALLOC_TOP_PAD_"]) if "MALLOC_TOP_PAD_" in os.environ else 0.0
    return {"tokens": tokens, "seconds": {"a": 1.0, "b": 3.0}, "cpu_seconds": 2.0, "figures": {"setting": setting}}
"""


@pytest.fixture
def script(tmp_path: Path) -> Variant:
    """A variant without a model."""
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    return Variant("script", str(file), "work", {"tokens": 8})


def measured(name: str, *trials: Trial) -> Measured:
    return Measured(Variant(name, "", ""), trials)


def test_a_trial_has_a_process_and_a_peak_of_its_own(script: Variant) -> None:
    here = bytearray(300_000_000)  # which the process must not count
    trial = trials.run(script, {})
    assert len(here) and trial.tokens == 8 and trial.total == 4.0
    assert 50 < trial.peak_megabytes < 200


def test_all_processes_get_the_settings_of_the_command_line(
    script: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MALLOC_TOP_PAD_", raising=False)
    with_settings = trials.run(script, trials.environment(tuned=True, threads=None))
    without = trials.run(script, trials.environment(tuned=False, threads=3))
    assert with_settings.figures == {"setting": 2.0**28} and without.figures == {"setting": 0.0}
    assert trials.environment(tuned=False, threads=3)["OMP_NUM_THREADS"] == "3"


def test_a_trial_that_fails_ends_the_benchmark_and_says_why(script: Variant) -> None:
    broken = replace(script, arguments={"tokens": 8, "fail": True})
    with pytest.raises(BenchmarkError, match=r"script ended with code 1: [\s\S]*this went wrong"):
        trials.run(broken, {})


def test_variants_take_turns_and_the_first_one_changes(
    script: Variant, capsys: pytest.CaptureFixture[str]
) -> None:
    other = replace(script, name="other")
    found = trials.compare([script, other], 2, {})
    told = [line.partition(" (")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == [
        "round 1 of 2: script",
        "round 1 of 2: other",
        "round 2 of 2: other",
        "round 2 of 2: script",
    ]
    assert [len(each.trials) for each in found.values()] == [2, 2]


def test_ratios_are_taken_within_each_round() -> None:
    quick = measured(
        "quick", Trial(10, {"a": 1.0}, 2.0, 50.0, {}), Trial(10, {"a": 4.0}, 2.0, 50.0, {})
    )
    slow = measured(
        "slow", Trial(20, {"a": 4.0}, 2.0, 100.0, {}), Trial(20, {"a": 16.0}, 2.0, 200.0, {})
    )
    assert quick.times_faster(slow) == trials.Spread(2.0, 2.0, 2.0)
    assert quick.times_cpu(slow).median == 2.0
    assert quick.beside(slow) == "2 times the CPU time"
    assert quick.times_memory(slow) == trials.Spread(0.375, 0.25, 0.5)


def test_a_report_has_a_row_for_each_variant_and_a_file_with_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section = [measured("one", Trial(10, {"a": 1.0, "b": 3.0}, 2.0, 50.0, {"norm": 2.0}))]
    report = Report("Title", {"G": 4}, {"PYTHONPATH": "/x", "A": "1"}, [section], [])
    assert trial_table("Title", [section, section]).row_count == 2
    report.show()
    shown = capsys.readouterr().out
    assert "settings: G 4" in shown and "A=1" in shown and "/x" not in shown
    report.write(tmp_path / "report.json")
    content = json.loads((tmp_path / "report.json").read_text())
    assert content["sections"][0][0]["trials"][0]["tokens"] == 10
    assert content["settings"] == {"G": 4}


def test_an_endless_copy_has_an_end_that_is_not_in_the_chat_template(
    tiny_model: str, tmp_path: Path
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<turn>", "<x>", "<y>"]})
    tokenizer.chat_template = "<turn>{{ messages[0].content }}"
    CausalLM.from_pretrained(tiny_model, device="cpu").model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with workload.endless_copy(str(tmp_path)) as folder:
        copy = CausalLM.from_pretrained(folder, device="cpu")
        assert {copy.tokenizer.eos_token, copy.tokenizer.pad_token} == {"<x>", "<y>"}
        assert sampling_variants.ends(copy) == {copy.tokenizer.eos_token_id}
        assert workload.as_messages(folder, {"a": "hi"}) == {"a": "<turn>hi"}
    assert not Path(folder).exists() and (tmp_path / "model.safetensors").exists()


def test_both_samplers_are_timed_on_real_tokens(tiny_model: str) -> None:
    arguments = (tiny_model, "a prompt", 3, 5, "float32", "cpu")
    for function in (
        sampling_variants.ours,
        sampling_variants.transformers_generate,
        product_floors.sampling,
    ):
        answer = function(*arguments)
        assert 3 <= answer["tokens"] <= 15 and answer["seconds"]["sampling"] > 0


def test_all_ways_to_learn_have_the_same_gradient_and_tokens(tiny_model: str) -> None:
    arguments = (tiny_model, ["a prompt", "a longer one"], 3, 8, "float32", "cpu")
    ours = learning_variants.ours(*arguments)
    assert ours["tokens"] == 2 * (2 + 5 + 8)
    others = [
        learning_variants.padded(*arguments, together=True),
        learning_variants.padded(*arguments, together=False),
        learning_variants.one_by_one(*arguments),
    ]
    for other in others:
        assert other["tokens"] == ours["tokens"]
        assert other["figures"]["gradient norm"] == pytest.approx(
            ours["figures"]["gradient norm"], rel=1e-4
        )
    assert product_floors.learning(*arguments)["tokens"] == ours["tokens"]


def test_the_variants_of_learning_are_judged_against_ours() -> None:
    names = learning.variants({}, "float32")
    found = [
        measured(v.name, Trial(10, {"a": 1.0 + i}, 2.0, 100.0 * (1 + i), {}))
        for i, v in enumerate(names)
    ]
    speed, memory, *_, floor = learning.judge(found, "float32")
    assert (speed.goal, memory.goal) == (learning.SPEED, learning.MEMORY)
    assert (speed.met, memory.met) == (False, True)
    assert floor.goal.name == "speed against the floor, float32"
    assert all(j.met is None for j in learning.judge(found, "bfloat16"))


@pytest.mark.parametrize("weights", ["own", "shared"])
def test_an_update_samples_is_rewarded_and_learns(tiny_model: str, weights: str) -> None:
    env = workload.environment()
    tasks = workload.task_ids(env, 2)
    answer = update_variants.ours(tiny_model, tasks, 2, 4, "float32", "cpu", weights)
    assert set(answer["seconds"]) == {"sampling", "reward", "learning"}
    assert 4 <= answer["tokens"] <= 16 and min(answer["seconds"].values()) > 0


def test_the_floor_of_an_update_has_its_tokens_and_reads_a_shared_base_once(
    tiny_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        answer = product_floors.update(tiny_model, tasks, 3, 4, "float32", "cpu", weights)
        assert answer["tokens"] == 2 * 3 * 4 and set(answer["seconds"]) == {"sampling", "learning"}
        taken[weights] = passes[1:]  # the first one only warms up
    assert [head_rows for _, head_rows in taken["adapters"]] == [2, 6, 6, 6, 12, 12]
    assert [head_rows for _, head_rows in taken["own"]] == [1, 3, 3, 3, 1, 3, 3, 3, 12, 12]
    assert sum(rows for rows, _ in taken["own"]) == sum(rows for rows, _ in taken["adapters"])


def test_every_group_of_a_timed_update_teaches_something(tiny_model: str) -> None:
    env = growth_variants.Talk(agents=2, turns=2, prompt_words=3)  # whose rewards are all alike
    sampling = Sampling(max_new_tokens=3)
    team = update_variants.build_team(
        tiny_model, env.possible_agents, sampling, "float32", "cpu", "own"
    )
    before = [p.detach().clone() for policy in team.values() for p in policy.parameters()]
    answer = update_variants.timed_update(env, team, [update_variants.Start(seed=0)], 2)
    after = [p for policy in team.values() for p in policy.parameters()]
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert 8 <= answer["tokens"] <= 24


def test_peers_that_are_not_there_are_named(tiny_model: str) -> None:
    assert update.installed(None) == {"comlrl": "", "trl": ""}
    assert set(update.installed(Path(sys.executable))) == {"comlrl", "trl"}
    common = {"model": tiny_model, "group_size": 2, "new_tokens": 4}
    there = update.variants(common, "cpu", None, update.installed(None), False)
    assert set(there) == {*update.TEAMS, *update.PRODUCTS}
    judgements = update.judge({})
    pairs = sum(2 if ours in update.TEAMS else 1 for ours, *_ in update.BOUNDS)
    assert len({each.goal.name for each in judgements}) == len(judgements) == pairs == 12
    assert all(each.measured is None and "comlrl" in each.note for each in judgements[:2])


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


def test_a_curve_is_measured_from_end_to_end(tiny_model: str) -> None:
    report = growth.measure(tiny_model, ["turns"], 1, "float32", points=1, threads=1)
    trial = report.sections[0][0].trials[0]
    assert 8 <= trial.tokens <= 2 * 4 * 16 and trial.peak_megabytes > 100
    assert set(trial.seconds) == {"sampling", "reward", "learning"}


def test_growth_is_told_from_the_first_point_to_the_last() -> None:
    points = [
        measured(f"turns: {n}", Trial(10 * n, {"a": 3.0 * n}, 2.0, 100.0 + n, {}))
        for n in (1, 2, 4)
    ]
    time, memory = growth.grown(points)
    assert time.goal.name == "time, turns: 4 against 1" and time.note == "with 4 times the tokens"
    assert time.measured is not None and time.measured.median == 4.0
    assert memory.measured is not None and memory.measured.median == pytest.approx(104 / 101)
