"""One update from end to end, beside peers: `python -m llm_decpomdp.benchmarks.performance.models.update`.

Same model, prompts, group size and number of tokens for all; every contender in a process of its own. Peers may
want other versions of packages than this library, so they have an interpreter of their own (`--peers`):

    python -m venv peers && peers/bin/pip install torch comlrl==1.4.3 'trl==1.16.*'

Peers run as they come; ours run with the settings that our command line gives itself
(`benchmarks/runs/environment.py`), which speed up peers too: `--tuned-peers` gives them to all.

Rewards alternate within every group, whatever the texts are worth, since groups of equal rewards teach nothing
and cost nothing. Ours are computed all the same, in the sandbox; peers are given theirs.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from llm_decpomdp.agents.models.offline import OFFLINE_MODEL
from llm_decpomdp.benchmarks.performance.harness.command_options import (
    Device,
    JsonFile,
    Model,
    NewTokens,
    Rounds,
    Threads,
    show,
)
from llm_decpomdp.benchmarks.performance.harness.goals import Goal, Judgement
from llm_decpomdp.benchmarks.performance.harness.trial_tables import Report
from llm_decpomdp.benchmarks.performance.harness.trials import (
    Measured,
    Variant,
    compare,
    environment,
    tell,
)
from llm_decpomdp.benchmarks.performance.models import workload

OURS = "update_variants.py"
FLOORS = "product_floors.py"

OWN = "ours, two own models, float32"
OWN_BF16 = "ours, two own models, bfloat16"
SHARED = "ours, one shared model, bfloat16"
ADAPTERS = "ours, one base and two adapters, bfloat16"
FLOOR_OWN = "floor of two own models, float32"
FLOOR_ADAPTERS = "floor of one base and two adapters, bfloat16"
COMLRL = "comlrl MAGRPO, two agents, float32"
TRL = "TRL GRPO, one agent, float32"
TRL_DEFAULTS = "TRL GRPO, one agent, its defaults"

TEAMS = {
    OWN: ("own", "float32"),
    OWN_BF16: ("own", "bfloat16"),
    SHARED: ("shared", "bfloat16"),
    ADAPTERS: ("adapters", "bfloat16"),
}

PRODUCTS = {FLOOR_OWN: TEAMS[OWN], FLOOR_ADAPTERS: TEAMS[ADAPTERS]}
"""What no program can undercut on this machine; goals above it are out of reach."""

SECONDS = {
    **{COMLRL: 220, TRL: 110, TRL_DEFAULTS: 110},
    **dict.fromkeys(TEAMS, 45),
    **dict.fromkeys(PRODUCTS, 20),
}
"""About what a trial takes with the defaults."""

BOUNDS = (
    # ours, theirs, times as fast, times the memory
    (OWN, COMLRL, 5.0, None),
    (OWN, TRL, 2.0, None),
    (ADAPTERS, COMLRL, 12.0, 0.5),
    (ADAPTERS, TRL, 5.0, 0.5),
    (FLOOR_OWN, COMLRL, None, None),
    (FLOOR_OWN, TRL, None, None),
    (FLOOR_ADAPTERS, COMLRL, None, None),
    (FLOOR_ADAPTERS, TRL, None, None),
)


def measure(
    model: str,
    group_size: int,
    new_tokens: int,
    rounds: int,
    contenders: Sequence[str],
    *,
    peers: Path | None = None,
    device: str = "cpu",
    tuned_peers: bool = False,
    threads: int | None = None,
) -> Report:
    """Run everything.

    Args:
        contenders: Names of those to run; peers without an interpreter are left out.
        peers: The interpreter that has the peers' packages.
        tuned_peers: Whether peers get our settings of threads and memory.

    Raises:
        BenchmarkError: If a trial fails.
    """
    variables = environment(True, threads)
    versions = installed(peers)
    with workload.endless_copy(model) as folder:
        common = {"model": folder, "group_size": group_size, "new_tokens": new_tokens}
        there = variants(common, device, peers, versions, tuned_peers)
        found = compare([there[name] for name in contenders if name in there], rounds, variables)
    settings = {
        "model": model,
        "G": group_size,
        "new tokens": new_tokens,
        "rounds": rounds,
        "device": device,
        "peers": "with our settings, too" if tuned_peers else "as they come, without our settings",
        **{name: version or "not installed" for name, version in versions.items()},
    }
    title = "One update from end to end"
    return Report(title, settings, variables, [[*found.values()]], judge(found))


def variants(
    common: Mapping[str, Any],
    device: str,
    peers: Path | None,
    versions: Mapping[str, str],
    tuned_peers: bool,
) -> dict[str, Variant]:
    """All contenders that can run, by name."""
    env = workload.environment()
    tasks = workload.task_ids(env, 2)
    messages = [
        [*workload.as_messages(common["model"], workload.prompts(env, task)).values()]
        for task in tasks
    ]
    given = {**common, "tasks": tasks, "device": device}
    ours = [
        Variant(name, file, function, {**given, "dtype": dtype, "weights": weights})
        for file, function, teams in ((OURS, "ours", TEAMS), (FLOORS, "update", PRODUCTS))
        for name, (weights, dtype) in teams.items()
    ]
    given = {**common, "prompts": messages}
    plain = {"bf16": False, "gradient_checkpointing": False}
    defaults = {"bf16": True, "gradient_checkpointing": True}
    python = str(peers)
    theirs = {
        "comlrl": [Variant(COMLRL, "comlrl_update.py", "magrpo", given, python, tuned_peers)],
        "trl": [
            Variant(TRL, "trl_update.py", "grpo", {**given, **plain}, python, tuned_peers),
            Variant(
                TRL_DEFAULTS, "trl_update.py", "grpo", {**given, **defaults}, python, tuned_peers
            ),
        ],
    }
    able = [variant for name, each in theirs.items() if versions[name] for variant in each]
    return {variant.name: variant for variant in (*able, *ours)}


def installed(peers: Path | None) -> dict[str, str]:
    """The peers' versions in an interpreter; empty where there are none."""
    names = ("comlrl", "trl")
    if peers is None:
        return dict.fromkeys(names, "")
    code = (
        "import importlib.metadata as m, sys\n"
        "there = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "print(*(there.get(name, '-') for name in sys.argv[1:]))"
    )
    done = subprocess.run([peers, "-c", code, *names], capture_output=True, text=True, check=True)
    found = zip(names, done.stdout.split(), strict=True)
    return {name: "" if version == "-" else version for name, version in found}


def judge(found: Mapping[str, Measured]) -> list[Judgement]:
    """Every bound, with what was measured or why nothing was."""
    judgements = []
    for ours, theirs, speed, memory in BOUNDS:
        missing = [name for name in (ours, theirs) if name not in found]
        note = f"not run: {', '.join(missing)}" if missing else ""
        pair = f"{_short(ours)} : {_short(theirs)}"
        fast, small = None, None
        if not missing:
            mine, rival = found[ours], found[theirs]
            fast, small, note = (
                mine.times_faster(rival),
                mine.times_memory(rival),
                mine.beside(rival),
            )
        judgements.append(Judgement(Goal(f"speed: {pair}", "x", at_least=speed), fast, note))
        if ours in TEAMS:  # a floor of memory isn't measured
            aim = Goal(f"memory: {pair}", "x", at_most=memory)
            judgements.append(Judgement(aim, small, note if missing else ""))
    return judgements


def _short(name: str) -> str:
    """Without what all of a goal's rows share, so that it fits a line."""
    return name.removeprefix("ours, ").partition(", ")[0]


def main(
    model: Model = OFFLINE_MODEL,
    group_size: Annotated[int, typer.Option(min=2, help="Joint samples (G).")] = 4,
    new_tokens: NewTokens = 64,
    rounds: Rounds = 3,
    peers: Annotated[
        Path | None,
        typer.Option(help="Interpreter that has comlrl and trl; without it ours run alone."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Run contenders with this in their name; give it again."),
    ] = None,
    device: Device = "cpu",
    tuned_peers: Annotated[
        bool, typer.Option(help="Whether peers get our settings of threads and memory.")
    ] = False,
    threads: Threads = None,
    json_file: JsonFile = None,
) -> None:
    """Measure one update from end to end, and judge it by its goals."""
    names = [name for name in SECONDS if only is None or any(part in name for part in only)]
    run = [name for name in names if peers is not None or name in {**TEAMS, **PRODUCTS}]
    minutes = rounds * sum(SECONDS[name] for name in run) / 60
    tell(f"takes about {minutes:.0f} minutes with the offline model on two cores")
    show(
        partial(
            measure,
            *(model, group_size, new_tokens, rounds, run),
            peers=peers,
            device=device,
            tuned_peers=tuned_peers,
            threads=threads,
        ),
        json_file,
    )


if __name__ == "__main__":
    typer.run(main)
