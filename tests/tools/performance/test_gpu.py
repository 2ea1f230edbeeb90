"""The command for a machine with a GPU does its steps on a CPU with tiny sizes."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from llm_decpomdp.agents.inference import compiled
from llm_decpomdp.benchmarks.runs.setup import load_config
from tools.performance.gpu import __main__ as command
from tools.performance.gpu import runs, settings, steps, trials
from tools.performance.gpu.settings import SIZES, GpuSettings, Skipped, StepOutcome, write_model
from tools.performance.gpu.steps import STEPS
from tools.performance.harness.trials import (
    VARIANTS,
    BenchmarkError,
    Measured,
    Measurement,
    Variant,
)

CONFIG = runs.ROOT / "benchmarks" / "configs" / "demo_tldr.yaml"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_model("tiny", tmp_path_factory.mktemp("models")))


@pytest.fixture
def setting(model: str, monkeypatch: pytest.MonkeyPatch) -> GpuSettings:
    """Two completions of four tokens on a CPU, and trials in this process."""
    monkeypatch.setattr(settings, "compare", in_this_process)
    monkeypatch.setattr(compiled, "BACKEND", "eager")
    return GpuSettings(
        {"tiny": model}, ["tiny"], "cpu", 0, 8.0, "float32", 2, [3], 4, 40, 1, {}, None, 4, 3
    )


def in_this_process(
    variants: Sequence[Variant], rounds: int, variables: Mapping[str, str]
) -> dict[str, Measured]:
    measured = {}
    for variant in variants:
        module = runs if variant.file == settings.RUNS else trials
        _, answer = islice(getattr(module, variant.function)(**variant.arguments), 2)
        trial = Measurement(answer["units"], 1.0, 1.0, 1.0, {}, answer.get("figures", {}))
        measured[variant.name] = Measured(variant, (trial,) * rounds)
    return measured


def units(outcome: StepOutcome) -> dict[str, int]:
    rows = [measured for section in outcome.sections for measured in section]
    return {measured.variant.name: measured.trials[0].units for measured in rows}


def test_a_written_model_has_its_shape_and_random_weights(model: str) -> None:
    built: Any = AutoModelForCausalLM.from_pretrained(model)
    assert sum(weight.numel() for weight in built.parameters()) == pytest.approx(
        SIZES["tiny"].parameters, rel=0.02
    )
    assert built.config.num_key_value_heads == 2 and built.dtype == torch.bfloat16


def test_sampling_and_learning_do_the_same_work_as_their_rivals(setting: GpuSettings) -> None:
    names = ("ours", "ours, compiled", "ours, without a static cache", "generate")
    assert units(steps.sampling(setting)) == {f"{name}, 3 rows, tiny": 12 for name in names}
    outcome = steps.learning(setting)
    packed, padded = outcome.sections[0]
    assert packed.trials[0].units == padded.trials[0].units == 2 * (1 + 4)
    norms = [m.trials[0].figures["gradient norm"] for m in (packed, padded)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)


def test_gradients_are_compared_with_those_of_the_cpu(setting: GpuSettings) -> None:
    outcome = steps.gradients(setting)
    assert [judgement.met for judgement in outcome.judgements] == [True] * 4
    distances = [s[0].trials[0].figures["distance"] for s in outcome.sections]
    assert distances[0] == 0 and distances[2] > 1e-4  # the same; rounded


def test_an_update_of_own_models_and_of_adapters(setting: GpuSettings) -> None:
    outcome = steps.update(setting)
    assert set(units(outcome).values()) == {2 * 2 * 4}
    own, adapters = (steps.planned_gigabytes(setting, "tiny", kind) for kind in ("own", "adapters"))
    assert 0 < adapters < own < 1
    large = GpuSettings(**{**vars(setting), "sizes": ["7b"], "gigabytes": 50.0})
    assert large.fitting(steps.TEAMS["adapters"][1]) == ["7b"]
    with pytest.raises(Skipped, match="needs 305 GB"):
        large.fitting(steps.TEAMS["own"][1])


def test_options_of_learning_do_the_same_work(setting: GpuSettings) -> None:
    outcome = steps.options_of_learning(setting)
    assert set(units(outcome).values()) == {2 * 2 * 4} and len(units(outcome)) == 6
    *_, everything, layers = (row.variant.arguments for row in outcome.sections[0])
    options = ("fused_kernels", "tokens_per_pass", "fused_adamw")
    assert all(everything[name] for name in options) and layers["compile"]


def test_equal_updates_of_two_processes_have_equal_weights(setting: GpuSettings) -> None:
    outcome = steps.equal_bytes(setting)
    assert [judgement.value.median for judgement in outcome.judgements if judgement.value] == [
        1
    ] * 4
    digests = [row.trials[0].figures["digest"] for row in outcome.sections[0]]
    assert digests[0] == digests[1] > 0


def test_waits_are_counted_by_place(
    setting: GpuSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = steps.synchronizations(setting)
    assert [judgement.met for judgement in outcome.judgements] == [True, None, None]
    modes: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    with trials.count_synchronizations("cuda:0") as places:
        for _ in range(3):
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        warnings.warn("another warning", stacklevel=1)
    assert modes == ["warn", "default"]
    ((place, count),) = places.items()
    assert count == 3 and "test_gpu.py" in place


def test_update_against_trl(setting: GpuSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Skipped, match="needs --peers, an interpreter that has trl"):
        steps.trl(setting)
    seen: list[dict[str, Any]] = []

    def grpo(**arguments: Any) -> Iterator[dict[str, Any]]:
        seen.append(arguments)
        yield from ({"units": 16} for _ in range(2))

    monkeypatch.setattr(steps, "installed_versions", lambda peers: {"trl": "1.16.0"})
    monkeypatch.setattr(trials, "grpo", grpo, raising=False)
    outcome = steps.trl(setting)
    assert units(outcome) == {"ours, tiny": 16, "TRL 1.16.0, tiny": 16}
    assert outcome.sections[0][1].variant.python == str(setting.peers)
    file = (VARIANTS / "models/trl_update.py").read_text()  # it cannot be imported here
    (real,) = (node for node in ast.parse(file).body if getattr(node, "name", "") == "grpo")
    assert isinstance(real, ast.FunctionDef)
    assert set(seen[0]) == {argument.arg for argument in real.args.args}


def test_a_probe_is_learned(setting: GpuSettings) -> None:
    (judgement,) = steps.probe(setting).judgements
    assert judgement.met


def test_two_policies_may_have_devices_of_their_own(setting: GpuSettings) -> None:
    tasks = steps.workload.task_ids(steps.workload.environment(), 2)
    case = {**setting.case("tiny"), "tasks": tasks, "devices": ["cpu", "cpu"]}
    _, answer = islice(trials.two_policies(**case), 2)
    assert answer["units"] == 16
    with pytest.raises(Skipped, match="needs two GPUs, and there are 0"):
        steps.devices(setting)


def test_a_model_that_is_too_large_for_the_device_is_left_out(setting: GpuSettings) -> None:
    large = GpuSettings(**{**vars(setting), "sizes": ["tiny", "7b"]})
    assert large.fitting(14) == ["tiny"]
    with pytest.raises(Skipped, match="needs 107 GB, and the device has 8"):
        GpuSettings(**{**vars(setting), "sizes": ["7b"]}).fitting(14)


def test_steps_survive_each_other(
    setting: GpuSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(setting: GpuSettings) -> StepOutcome:
        raise BenchmarkError("packed ended with code 1: out of memory")

    monkeypatch.setitem(STEPS, "learning", broken)
    outcomes = command.measure(setting, ["learning", "devices", "gradients"], minutes=10)
    assert outcomes["learning"] == "failed: BenchmarkError: packed ended with code 1: out of memory"
    assert outcomes["devices"] == "skipped: needs two GPUs, and there are 0"
    assert isinstance(outcomes["gradients"], StepOutcome)
    assert "gradient, float32" in capsys.readouterr().out
    assert list(steps.failures(outcomes)) == [
        "learning: failed: BenchmarkError: packed ended with code 1: out of memory",
        "devices: skipped: needs two GPUs, and there are 0",
    ]
    late = command.measure(setting, ["gradients"], minutes=-1)
    assert late == {"gradients": "skipped: -1 minutes are over"}


def test_unwritable_models_stop_no_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def write(size: str, folder: Path, device: str) -> Path:
        if size == "7b":
            raise OSError("no space left on device")
        return folder / size

    monkeypatch.setattr(command, "write_model", write)
    folders, unwritten = command.write_models(["tiny", "7b"], tmp_path, "cpu")
    assert folders == {"tiny": str(tmp_path / "tiny")}
    assert unwritten == {"model 7b": "failed: OSError: no space left on device"}


def test_wrong_names_and_a_missing_gpu_are_said() -> None:
    with pytest.raises(SystemExit, match="unknown 3b; there are tiny"):
        command.main(size=["3b"], step=["probe"])
    if not torch.cuda.is_available():
        with pytest.raises(SystemExit, match="torch sees no GPU here"):
            command.main(size=["tiny"], step=["probe"])


def test_an_evaluation_is_sampled_in_three_ways(setting: GpuSettings) -> None:
    outcome = steps.evaluation(setting)
    names = ("continuous batching", "one batch", "generate")
    assert {*units(outcome)} == {f"evaluation, {name}, tiny" for name in names}
    assert len({*units(outcome).values()}) == 1


def test_a_variant_that_fails_does_not_stop_the_others(
    setting: GpuSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: Any) -> Iterator[dict[str, Any]]:
        raise BenchmarkError("generate is broken")

    monkeypatch.setitem(trials.VARIANTS, "generate", broken)
    outcome = steps.sampling(setting)
    assert len(units(outcome)) == 3
    lines = [*steps.failures({"sampling": outcome})]
    assert lines == ["sampling, generate, 3 rows, tiny: failed: generate is broken"]


def test_unaffordable_steps_skipped(setting: GpuSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "installed", lambda package: None)
    with pytest.raises(Skipped, match="needs bitsandbytes"):
        steps.quantized(setting)
    monkeypatch.delenv("LLM_DECPOMDP_VLLM_PYTHON", raising=False)
    with pytest.raises(Skipped, match="needs the path of a Python with vllm"):
        steps.servers(setting)
    one = GpuSettings(**{**vars(setting), "device": "cuda", "devices": 1})
    with pytest.raises(Skipped, match="needs two GPUs, and there is 1"):
        steps.shards(one)


def noted_runs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Note the options of runs in place of them."""
    noted: list[dict[str, Any]] = []

    def run(options: dict[str, Any], **_: Any) -> Iterator[dict[str, Any]]:
        noted.append({**runs.SHARED, **options})
        yield from ({"units": 1} for _ in range(2))

    monkeypatch.setattr(runs, "run", run)
    return noted


def test_steps_have_valid_options(setting: GpuSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = noted_runs(monkeypatch)
    steps.in_flight(setting)
    monkeypatch.setenv("LLM_DECPOMDP_VLLM_PYTHON", "/usr/bin/python3")
    steps.servers(GpuSettings(**{**vars(setting), "devices": 2}))
    assert len(noted) == 3 + 6
    assert sum(bool(options.get("algorithm.rollout.in_flight")) for options in noted) == 3
    assert sum(options.get("inference.transfer") == "nccl" for options in noted) == 1
    for options in noted:
        overrides = [f"{key}={json.dumps(value)}" for key, value in options.items()]
        config = load_config(CONFIG, overrides)
        lag = options.get("algorithm.rollout.max_async_level", 0)
        assert config.algorithm.rollout.max_async_level == lag


def test_figures_of_a_run_are_means_of_its_updates() -> None:
    rows = [
        {"learning_seconds": 2.0, "lag": 1},
        {"learning_seconds": 4.0, "mismatch/x": 0.5},
    ]
    assert runs.figures(rows) == {"learning_seconds": 3.0, "lag": 1, "mismatch/x": 0.5}


@pytest.mark.slow
def test_a_run_of_the_command_line_is_measured(setting: GpuSettings) -> None:
    outcome = steps.in_flight(setting)
    assert [measured.trials[0].units > 0 for measured in outcome.sections[0]] == [True] * 3


@pytest.mark.slow
def test_the_whole_command_in_processes_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command.main(
        *(["tiny"], ["sampling", "gradients"], "cpu", "float32"),
        **{"group_size": 2, "rows": [2], "new_tokens": 4, "updates": 2, "json_file": file},
    )
    assert '"ours, 2 rows, tiny"' in file.read_text()
