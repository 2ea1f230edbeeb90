"""Plans against what runs then count, and against numbers by hand."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from llm_decpomdp.algorithms.rollouts.cost import Cost, RunCost
from llm_decpomdp.benchmarks.config.catalogue import find_config
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.planning.assumptions import Assumptions
from llm_decpomdp.benchmarks.planning.devices import KINDS, Fleet
from llm_decpomdp.benchmarks.planning.layouts import apart, layouts
from llm_decpomdp.benchmarks.planning.memory import cut_memory, learner_memory, together_memory
from llm_decpomdp.benchmarks.planning.plan import Plan, plan
from llm_decpomdp.benchmarks.planning.shape_table import TABLE
from llm_decpomdp.benchmarks.planning.shapes import Shape
from llm_decpomdp.benchmarks.planning.show import work_lines
from llm_decpomdp.benchmarks.planning.speed import (
    Rates,
    flops_a_token,
    learn_seconds,
    program_seconds,
    server_seconds,
)
from llm_decpomdp.benchmarks.planning.work import Model, Player, Turn, Work
from llm_decpomdp.benchmarks.runs.train import train
from llm_decpomdp.utils.storage import read_json_lines
from tests.support.commands import call

GPU = "magrpo_che_config"
LORA = "model.lora={r: 16}"


def config(name: str, *overrides: str) -> Config:
    return load_config(find_config(name), ["dataset.source=bundled", *overrides])


def planned(gpus: str, *overrides: str, **options: object) -> Plan:
    return plan(config(GPU, *overrides), gpus, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("overrides", "completions"),
    [
        (["env.num_turns=1"], 2 * 2 * 2),
        (["env.num_turns=2", "algorithm.plan=tree"], 2 * 2 * (2 + 4)),
        (["env.num_turns=2", "algorithm.plan=episodes", "model.shared=true"], 2 * 2 * (2 + 2)),
    ],
)
def test_a_run_counts_what_its_plan_said(
    overrides: list[str], completions: int, quick: list[str], tmp_path: Path
) -> None:
    overrides = [*quick, "algorithm.prompts_per_update=2", "algorithm.max_updates=1", *overrides]
    overrides += ["env.stop_when_solved=false", "output.report=false", "evaluation.num_tasks=0"]
    settings = config(GPU, *overrides, "algorithm.early_termination_threshold=null")
    work = plan(settings, "h100").work
    assert 2 * work.cost.update.completions == completions  # of two agents
    assert sum(work.sampled(model) for model in work.models) == work.tokens == 4 * completions
    train(settings, "mine")
    (row,) = [
        r for r in read_json_lines(tmp_path / "run" / "metrics.jsonl") if r["kind"] == "train"
    ]
    (episodes,) = [[*read_json_lines(tmp_path / "run" / "episodes.jsonl")]]
    groups = [group for episode in episodes for group in episode["groups"]]
    assert sum(len(group["rewards"]) for group in groups) == work.programs
    assert sum(len(texts) for g in groups for texts in g["completions"].values()) == completions
    assert row["groups"] == sum(turn.groups for turn in work.turns) * work.starts
    assert 0.9 * work.tokens < row["tokens"] <= work.tokens  # a random model hardly ever ends


@pytest.mark.slow
def test_seconds_on_this_machine_are_within_a_factor_of_three(
    tiny_model: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        shape = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=512,
            intermediate_size=1024,
            num_hidden_layers=6,
            num_attention_heads=8,
            max_position_embeddings=16384,
            eos_token_id=tokenizer.eos_token_id,
        )
        LlamaForCausalLM(shape).save_pretrained(folder)
    settings = config(
        "demo_tldr",
        *(f"model.name={folder}", "model.compute_dtype=float32", "model.max_new_tokens=32"),
        *(
            "algorithm.num_generations=4",
            "algorithm.prompts_per_update=1",
            "evaluation.num_tasks=0",
        ),
        *("algorithm.max_updates=1", "algorithm.name=mareinforce", "output.report=false"),
        *(f"output.base_dir={tmp_path}", "output.name=run"),
    )
    expected = plan(settings, "cpu", assume=["characters=1"])  # the model reads bytes
    threads, begin = torch.get_num_threads(), time.process_time()
    train(settings, "mine")
    seconds = (time.process_time() - begin) / threads  # of processors, which may be busy otherwise
    print(f"run / plan: {seconds / expected.best.update:.2f}")
    assert 1 / 3 < seconds / expected.best.update < 3


# The columns of the estimate by hand: 7.6 billion weights, 57,344 bytes of keys and values, 512 tokens of prompts.
WEIGHTS = Shape(28, 3584, 18_944, 28, 4, 152_064, tied=True, total=7_600_000_000)
FAST = replace(Assumptions(), hanging=0.0)


def by_hand(starts: int, size: int, length: int, adapters: int = 0) -> Work:
    cost = Cost(2 * starts, 2 * starts * size, 2 * starts * size)
    players = [Player(agent, length, 512) for agent in ("aux_0", "main_0")]
    models = [
        Model(p.agent, (p.agent,), WEIGHTS, (p,), True, adapters, checkpointing=True)
        for p in players
    ]
    turns = (Turn(1, size), Turn(1, size))
    costs = RunCost(cost, cost, cost, cost)
    return Work(costs, starts, 1, 1, size, turns, tuple(models))


@pytest.mark.parametrize(
    ("sampling", "learning", "work", "full", "lora"),
    [(4, 4, (32, 8, 512), 26, 19), (40, 24, (256, 16, 1024), 128, 96)],
)
def test_learning_takes_the_seconds_of_the_estimate_by_hand(
    sampling: int, learning: int, work: tuple[int, int, int], full: float, lora: float
) -> None:
    fleet = Fleet(KINDS["h100"], sampling + learning)
    rates = Rates(fleet, FAST)
    of_full = apart(by_hand(*work), fleet, FAST, sampling, learning)
    # Later prompts repeat an answer, which the estimate leaves out; whole starts go to devices.
    assert of_full.seconds["learning"] == pytest.approx(full, rel=0.3)
    update = by_hand(*work, adapters=1)
    adapted = apart(update, fleet, FAST, sampling, learning)
    assert adapted.seconds["learning"] == pytest.approx(lora, rel=0.3)
    model = update.models[0]
    assert flops_a_token(model, row=0) == 6 * 7.6e9  # forward, backward to the inputs, again
    assert flops_a_token(replace(model, adapters=0), row=0) == 8 * 7.6e9
    assert rates.learning(model) == pytest.approx(0.35 * 989e12)


@pytest.mark.parametrize(
    ("sampling", "work", "seconds", "floor"),
    [(4, (32, 8, 512), 21, 7.8), (40, (256, 16, 1024), 55, 15.6)],
)
def test_servers_take_the_seconds_of_the_estimate_by_hand(
    sampling: int, work: tuple[int, int, int], seconds: float, floor: float
) -> None:
    fleet = Fleet(KINDS["h100"], 2 * sampling)
    layout = apart(by_hand(*work), fleet, FAST, sampling, sampling)
    assert layout.seconds["sampling"] == pytest.approx(seconds, rel=0.25)
    update = by_hand(*work)
    (model, _), rates = update.models, Rates(fleet, FAST)
    served = server_seconds(model, update, 1e6, 1e9, rates)
    assert served.floor == pytest.approx(floor, rel=0.03)
    assert served.seconds == pytest.approx(max(served.floor, 2 * served.floor), rel=0.1)
    assert layout.seconds["publishing"] == pytest.approx(2 * 7.6e9 * 4 / 2e9, rel=0.03)  # files


def test_a_model_in_shards_must_fit_whole_while_it_is_loaded() -> None:
    """Two agents with weights of their own, 2 x 32.8e9 x 4 bytes: every process loads all of them in float32."""
    big = ["model.name=Qwen/Qwen2.5-32B", "learner.shards=64", "output.checkpoint_every=10"]
    with pytest.raises(ConfigError, match=r"while loading needs 262\.1 GB of the 72\.0 that may"):
        planned("64xh100", *big, "algorithm.prompts_per_update=64")


def test_what_refill_replaces_is_sampled_and_not_learned() -> None:
    few, many = planned("1xh100", LORA).best, planned("1xh100", LORA, "algorithm.refill=3").best
    assert many.seconds["sampling"] == pytest.approx(4 * few.seconds["sampling"])
    assert many.seconds["learning"] == few.seconds["learning"]


def test_what_a_plan_leaves_out_is_told() -> None:
    assert not any("left out" in line for line in work_lines(planned("8xh100")))
    bundled = ["algorithm.starts_per_bundle=1", "cluster.rollout_workers=2"]
    critic = ["algorithm.name=maac", "algorithm.critic_trunk=lora"]
    (line,) = [x for x in work_lines(planned("1xh100", LORA, *bundled, *critic)) if "left out" in x]
    assert "2 copies of the team" in line and "the critic's adapter" in line
    assert "comparator" not in line


def test_programs_take_the_seconds_of_the_estimate_by_hand() -> None:
    update = by_hand(32, 8, 512)
    assert program_seconds(update, 96, FAST) == pytest.approx(0.02, abs=0.005)
    assert program_seconds(update, 96, Assumptions()) == pytest.approx(1.1, rel=0.02)
    assert program_seconds(update, 16, Assumptions()) == pytest.approx(6.5, rel=0.01)
    assert program_seconds(replace(update, runs_programs=False), 96, Assumptions()) == 0


def test_memory_is_sixteen_bytes_a_trained_weight_and_two_a_copy() -> None:
    work = replace(by_hand(32, 8, 512), models=by_hand(32, 8, 512).models[:1])
    parts = together_memory(work, 32).parts
    assert sum(parts[p] for p in ("weights", "gradients", "moments")) == 16 * 7.6e9
    assert parts["rounded copy"] == 2 * 7.6e9
    alone = learner_memory(work, 4).parts
    assert sum(alone[p] for p in ("weights", "gradients", "moments")) == 4 * 7.6e9
    adapted = replace(work, models=(replace(work.models[0], adapters=40_000_000),))
    parts = learner_memory(adapted, 1).parts
    assert parts["weights"] == 2 * 7.6e9 + 4 * 40e6
    assert (parts["gradients"], parts["moments"]) == (4 * 40e6, 8 * 40e6)


def test_what_cannot_fit_is_refused_with_what_is_missing_and_what_fits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("plan", GPU, "--gpus", "1xh100", "--override", "dataset.source=bundled") == 2
    told = capsys.readouterr().err
    assert "does not fit on 1xh100" in told and "40.6 are missing" in told
    assert "--override 'model.lora={r: 16}' needs 14.0 GB" in told
    assert "it fits on 4xh100 (2 sample, 2 learn in 2 shards)" in told
    assert planned("4xh100").best.fits  # as it says
    assert planned("1xh100", "model.lora={r: 16}").best.missing == pytest.approx(14.0 - 72, abs=0.1)


def test_the_command_prints_the_plan_with_all_that_it_assumes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = ["plan", GPU, "--gpus", "64xh100", "--override", "dataset.source=bundled"]
    assert call(*line, "--assume", "prompt=300", "--assume", "bandwidth=3000") == 0
    told = capsys.readouterr().out
    assert "8 joint samples" not in told and "4 joint samples, 2,048 tokens, 4 programs" in told
    assert "bottleneck: publishing" in told
    assert "raise algorithm.prompts_per_update" in told
    assert "sampling devices have nothing to do: 8 completions at a time" in told
    for name in (*vars(Assumptions()), "bandwidth", "prompt"):
        assert f" {name} " in told
    assert told.count("yours") == 2


def test_more_starts_take_more_devices() -> None:
    few, many = (
        planned(n, "algorithm.prompts_per_update=64", "model.lora={r: 16}")
        for n in ("1xh100", "8xh100")
    )
    assert many.best.update < few.best.update / 3
    assert not many.best.notes


def test_a_lag_hides_the_shorter_of_sampling_and_learning() -> None:
    layout = planned("8xh100", "algorithm.prompts_per_update=8").best
    seconds = layout.seconds
    longer = max(seconds["sampling"] + seconds["programs"], seconds["learning"])
    assert replace(layout, lag=1).update == pytest.approx(longer + seconds["publishing"])
    declared = planned("8xh100", "algorithm.prompts_per_update=8", "algorithm.lag=2")
    assert all(one.lag == 2 for one in declared.layouts if one.sampling)
    assert declared.best.update <= replace(layout, lag=1).update


@pytest.mark.parametrize(
    ("gpus", "options", "message"),
    [
        ("3xcpu", {}, "all of this machine's processors"),
        ("0xh100", {}, "needs a number and a kind"),
        ("b200", {}, "unknown kind of GPU 'b200'"),
        ("h100", {"assume": ["memry=3"]}, "did you mean 'memory'"),
        ("h100", {"assume": ["memory=x"]}, "got 'x'"),
        ("h100", {"assume": ["bandwidth=0"]}, "above 0"),
    ],
)
def test_wrong_numbers_are_named(gpus: str, options: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        planned(gpus, **options)


def test_the_size_of_an_unheard_model_is_asked_for() -> None:
    unheard = "model.name=me/unheard"
    with pytest.raises(ConfigError, match=r"give --parameters, such as 7\.6e9"):
        planned("8xh100", unheard)
    model = planned("8xh100", unheard, parameters=3.2e9).work.models[0]
    assert model.shape.parameters == 3_200_000_000
    assert model.shape.layers == TABLE["llama-3.2-3b"].layers


def test_shards_cut_what_learns_and_leave_a_copy_to_sample_with() -> None:
    overrides = ["algorithm.prompts_per_update=8", "output.checkpoint_every=1"]
    whole, cut = (
        planned("8xh100", *overrides, f"learner.shards={n}", parameters=3e9) for n in (1, 8)
    )
    (layout,) = cut.layouts
    together = next(one for one in whole.layouts if not one.sampling)
    assert layout.fits and layout.name == "together on 8 in 8 shards" and not together.fits
    mine, theirs = (one.memory["every device"].parts for one in (layout, together))
    for part in ("weights", "moments"):
        assert mine[part] == pytest.approx(theirs[part] / 8)
    one, other = (2.0 * model.shape.parameters for model in cut.work.models)
    assert mine["rounded copy"] == one  # of the one that learns, by autocast
    models = tuple(replace(model, checkpointing=True) for model in cut.work.models)
    sampling = cut_memory(replace(cut.work, models=models), 1, 8).parts
    assert sampling["rounded copy"] == one + other
    with pytest.raises(ConfigError, match=r"learner.shards=4 needs as many devices.* 8xh100"):
        planned("8xh100", *overrides, "learner.shards=4")


def test_shards_gather_the_frozen_weights_below_adapters_too() -> None:
    rates, work = Rates(Fleet(KINDS["h100"], 4), FAST), by_hand(8, 4, 256, adapters=50_000_000)
    cut, apart = replace(work, shards=4), work
    model, passes = work.models[0], 2 * 2  # of two starts, over two turns
    frozen, adapters = 2 * 7.6e9, 4 * 50e6
    link = 450e9
    sent = learn_seconds(model, cut, 4, 4, rates).gathering
    assert sent == pytest.approx(passes * (2 * frozen + 3 * adapters) / link)
    compared = replace(model, reference=True)
    more = learn_seconds(compared, cut, 4, 4, rates).gathering - sent
    assert more == pytest.approx(passes * (frozen + adapters) / link)
    assert learn_seconds(model, apart, 4, 4, rates).gathering == 0  # every learner has the base
    full = replace(model, adapters=0)
    assert learn_seconds(full, cut, 4, 4, rates).gathering == pytest.approx(
        passes * 3 * 4 * 7.6e9 / link
    )
    published = layouts(cut, Fleet(KINDS["h100"], 4), FAST)[0].seconds["publishing"]
    assert published == pytest.approx(2 * (frozen + adapters) / link)


@pytest.mark.parametrize(
    ("overrides", "offered"),
    [
        ([], "--override learner.shards=3 output.checkpoint_every=10 needs"),
        (["output.checkpoint_every=3"], "--override learner.shards=3 needs"),
        (["algorithm.critic=own"], None),
        (["sampler.engine=vllm", "sampler.python=/p", "model.top_p=1", "model.top_k=0"], None),
        (["model.device=cuda:0"], None),
    ],
)
def test_shards_are_offered_where_a_run_takes_them(
    overrides: list[str], offered: str | None
) -> None:
    with pytest.raises(ConfigError) as told:
        planned("3xh100", "model.name=x", *overrides, parameters=4e9)
    assert (offered or "train adapters") in str(told.value)
    if offered is None:
        assert "learner.shards" not in str(told.value)


SERVED = ["sampler.engine=vllm", "sampler.python=/p", "model.top_p=1", "model.top_k=0"]


def test_a_placing_is_the_only_way_that_is_planned() -> None:
    own = ["policies.aux_0={sample_on: [2], device: cuda:0}"]
    own += ["policies.main_0={sample_on: [3, 4], device: cuda:1}"]
    (layout,) = planned("8xh100", *SERVED, *own, LORA).layouts
    assert layout.name == "3 sample, 2 learn" and not layout.notes
    assert set(layout.memory) == {
        *("learner of aux_0", "learner of main_0", "server of aux_0", "server of main_0")
    }
    aux, main = (layout.memory[f"learner of {name}"].gigabytes for name in ("aux_0", "main_0"))
    assert 13 < max(aux, main) < planned("1xh100", LORA).best.memory["every device"].gigabytes
    with pytest.raises(ConfigError, match=r"main_0\.sample_on=\[3, 4\]: there are 4 GPUs"):
        planned("4xh100", *SERVED, *own, LORA)
    same = [f"policies.{name}={{sample_on: [1], device: cuda:0}}" for name in ("aux_0", "main_0")]
    (together,) = planned("2xh100", *SERVED, *same, LORA).layouts
    assert list(together.memory) == ["learner of aux_0, main_0", "server of aux_0, main_0"]
