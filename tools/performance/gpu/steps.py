"""The steps of the command, each of which measures one thing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from llm_decpomdp.agents.inference.options import QUANTIZATIONS
from llm_decpomdp.agents.remote.options import PYTHON_VARIABLE
from llm_decpomdp.benchmarks.doctor.memory_plan import MemoryPlan, PlannedModel
from llm_decpomdp.utils.extras import installed
from tools.performance.gpu.runs import LAG
from tools.performance.gpu.settings import (
    FILE,
    PEAK,
    RUNS,
    SIZES,
    GpuSettings,
    Skipped,
    StepOutcome,
    measure_each,
    on_device,
    race,
)
from tools.performance.harness.trials import Goal, Judgement, Measured, Spread, Variant, speed
from tools.performance.models import workload
from tools.performance.models.update import LORA, installed_versions

CHECKED = "tiny"
"""The model whose gradients are compared, small enough for a CPU."""

DISTANCE = {"float32": 1e-3, "bfloat16": 0.1}
"""Maximum relative distance of gradients from those of a CPU in float32."""

SAMPLING_BYTES, LEARNING_BYTES, UPDATE_BYTES = 7, 14, 20
"""Maximum bytes per weight of a step, with a margin: weights and copy, then gradients, then moments."""

TEAMS = {"adapters": ("two adapters", 6), "own": ("two own models", 2 * UPDATE_BYTES)}
"""Name of a team by its weights, and the maximum bytes per weight of its update; frozen weights have one copy."""

EXACT = {"cluster.rollout_workers": 0, "inference.exact": True}
"""Options of a run that holds the batches of a server back: it has no workers."""

SYNCHRONIZATIONS = {"sampling": 0.125, "update, adapters": None, "update, own": None}
"""What may wait for the device, and its maximum: for each further token of sampling, and in an update."""


def sampling(setting: GpuSettings) -> StepOutcome:
    """Compare our sampling with `generate` and with continuous batching of transformers, by number of rows."""
    ways: dict[str, dict[str, object]] = {
        "ours": {"work": "sampling"},
        "ours, compiled": {"work": "sampling", "static_cache": True, "compile": True},
        "ours, without a static cache": {"work": "sampling", "static_cache": False},
        "generate": {"work": "generate"},
        "continuous batching": {"work": "continuous"},
    }
    if setting.device == "cpu":
        del ways["continuous batching"]  # transformers refuses it there
    prompts = _prompts()[0][:1]

    def variants(size: str, rows: int) -> list[Variant]:
        case: dict[str, object] = {"prompts": prompts, "group_size": rows}
        return [
            on_device(setting, f"{name}, {rows} rows", size, **way, **case)
            for name, way in ways.items()
        ]

    sizes = setting.fitting(SAMPLING_BYTES)
    return race(setting, (variants(size, rows) for size in sizes for rows in setting.rows))


def learning(setting: GpuSettings) -> StepOutcome:
    """Compare packed learning with a padded batch a group."""
    case: dict[str, object] = {"prompts": _prompts()[0]}

    def variants(size: str) -> list[Variant]:
        return [
            on_device(setting, "packed", size, work="packed", **case),
            on_device(setting, "padded", size, work="padded", together=False, **case),
        ]

    return race(setting, map(variants, setting.fitting(LEARNING_BYTES)))


def _prompts() -> list[list[str]]:
    """Return the prompts of all agents for two tasks."""
    env = workload.environment()
    tasks = workload.task_ids(env, 2)
    return [list(workload.prompts(env, task).values()) for task in tasks]


def update(setting: GpuSettings) -> StepOutcome:
    """Measure updates of MAGRPO with adapters and with own weights, and compare their peaks with `plan`."""
    case: dict[str, object] = {"work": "update", "tasks": _tasks()}
    measured: list[Sequence[Measured]] = []
    judgements: list[Judgement] = []
    for weights, (name, bytes_a_weight) in TEAMS.items():
        for size in setting.fitting(bytes_a_weight, at_least=0):
            outcome = measure_each(
                setting, [on_device(setting, name, size, weights=weights, **case)]
            )
            measured += outcome.sections
            judgements += outcome.judgements
            planned = planned_gigabytes(setting, size, weights)
            for figures in outcome.sections[0]:
                if PEAK in figures.trials[0].figures:
                    ratio = figures.spread(lambda trial, p=planned: p / trial.figures[PEAK])  # type: ignore[misc]
                    goal = Goal(f"memory of plan against the peak, {name}, {size}", at_most=1.15)
                    judgements.append(Judgement(goal, ratio))
    return StepOutcome(measured, judgements)


def options_of_learning(setting: GpuSettings) -> StepOutcome:
    """Compare updates of adapters with those of each option that saves time of learning, and of all."""
    ways: dict[str, dict[str, object]] = {
        "plain": {},
        "fused kernels": {"fused_kernels": True},
        "several prompts in a pass": {"tokens_per_pass": 4096},
        "fused AdamW": {"fused_adamw": True},
    }
    ways["all of these"] = {name: value for way in ways.values() for name, value in way.items()}
    # On a GPU not with fused kernels.
    ways["compiled layers"] = {"compile": True}
    case: dict[str, object] = {"work": "update", "tasks": _tasks(), "weights": "adapters"}

    def variants(size: str) -> list[Variant]:
        return [
            on_device(setting, f"update, {name}", size, **case, **way) for name, way in ways.items()
        ]

    return race(setting, map(variants, setting.fitting(TEAMS["adapters"][1])))


def planned_gigabytes(setting: GpuSettings, size: str, weights: str) -> float:
    """Return the peak that `plan` estimates for an update of two agents."""
    prompts, shape = [float(len(prompt)) for prompt in _prompts()[1]], SIZES[size]
    lengths = (float(setting.new_tokens),)
    common: dict[str, Any] = {"name": size, "shape": shape, "trained": True, "dtype": setting.dtype}
    if weights == "adapters":
        both: dict[str, Any] = {
            "policies": ("aux_0", "main_0"),
            "prompts": tuple(prompts),
            "lengths": 2 * lengths,
        }
        models = [PlannedModel(**both, **common, adapters=2 * shape.adapter(LORA))]
    else:
        models = [
            PlannedModel(policies=(name,), prompts=(tokens,), lengths=lengths, **common)
            for name, tokens in zip(("aux_0", "main_0"), prompts, strict=True)
        ]
    group = setting.group_size
    plan = MemoryPlan(1, (1,), (group,), group, group, 0, tuple(models))
    return float(sum(plan.parts().values())) / 1e9


def trl(setting: GpuSettings) -> StepOutcome:
    """Compare an update of own weights with one of TRL's GRPO for the prompt of either agent."""
    version = installed_versions(setting.peers)["trl"]
    if not version:
        raise Skipped("needs --peers, an interpreter that has trl")

    def variants(size: str) -> list[Variant]:
        case = {**setting.case(size), "device": setting.device, "prompts": _prompts()}
        case |= {"bf16": case.pop("dtype") == "bfloat16", "gradient_checkpointing": False}
        python = str(setting.peers)
        return [
            on_device(setting, "ours", size, work="update", tasks=_tasks(), weights="own"),
            Variant(f"TRL {version}, {size}", "models/trl_update.py", "grpo", case, python),
        ]

    return race(setting, map(variants, setting.fitting(2 * UPDATE_BYTES)))


def synchronizations(setting: GpuSettings) -> StepOutcome:
    """Count how often sampling and an update wait for the device."""
    size = setting.fitting(2 * UPDATE_BYTES)[0]
    case = {**setting.case(size), "device": setting.device, "tasks": _tasks()}
    sections, judgements = [], []
    for name, at_most in SYNCHRONIZATIONS.items():
        variant = Variant(name, FILE, "synchronizations", {**case, "work": name})
        (figures,) = section = setting.compare([variant])
        sections.append(section)
        count = figures.spread(lambda trial: trial.figures["waits"])
        judgements.append(Judgement(Goal(f"synchronizations, {name}", "", at_most=at_most), count))
    return StepOutcome(sections, judgements)


def equal_bytes(setting: GpuSettings) -> StepOutcome:
    """Compare the weights of two processes after equal updates, with deterministic kernels and without."""
    size = setting.fitting(2 * UPDATE_BYTES)[0]
    case = {**setting.case(size), "device": setting.device, "tasks": _tasks()}
    sections, judgements = [], []
    for weights, (team, _) in TEAMS.items():
        for switch in (True, False):
            name = f"{team}, deterministic={str(switch).lower()}"
            arguments = {**case, "weights": weights, "switch": switch}
            pair = [Variant(f"{name}, {n}", FILE, "digest", arguments) for n in ("first", "second")]
            section = setting.compare(pair)
            sections.append(section)
            digests = {trial.figures["digest"] for one in section for trial in one.trials}
            goal = Goal(f"different weights, {name}", "", at_most=1 if switch else None)
            judgements.append(Judgement(goal, Spread.from_values([len(digests)])))
    return StepOutcome(sections, judgements)


def _tasks() -> list[str]:
    """Return the tasks of two updates."""
    return workload.task_ids(workload.environment(), 2)


def gradients(setting: GpuSettings) -> StepOutcome:
    """Compare gradients on the device with those of the CPU, in both formats and with both attentions."""
    sections, judgements = [], []
    for dtype, most in DISTANCE.items():
        for attention in ("sdpa", "eager"):
            name = f"gradient, {dtype}, {attention}"
            case = {**setting.case(CHECKED), "device": setting.device}
            case |= {"dtype": dtype, "attention": attention}
            (figures,) = setting.compare([Variant(name, FILE, "gradients", case)])
            sections.append([figures])
            distance = figures.spread(lambda trial: trial.figures["distance"])
            goal = Goal(f"{name}: distance from the CPU's", "", at_most=most)
            judgements.append(Judgement(goal, distance))
    return StepOutcome(sections, judgements)


def probe(setting: GpuSettings) -> StepOutcome:
    """Train on a probe: rewards rise."""
    case = {"device": setting.device, "updates": setting.updates, "group_size": 32}
    (figures,) = setting.compare([Variant("training on a probe", FILE, "probe", case)])
    gain: Spread = figures.spread(lambda trial: trial.figures["last"] - trial.figures["first"])
    goal = Goal("probe: rise of the mean reward", "", at_least=0.2)
    return StepOutcome([[figures]], [Judgement(goal, gain)])


def devices(setting: GpuSettings) -> StepOutcome:
    """Compare two policies on two devices with both on one."""
    if setting.devices < 2:
        raise Skipped(
            f"needs two GPUs, and there {'is' if setting.devices == 1 else 'are'} {setting.devices}"
        )
    size = setting.fitting(LEARNING_BYTES)[0]
    case = {**setting.case(size), "tasks": _tasks()}
    variants = [
        Variant(f"policies on {name}, {size}", FILE, "two_policies", {**case, "devices": places})
        for name, places in (("two GPUs", ["cuda:0", "cuda:1"]), ("one GPU", ["cuda:0", "cuda:0"]))
    ]
    two, single = section = setting.compare(variants)
    return StepOutcome([section], [speed(Goal("devices: two GPUs against one"), two, single)])


def evaluation(setting: GpuSettings) -> StepOutcome:
    """Compare an evaluation of 64 prompts of different lengths with and without continuous batching."""
    ways: dict[str, dict[str, object]] = {
        "continuous batching": {"work": "evaluation", "size": min(32, setting.prompts)},
        "one batch": {"work": "evaluation", "size": None},
        "generate": {"work": "evaluation by generate"},
    }
    case: dict[str, object] = {"group_size": setting.prompts}

    def variants(size: str) -> list[Variant]:
        return [
            on_device(setting, f"evaluation, {name}", size, **way, **case)
            for name, way in ways.items()
        ]

    return race(setting, map(variants, setting.fitting(SAMPLING_BYTES)))


def quantized(setting: GpuSettings) -> StepOutcome:
    """Compare updates of adapters on a base of 16, 8 and 4 bits: speed, and peaks of memory."""
    if not installed("bitsandbytes"):
        raise Skipped("needs bitsandbytes (the extra `quantized`)")

    def variants(size: str) -> list[Variant]:
        case = {**setting.case(size), "tasks": _tasks(), "devices": [setting.device] * 2}
        return [
            Variant(f"{name}, {size}", FILE, "two_policies", {**case, "quantization": name})
            for name in QUANTIZATIONS
        ]

    return race(setting, map(variants, setting.fitting(TEAMS["adapters"][1])))


def _run(setting: GpuSettings, name: str, size: str, **options: object) -> Variant:
    case = {**setting.case(size), "device": setting.device, "updates": setting.run_updates}
    return Variant(f"{name}, {size}", RUNS, "run", {**case, "options": options})


def in_flight(setting: GpuSettings) -> StepOutcome:
    """Compare runs with workers: answers that continue under new weights, a fixed lag, and no lag."""
    adapters = {"model.lora": {"r": 16}}
    flight = {**LAG, "algorithm.rollout.in_flight": True}

    def variants(size: str) -> list[Variant]:
        return [
            _run(setting, "in flight", size, **adapters, **flight),
            _run(setting, "lag 2", size, **adapters, **LAG),
            _run(setting, "no lag", size, **adapters),
        ]

    # The learner and two workers have a copy each.
    return race(setting, map(variants, setting.fitting(3 * TEAMS["adapters"][1])))


def servers(setting: GpuSettings) -> StepOutcome:
    """Compare runs whose policies a vLLM server samples: adapters, full weights by files and NCCL, in flight."""
    if not os.environ.get(PYTHON_VARIABLE):
        raise Skipped(f"needs the path of a Python with vllm in {PYTHON_VARIABLE}")
    vllm = {"inference.engine": "vllm", "inference.exact": False}
    # Two servers and two learners share a GPU.
    share = {**vllm, "inference.flags": {"gpu_memory_utilization": 0.2}}
    flight = {**LAG, "algorithm.rollout.in_flight": True}
    adapters = {**share, "model.lora": {"r": 16}}
    size = setting.fitting(2 * UPDATE_BYTES)[0]
    runs = [
        _run(setting, "vLLM, adapters", size, **adapters),
        _run(setting, "vLLM, adapters, exact", size, **{**adapters, **EXACT}),
        _run(setting, "vLLM, adapters, in flight", size, **adapters, **flight),
        _run(setting, "vLLM, full weights", size, **share),
        _run(setting, "vLLM, full weights, in flight", size, **share, **flight),
    ]
    if setting.devices > 1:
        places: dict[str, object] = {
            f"policies.{name}.sample_on": [1] for name in ("summarizer", "elaborator")
        }
        places |= {f"policies.{name}.device": "cuda:0" for name in ("summarizer", "elaborator")}
        nccl = {**share, **places, "inference.transfer": "nccl"}
        runs.append(_run(setting, "vLLM, full weights by NCCL", size, **nccl))
    return measure_each(setting, runs)


def shards(setting: GpuSettings) -> StepOutcome:
    """Compare the peak memory of processes that share a model with that of one process."""
    if setting.device != "cpu" and setting.devices < 2:
        raise Skipped(f"needs two GPUs, and there is {setting.devices}")
    shape = SIZES[setting.fitting(UPDATE_BYTES)[0]]
    case = {"device": setting.device, "dtype": setting.dtype, "processes": 2}
    case |= {"hidden": shape.hidden, "layers": shape.layers}
    (figures,) = setting.compare([Variant("two processes", RUNS, "shards", case)])
    ratio = figures.spread(lambda trial: trial.figures["ratio"])
    goal = Goal("shards: peak of each of two processes against one", at_most=0.6)
    return StepOutcome([[figures]], [Judgement(goal, ratio)])


STEPS: dict[str, Callable[[GpuSettings], StepOutcome]] = {
    "gradients": gradients,
    "probe": probe,
    "synchronizations": synchronizations,
    "equal_bytes": equal_bytes,
    "sampling": sampling,
    "learning": learning,
    "update": update,
    "options_of_learning": options_of_learning,
    "evaluation": evaluation,
    "quantized": quantized,
    "in_flight": in_flight,
    "servers": servers,
    "shards": shards,
    "devices": devices,
    "trl": trl,
}
"""All steps, the most important first."""


def failures(outcomes: Mapping[str, StepOutcome | str]) -> Iterator[str]:
    """Yield a line for each step without figures, and for each variant that failed."""
    for name, outcome in outcomes.items():
        if isinstance(outcome, str):
            yield f"{name}: {outcome}"
            continue
        for judgement in outcome.judgements:
            if judgement.note.startswith("failed"):
                yield f"{name}, {judgement.goal.name}: {judgement.note}"
