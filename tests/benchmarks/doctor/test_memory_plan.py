"""Memory plans against what runs count and take, against transformers and peft, and against numbers by hand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from llm_decpomdp.agents.inference.log_probs import packed_log_probs
from llm_decpomdp.benchmarks import load_config, train
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.doctor.device_plan import (
    estimate_devices,
    plan_lines,
    read_assumptions,
)
from llm_decpomdp.benchmarks.doctor.memory_plan import (
    TABLE,
    MemoryPlan,
    PlannedModel,
    Shape,
    find_shape,
    listed_shape,
    plan_memory,
    read_shape,
)
from llm_decpomdp.utils.storage import read_json_lines
from tests.support.commands import call

GPU = "magrpo_che_config"
LORA = "model.lora={r: 16}"
SHAPE = Shape(layers=8, hidden=96, intermediate=256, heads=6, kv_heads=2, vocabulary=50)


def config(name: str, *overrides: str) -> Config:
    return load_config(find_config(name), ["dataset.source=bundled", *overrides])


def lines(gpus: str, *overrides: str, **numbers: float) -> str:
    settings = config(GPU, *overrides)
    return "\n".join(plan_lines(settings, estimate_devices(settings, gpus, numbers)))


def build(shape: Shape = SHAPE, qwen: bool = False, **further: Any) -> Any:
    settings = (Qwen2Config if qwen else LlamaConfig)(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        tie_word_embeddings=shape.tied,
        **further,
    )
    return (Qwen2ForCausalLM if qwen else LlamaForCausalLM)(settings)


@pytest.mark.parametrize(
    ("overrides", "completions"),
    [
        (["env.num_turns=1"], 2 * 2 * 2),
        (["env.num_turns=2", "algorithm.rollout.mode=tree"], 2 * 2 * (2 + 4)),
        (
            ["env.num_turns=2", "algorithm.rollout.mode=episodes", "model.shared=true"],
            2 * 2 * (2 + 2),
        ),
    ],
)
def test_a_run_counts_what_its_plan_said(
    overrides: list[str], completions: int, quick: list[str], tmp_path: Path
) -> None:
    overrides = [*quick, "algorithm.prompts_per_update=2", "algorithm.max_updates=1", *overrides]
    overrides += ["env.stop_when_solved=false", "output.report=false", "evaluation.num_tasks=0"]
    settings = config(GPU, *overrides, "algorithm.early_termination_threshold=null")
    plan = plan_memory(settings)
    assert 2 * plan.completions == completions and plan.tokens == 4 * completions  # of two agents
    train(settings, "mine")
    rows = [*read_json_lines(tmp_path / "run" / "metrics.jsonl")]
    (row,) = [row for row in rows if row["kind"] == "train"]
    episodes = read_json_lines(tmp_path / "run" / "episodes.jsonl")
    groups = [group for episode in episodes for group in episode["groups"]]
    assert sum(len(group["rewards"]) for group in groups) == plan.programs
    assert sum(len(texts) for g in groups for texts in g["completions"].values()) == completions
    assert row["groups"] == sum(plan.groups) * plan.starts
    assert 0.9 * plan.tokens < row["tokens"] <= plan.tokens  # a random model hardly ever ends


def test_a_dialogue_holds_the_prompts_and_completions_of_all_turns() -> None:
    plain, chat = (
        plan_memory(config(GPU, "env.num_turns=3", f"model.history={history}")).models[0]
        for history in ("none", "chat")
    )
    for short, long, length in zip(plain.prompts, chat.prompts, plain.lengths, strict=True):
        first = short - length
        assert long == pytest.approx(3 * first + 2 * length)


PEAK = """
import ctypes, gc, sys
from llm_decpomdp.benchmarks.runs.setup import load_config
from llm_decpomdp.benchmarks.doctor.memory_plan import ASSUMED, plan_memory
from llm_decpomdp.benchmarks.runs.train import train
import torch, peft
from pathlib import Path

settings = load_config(Path(sys.argv[1]), sys.argv[2:])
parts = plan_memory(settings, {**ASSUMED, "characters": 1}).parts()  # the tokenizer reads bytes
gc.collect(), ctypes.CDLL(None).malloc_trim(0)
before = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
train(settings, "mine")
status = Path("/proc/self/status").read_text()
print((int(status.split("VmHWM:")[1].split()[0]) * 1024 - before) / sum(parts.values()))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of a process from /proc")
@pytest.mark.parametrize("overrides", [["float32"], ["bfloat16"], ["float32", LORA]])
def test_a_run_on_a_cpu_takes_the_planned_memory_within_a_quarter(
    overrides: list[str], tiny_model: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        shape = Shape(6, 768, 1536, 8, 8, len(tokenizer))
        ends = tokenizer.eos_token_id
        build(shape, max_position_embeddings=16384, eos_token_id=ends).save_pretrained(folder)
    keys = [f"model.name={folder}", f"model.compute_dtype={overrides[0]}", *overrides[1:]]
    keys += ["model.max_new_tokens=32", "algorithm.num_generations=4", "algorithm.max_updates=2"]
    keys += ["algorithm.prompts_per_update=1", "evaluation.num_tasks=0", "output.report=false"]
    keys += [f"output.base_dir={tmp_path}", "output.name=run", "dataset.source=bundled"]
    command = [sys.executable, "-c", PEAK, str(find_config("demo_tldr")), *keys]
    # The plan counts memory in use. By default, glibc keeps freed blocks of the heap, which nearly doubled a peak.
    memory = {"MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(
        command, env={**os.environ, **memory}, capture_output=True, text=True, check=True
    )
    assert 1 / 1.25 < float(done.stdout.split()[-1]) < 1.25


def by_hand(adapters: int = 0, **changes: Any) -> PlannedModel:
    """Return 7.6 billion weights that play one agent."""
    shape = Shape(28, 3584, 18_944, 28, 4, 152_064, tied=True, total=7_600_000_000)
    return PlannedModel("m", ("main",), shape, (512,), (512,), True, adapters, **changes)


def test_memory_is_sixteen_bytes_a_trained_weight_and_two_a_copy() -> None:
    work = MemoryPlan(32, (1, 1), (8, 8), 512, 512, 512, (by_hand(),))
    parts = work.parts()
    assert sum(parts[p] for p in ("weights", "gradients", "moments")) == 16 * 7.6e9
    assert parts["rounded copy"] == 2 * 7.6e9
    parts = replace(work, models=(by_hand(adapters=40_000_000),)).parts()
    assert parts["weights"] == 2 * 7.6e9 + 4 * 40e6
    assert (parts["gradients"], parts["moments"]) == (4 * 40e6, 8 * 40e6)


def test_sampling_takes_keys_and_values_of_its_share_of_the_rows() -> None:
    work = MemoryPlan(512, (1,), (64,), 1, 1, 1, (by_hand(adapters=1),))
    one, four = work.parts(), work.parts(4)
    assert one["keys, values"] == 512 * 64 * 1024 * 57_344 == 4 * four["keys, values"]
    assert one["gradients"] == 0 and "activations" not in one  # freed before a model samples


def test_shards_divide_what_learns_and_a_copy_samples() -> None:
    work = MemoryPlan(32, (1,), (8,), 512, 512, 512, (by_hand(shards=4),))
    parts = work.parts(4)
    assert sum(parts[p] for p in ("weights", "gradients", "moments")) == 16 * 7.6e9 / 4
    assert parts["rounded copy"] == 0
    once = replace(work, models=(by_hand(shards=4, reduce_once=True),)).parts(4)
    assert once["gradients"] == 4 * 7.6e9
    adapted = by_hand(shards=4, adapters=40_000_000)
    assert adapted.state_bytes()["weights"] == (2 * 7.6e9 + 4 * 40e6) / 4
    assert adapted.sampling_bytes(1)["gathered"] == 2 * (7.6e9 + 40e6)
    parts = replace(adapted, copies=False)
    embeddings = 152_064 * 3584
    gathered = 2 * 2 * (embeddings + (7.6e9 - embeddings) / 28)
    assert parts.sampling_bytes(1)["gathered"] == pytest.approx(gathered)


def test_few_tokens_have_few_logits() -> None:
    model = replace(by_hand(), prompts=(3.0,), lengths=(16.0,))
    token = model.shape.activation_bytes(2)
    logits = 2 * 16 * 152_064
    assert model.learning_bytes(2)["activations"] == 35 * token + 16 * logits
    assert model.learning_bytes(64)["activations"] == 1027 * token + 16 * 2**24  # a chunk


def test_quantized_weights_are_those_of_the_layers_alone() -> None:
    model = by_hand(adapters=1, quantization="4bit")
    embeddings = 152_064 * 3584
    weights = 2 * embeddings + 0.5625 * (7.6e9 - embeddings) + 4
    assert model.state_bytes()["weights"] == pytest.approx(weights)


def test_shards_need_a_device_each_and_are_offered_where_they_fit() -> None:
    sharded = ["learner.fsdp_size=4", "output.checkpoint_every=1"]
    assert "4 shards" in lines("4xh100", *sharded)
    with pytest.raises(ConfigError, match=r"has 4 processes with a GPU each: give --gpus 4xh100"):
        lines("2xh100", *sharded)
    with pytest.raises(ConfigError, match=r"--override learner.fsdp_size=8 .*needs .* GB"):
        lines("8xh100", "model.name=Qwen/Qwen2.5-7B")


def test_a_quantized_model_without_an_adapter_is_refused_before_it_is_loaded() -> None:
    with pytest.raises(ConfigError, match=r"quantization=4bit.*no adapter"):
        lines("1xh100", "model.quantization=4bit")
    assert "4bit" in lines("1xh100", LORA, "model.quantization=4bit")


def test_a_reference_is_a_copy_of_all_trained_weights() -> None:
    assert by_hand(reference=True).state_bytes()["reference"] == 4 * 7.6e9
    assert by_hand(adapters=1, reference=True).state_bytes()["reference"] == 0


def test_what_cannot_fit_is_refused_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("plan", GPU, "--gpus", "1xh100", "--override", "dataset.source=bundled") == 2
    error = capsys.readouterr().err
    assert "does not fit on 1xh100" in error and "40.6 are missing" in error
    assert "--override 'model.lora={r: 16}' needs 14.0 GB" in error
    assert "13.98" in lines("1xh100", LORA)  # as it says
    with pytest.raises(ConfigError, match="take a smaller model"):
        lines("4090", "model.name=Qwen/Qwen2.5-32B")


def test_the_command_prints_the_plan_with_assumptions(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["plan", GPU, "--gpus", "64xh100", "--override", "dataset.source=bundled", LORA]
    assert call(*line, "--assume", "prompt=300", "--assume", "memory=70") == 0
    text = capsys.readouterr().out
    assert "4 joint samples, 2,048 tokens, 4 programs" in text
    assert "of 63.0 that may be used" in text
    assumed = "usable_memory=0.9, length=1, characters=3.5, memory=70, prompt=300"
    assert f"change with --assume: {assumed}" in text


def test_what_a_plan_leaves_out_is_told() -> None:
    assert "left out" not in lines("8xh100", LORA)
    bundled = ["algorithm.rollout.rollout_batch_size=1", "cluster.rollout_workers=2"]
    critic = ["algorithm.name=maac", "algorithm.critic.trunk=lora"]
    text = lines("1xh100", LORA, *bundled, *critic)
    assert "2 copies of the team" in text and "the critic's adapter" in text
    assert "opponent" not in text


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (lines, "3xcpu", "cpu for all of this machine's processors"),
        (lines, "0xh100", "needs a number and a kind"),
        (lines, "b200", "unknown kind of GPU 'b200'"),
        (lambda item: read_assumptions([item]), "memry=3", "did you mean 'memory'"),
        (lambda item: read_assumptions([item]), "memory=x", "got 'x'"),
        (lambda item: read_assumptions([item]), "memory=0", "above 0"),
        (lambda item: read_assumptions([item]), "bandwidth=1", "unknown assumption 'bandwidth'"),
    ],
)
def test_wrong_devices_and_assumptions_are_named(read: Any, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        read(text)


def test_policies_may_not_be_placed_on_gpus_that_are_not_there() -> None:
    served = ["sampler.engine=vllm", "sampler.python=/p", "model.top_p=1", "model.top_k=0", LORA]
    served += ["policies.aux_0={sample_on: [2], device: cuda:0}"]
    served += ["policies.main_0={sample_on: [3, 4], device: cuda:1}"]
    with pytest.raises(ConfigError, match=r"main_0\.sample_on=\[3, 4\]: there are 4 GPUs"):
        lines("4xh100", *served)
    assert "left out: servers of vLLM" in lines("8xh100", *served)


def test_the_size_of_an_unheard_model_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"give --parameters, such as 7\.6e9"):
        lines("8xh100", "model.name=me/unheard")
    shape = find_shape("me/unheard", 3.2e9)
    assert shape.parameters == 3_200_000_000
    assert shape.layers == TABLE["llama-3.2-3b"].layers


@pytest.mark.parametrize(
    ("name", "billions"),
    [("qwen2.5-0.5b", 0.494), ("qwen2.5-3b", 3.09), ("qwen2.5-7b", 7.62), ("qwen2.5-32b", 32.8)],
)
def test_the_table_gives_the_published_numbers_of_weights(name: str, billions: float) -> None:
    assert TABLE[name].parameters == pytest.approx(billions * 1e9, rel=0.003)
    with torch.device("meta"):
        counted = sum(weight.numel() for weight in build(TABLE[name], qwen=True).parameters())
    assert TABLE[name].parameters == pytest.approx(counted, rel=3e-4)  # without norms and biases


def test_names_are_found_for_any_owner() -> None:
    assert listed_shape("Qwen/Qwen2.5-Coder-3B-Instruct") is TABLE["qwen2.5-3b"]
    assert listed_shape("meta-llama/Llama-3.1-8B") is TABLE["llama-3.1-8b"]
    assert listed_shape("me/qwen2.5-3bonacci") is None
    assert TABLE["qwen2.5-7b"].kv_bytes(2) == 57_344


def test_a_folder_tells_its_shape(tiny_model: str) -> None:
    found = find_shape(tiny_model)
    assert (found.layers, found.hidden, found.kv_heads, found.head_dim) == (1, 16, 2, 8)
    expected = sum(w.numel() for w in LlamaForCausalLM.from_pretrained(tiny_model).parameters())
    assert found.parameters == expected
    assert read_shape(Path(tiny_model)) == found


@pytest.mark.parametrize("targets", [None, ["q_proj", "down_proj"], "all-linear"])
def test_adapters_have_as_many_weights_as_peft_makes(targets: Any) -> None:
    arguments = {"r": 4} if targets is None else {"r": 4, "target_modules": targets}
    adapted = get_peft_model(build(), LoraConfig(task_type="CAUSAL_LM", **arguments))
    trained = sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)
    assert SHAPE.adapter(arguments) == trained


@pytest.mark.parametrize("qwen", [False, True])
@pytest.mark.parametrize("element", [2, 4])
def test_activations_are_what_torch_keeps_for_the_backward_pass(element: int, qwen: bool) -> None:
    built, kept = build(qwen=qwen).eval(), {}
    own = {weight.untyped_storage().data_ptr() for weight in built.parameters()}
    rounded = element == 2  # copies of the weights are no activations

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = tensor, storage.nbytes()
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=rounded),
    ):
        packed_log_probs(built, [1] * 100, [[3] * 50] * 4, 1.0)
    copies = rounded * 2 * sum(weight.numel() for weight in built.parameters())
    tokens = 100 + 4 * 49
    measured = (sum(size for _, size in kept.values()) - copies) / tokens
    assert SHAPE.activation_bytes(element) == pytest.approx(measured, rel=0.1)
    assert SHAPE.activation_bytes(element, checkpointing=True) < measured / 4
