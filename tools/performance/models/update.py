"""One whole update compared with peers: `python -m tools.performance.models.update`.

Model, prompts, group size and number of tokens are equal; every contender has a separate process. Peers may need
other versions of packages, so they have a separate interpreter (`--peers`):

    python -m venv peers && peers/bin/pip install torch comlrl==1.4.3 'trl==1.16.*'

Peers run with their defaults; ours have the settings of our command line (`SETTINGS` of `benchmarks/runs`),
which also speed up peers: `--tuned-peers` gives them to all.

Rewards alternate within every group, because groups of equal rewards have no gradient and cost nothing. Our
rewards are still computed in the sandbox; peers get theirs for free.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from llm_decpomdp.agents.loading import PolicySpec, load_team
from llm_decpomdp.agents.models.pretrained import OFFLINE_MODEL
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, TextEnv, Timer
from llm_decpomdp.algorithms.training.metrics import count_tokens
from llm_decpomdp.policy import Policy
from tools.performance.harness import trials
from tools.performance.models import workload
from tools.performance.models.workload import Case

OURS = "models/update.py"
FLOORS = "models/product_floors.py"

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
"""Lower bounds of any program on this machine, which show whether a goal can be reached."""

SECONDS = {
    **{COMLRL: 220, TRL: 110, TRL_DEFAULTS: 110},
    **dict.fromkeys(TEAMS, 45),
    **dict.fromkeys(PRODUCTS, 20),
}
"""Rough duration of a trial with the defaults."""

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


def variants(
    common: Mapping[str, Any],
    device: str,
    peers: Path | None,
    versions: Mapping[str, str],
    tuned_peers: bool,
) -> dict[str, trials.Variant]:
    """Return all variants that can run, by name."""
    env = workload.environment()
    tasks = workload.task_ids(env, 2)
    case = {**common, "tasks": tasks, "device": device}
    available = [
        trials.Variant(name, file, function, {**case, "dtype": dtype, "weights": weights})
        for file, function, teams in ((OURS, "ours", TEAMS), (FLOORS, "update", PRODUCTS))
        for name, (weights, dtype) in teams.items()
    ]
    prompts = [
        [*workload.to_messages(common["model"], workload.prompts(env, task)).values()]
        for task in tasks
    ]
    case = {**common, "prompts": prompts}
    plain, defaults = (
        {**case, "device": device, "bf16": on, "gradient_checkpointing": on} for on in (False, True)
    )
    rivals = (
        ("comlrl", COMLRL, "comlrl_update.py", "magrpo", case),
        ("trl", TRL, "trl_update.py", "grpo", plain),
        ("trl", TRL_DEFAULTS, "trl_update.py", "grpo", defaults),
    )
    available += [
        trials.Variant(name, f"models/{file}", function, arguments, str(peers), tuned_peers)
        for package, name, file, function, arguments in rivals
        if versions[package]
    ]
    return {variant.name: variant for variant in available}


def installed_versions(peers: Path | None) -> dict[str, str]:
    """Return the peers' versions in an interpreter; empty where there are none."""
    names = ("comlrl", "trl")
    if peers is None:
        return dict.fromkeys(names, "")
    code = (
        "import importlib.metadata as m, sys\n"
        "there = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "print(*(there.get(name, '-') for name in sys.argv[1:]))"
    )
    process = subprocess.run(
        [peers, "-c", code, *names], capture_output=True, text=True, check=True
    )
    versions = zip(names, process.stdout.split(), strict=True)
    return {name: "" if version == "-" else version for name, version in versions}


def judge(results: Mapping[str, trials.Measured]) -> list[trials.Judgement]:
    """Judge every bound, with the reason where nothing was measured."""
    judgements = []
    for name, rival, faster, smaller in BOUNDS:
        pair = f"{_short(name)} : {_short(rival)}"
        aims = [trials.Goal(f"speed: {pair}", at_least=faster)]
        if name in TEAMS:  # a floor of memory isn't measured
            aims.append(trials.Goal(f"memory: {pair}", at_most=smaller))
        missing = ", ".join(contender for contender in (name, rival) if contender not in results)
        if missing:
            judgements += [trials.Judgement(aim, None, f"not run: {missing}") for aim in aims]
            continue
        pairing = results[name], results[rival]
        judgements.append(trials.speed(aims[0], *pairing))
        ratio = pairing[0].times_memory(pairing[1])
        judgements += [trials.Judgement(aim, ratio) for aim in aims[1:]]
    return judgements


def _short(name: str) -> str:
    """Shorten a name to the part that differs, so that it fits a line."""
    return name.removeprefix("ours, ").partition(", ")[0]


def main(
    model: trials.Model = OFFLINE_MODEL,
    group_size: Annotated[int, typer.Option(min=2, help="Joint samples (G).")] = 4,
    new_tokens: trials.NewTokens = 64,
    rounds: trials.Rounds = 3,
    peers: trials.Peers = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Run contenders with this in their name; give it again."),
    ] = None,
    device: trials.Device = "cpu",
    tuned_peers: Annotated[
        bool, typer.Option(help="Whether peers get our settings of threads and memory.")
    ] = False,
    threads: trials.Threads = None,
    json_file: trials.JsonFile = None,
) -> None:
    """Measure one update from end to end, and judge it by its goals."""
    names = [name for name in SECONDS if only is None or any(part in name for part in only)]
    if peers is None:
        # Peers need their own interpreter.
        names = [name for name in names if name in {**TEAMS, **PRODUCTS}]
    minutes = rounds * sum(SECONDS[name] for name in names) / 60
    trials.progress(f"takes about {minutes:.0f} minutes with the offline model on two cores")
    measurements = trials.Comparisons(rounds, trials.environment(True, threads))
    versions = installed_versions(peers)
    with workload.endless_copy(model) as folder:
        common = {"model": folder, "group_size": group_size, "new_tokens": new_tokens}
        available = variants(common, device, peers, versions, tuned_peers)
        contenders = [available[name] for name in names if name in available]
        results = {row.variant.name: row for row in measurements.compare(contenders)}
    measurements.judgements += judge(results)
    settings = {
        "model": model,
        "G": group_size,
        "new tokens": new_tokens,
        "rounds": rounds,
        "device": device,
        "peers": "with our settings, too" if tuned_peers else "as they come, without our settings",
        **{name: version or "not installed" for name, version in versions.items()},
    }
    measurements.finish("One whole update", settings, json_file)


OPTIONS = LearnerOptions(learning_rate=1e-6, max_grad_norm=1.0)

LORA = {"r": 16, "lora_alpha": 32, "target_modules": "all-linear"}

PARTS = {"sampling": "sampling", "stepping": "reward", "learning": "learning"}


def ours(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Update by MAGRPO on CoopHumanEval, once for each task."""
    return update_with_critic({}, {}, 1, **arguments)


def update_with_critic(
    critic: dict[str, Any], joint: dict[str, Any], turns: int, **arguments: Any
) -> Iterator[dict[str, Any]]:
    """Update by MAGRPO over turns, with options of a critic and of joint samples."""
    case = Case(**arguments)
    env = workload.environment(turns)
    team = build_team(case, env.possible_agents)
    starts = [Start(task_id=task) for task in case.tasks]
    options = replace(
        OPTIONS, fused_adamw=case.fused_adamw, tokens_per_pass=case.tokens_per_pass, **critic
    )
    try:
        yield from updates(env, team, starts, case.group_size, options, views=bool(critic), **joint)
    finally:
        env.close()


def build_team(case: Case, agents: Sequence[str]) -> dict[str, Policy]:
    """Return a policy for each agent."""
    adapters, shared = case.weights == "adapters", case.weights == "shared"
    spec = PolicySpec(
        name=case.model,
        max_new_tokens=case.new_tokens,
        compute_dtype=case.dtype,
        device=case.device,
        static_cache=case.static_cache,
        fused_kernels=case.fused_kernels,
        compile=case.compile,
        lora=LORA if adapters else None,
    )
    names = {agent: "all" if shared else agent for agent in agents}
    return load_team(names, dict.fromkeys(names.values(), spec))


def updates(
    env: TextEnv,
    team: dict[str, Policy],
    starts: Sequence[Start],
    group_size: int,
    options: LearnerOptions = OPTIONS,
    **ways: Any,
) -> Iterator[dict[str, Any]]:
    """Make an update for each start, and yield its tokens and times; `ways` as of `collect_rollouts`."""
    learner = Learner(team, ALGORITHMS["magrpo"], options)
    for start in starts:
        clock = Timer()
        settings = {"group_size": group_size, "rng": np.random.default_rng(0), **ways}
        rollouts = collect_rollouts(env, team, [start], timer=clock, **settings)
        with clock("learning"):
            learner.update([add_signal(rollout) for rollout in rollouts])
        parts = {PARTS[name]: seconds for name, seconds in clock.seconds.items()}
        yield {"units": count_tokens(rollouts), "parts": parts}


def add_signal(rollout: Rollout) -> Rollout:
    """Return the rollout with rewards that alternate: groups of equal rewards are skipped, and cost nothing."""
    groups = [
        replace(group, rewards=tuple(float(index % 2) for index in range(len(group.rewards))))
        for group in rollout.groups
    ]
    return replace(rollout, groups=tuple(groups))


if __name__ == "__main__":
    trials.run(main)
