"""Peak memory of processes that share a model in shards, beside that of one process with all of it.

python -m tools.performance.models.shards [--hidden 768] [--layers 12] [--dtype bfloat16] [--lora 16]

A random Llama is saved, and each process loads it, learns twice and samples. On a CPU peaks are those of the
process (`VmHWM`) above what it holds after the same work with one layer of the same width, on GPUs those of its
device. The estimate of `plan` stands beside them.

The first pass loads libraries, starts threads and compiles kernels: oneDNN keeps those of each shape of a product,
50 MB for adapters in bfloat16. They are the process's, and no part of the estimate. One layer has all shapes of
the model.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

PHASES = ("load", "learn", "sample")

ONE_LAYER = "one_layer"
"""Folder of a model whose work comes first."""


def save_model(folder: Path, arguments: argparse.Namespace, layers: int) -> int:
    """Save a random model with the tokenizer of the tiny one; return its number of weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from llm_decpomdp.agents.models.tiny import character_tokenizer

    config = LlamaConfig(
        vocab_size=arguments.vocabulary,
        hidden_size=arguments.hidden,
        intermediate_size=arguments.intermediate or 4 * arguments.hidden,
        num_hidden_layers=layers,
        num_attention_heads=arguments.hidden // 64,
        num_key_value_heads=arguments.key_heads,
        tie_word_embeddings=arguments.tied,
        bos_token_id=None,
        eos_token_id=0,
        # The embedding of a `pad_token_id` is zero, and the prompt has that token: each norm would multiply the
        # gradient of a zero state by a thousand, which overflows after 13 layers.
        pad_token_id=None,
        dtype=torch.bfloat16,
    )
    model: Any = LlamaForCausalLM(config)
    model.to(torch.bfloat16)
    model.save_pretrained(folder)
    character_tokenizer("ab").save_pretrained(folder)
    return sum(weight.numel() for weight in model.parameters())


def memory(name: str) -> float:
    """Return a figure of this process in gigabytes (10^9 bytes), such as `VmHWM`."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) * 1024 / 1e9  # type: ignore[index]


def reset_peak(on_cpu: bool) -> None:
    """Let the peak of memory begin anew."""
    if on_cpu:
        Path("/proc/self/clear_refs").write_text("5")
    else:
        torch.cuda.reset_peak_memory_stats()


def work(folder: Path, arguments: argparse.Namespace) -> None:
    """Do the work of one process, and print its peaks."""
    from llm_decpomdp.agents.loading import PolicySpec, load_team
    from llm_decpomdp.agents.models.sharded import shard_team
    from llm_decpomdp.algorithms import ALGORITHMS
    from llm_decpomdp.algorithms.learning import distributed as processes
    from llm_decpomdp.algorithms.learning.learner import Learner
    from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
    from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout, Start
    from llm_decpomdp.policy import Completion

    processes.initialize(10)
    size, peaks = processes.world_size(), {}
    rng = random.Random(processes.rank())

    def run(team: Any, take_peak: Callable[[str], None]) -> None:
        learner = Learner(team, ALGORITHMS["magrpo"], LearnerOptions(learning_rate=1e-5))
        take_peak("load")
        rollouts = []
        for seed in range(2):
            rows = [tuple(rng.choices(range(1, 3), k=arguments.tokens)) for _ in range(2)]
            answers = {"x": tuple(Completion("", row, (-1.0,) * len(row)) for row in rows)}
            joint = ((0,), (1,))
            group = Group(0, None, {"x": "ab"}, answers, joint, (0.0, 1.0), ({}, {}), chosen=0)
            rollouts.append(Rollout(Start(seed=seed), (group,)))
        for _ in range(2):
            learner.update(rollouts)
        take_peak("learn")
        team["x"].gather()
        team["x"].generate(["ab"], 2)
        team["x"].finish_sampling()
        take_peak("sample")

    options: dict[str, Any] = {"compute_dtype": arguments.dtype, "max_new_tokens": 8}
    if arguments.lora:
        options["lora"] = {"r": arguments.lora, "target_modules": "all-linear"}

    def load(name: Path) -> Any:
        spec = PolicySpec(name=str(name), **options)
        team = load_team({"x": "x"}, {"x": spec}, hollow=size > 1)
        shard_team(team, size, arguments.reduce_once, arguments.gather_for_generation)
        return team

    run(load(folder / ONE_LAYER), lambda _: None)
    gc.collect()
    on_cpu = arguments.device == "cpu"
    if on_cpu:  # what the allocator keeps is free for the model
        ctypes.CDLL(None).malloc_trim(0)
    base = memory("VmRSS") if on_cpu else torch.cuda.memory_allocated() / 1e9
    reset_peak(on_cpu)

    def take_peak(phase: str) -> None:
        peak = memory("VmHWM") if on_cpu else torch.cuda.max_memory_allocated() / 1e9
        peaks[phase] = max(peak - base, 0.01)
        reset_peak(on_cpu)

    run(load(folder), take_peak)
    print(json.dumps(peaks), flush=True)
    os._exit(0)


def run_processes(
    module: str, size: int, words: Sequence[str], on_cpu: bool, **variables: str
) -> list[Any]:
    """Run a module in some processes of one thread each; return what each has printed last, from JSON."""
    from llm_decpomdp.agents.remote.server import free_port

    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    if on_cpu:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    children = [
        subprocess.Popen(
            [sys.executable, "-m", module, *words],
            env={
                **environment,
                "WORLD_SIZE": str(size),
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    return [json.loads(child.communicate()[0].splitlines()[-1]) for child in children]


def measure(size: int, folder: Path, words: list[str], on_cpu: bool) -> dict[str, float]:
    """Return the peaks of the largest of some processes."""
    module, words = "tools.performance.models.shards", ["--work", str(folder), *words]
    # Freed tensors go back to the system, so that a peak is that of the tensors.
    peaks = run_processes(module, size, words, on_cpu, MALLOC_MMAP_THRESHOLD_="131072")
    return {phase: max(peak[phase] for peak in peaks) for phase in PHASES}


def plan_peak(folder: Path, arguments: argparse.Namespace, size: int) -> float:
    """Return the peak that `plan` estimates for a process."""
    from llm_decpomdp.benchmarks.doctor.memory_plan import MemoryPlan, PlannedModel, read_shape

    shape, once = read_shape(folder), arguments.reduce_once
    adapters = shape.adapter({"r": arguments.lora, "target_modules": "all-linear"})
    model = PlannedModel(
        name=str(folder),
        policies=("x",),
        shape=shape,
        prompts=(3.0,),
        lengths=(float(arguments.tokens),),
        trained=True,
        adapters=adapters if arguments.lora else 0,
        dtype=arguments.dtype,
        shards=size,
        reduce_once=bool(arguments.lora) if once is None else once,
        copies=arguments.gather_for_generation,
    )
    return sum(MemoryPlan(1, (1,), (2,), 2, 2, 0, (model,)).parts().values()) / 1e9


def parser_of_model(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the options of the random model and of its work."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--intermediate", type=int, help="by default 4 times the hidden size")
    parser.add_argument("--key-heads", type=int, help="by default those of queries")
    parser.add_argument("--tied", action="store_true", help="one weight for embeddings and head")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--lora", type=int, default=0, help="rank of an adapter; 0: all weights")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    return parser


def main() -> None:
    """Compare one process with several, and print the table."""
    parser = parser_of_model(__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--reduce-once", action=argparse.BooleanOptionalAction)
    parser.add_argument(
        "--gather-for-generation", action=argparse.BooleanOptionalAction, default=True
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", action="store_true", help="print the peaks as a line of JSON too")
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments)
    with tempfile.TemporaryDirectory() as folder:
        weights, words = save_model(Path(folder), arguments, arguments.layers), sys.argv[1:]
        save_model(Path(folder, ONE_LAYER), arguments, 1)
        alone, each = (
            measure(size, Path(folder), words, arguments.device == "cpu")
            for size in (1, arguments.processes)
        )
        planned = [plan_peak(Path(folder), arguments, size) for size in (1, arguments.processes)]
    print(f"{weights / 1e6:.0f} M weights, {' '.join(words) or 'defaults'}; gigabytes of a process")
    print(f"{'':8}{'1':>8}{arguments.processes:>8}   ratio")
    for phase in (*PHASES, "peak"):
        whole, share = (
            max(peaks.values()) if phase == "peak" else peaks[phase] for peaks in (alone, each)
        )
        print(f"{phase:8}{whole:8.2f}{share:8.2f}{share / whole:8.2f}")
    print(f"{'planned':8}{planned[0]:8.2f}{planned[1]:8.2f}{planned[1] / planned[0]:8.2f}")
    print(f"{'/ peak':8}{planned[0] / whole:8.2f}{planned[1] / share:8.2f}")
    if arguments.json:
        print(json.dumps({"one GB": whole, "each GB": share, "ratio": share / whole}))


if __name__ == "__main__":
    main()
