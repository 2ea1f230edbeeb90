"""The commands `train`, `demo` and `reward-model`, and the lines at the end of a training."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from llm_decpomdp.benchmarks.cli.console import (
    PROGRAM,
    Overrides,
    complete_config,
    complete_run,
    first_process,
)
from llm_decpomdp.benchmarks.cli.output import give_result
from llm_decpomdp.benchmarks.config.errors import ALONE, ConfigError, raise_run_errors

if TYPE_CHECKING:
    from llm_decpomdp.benchmarks.config.schema import Config
    from llm_decpomdp.benchmarks.runs import train as run

NEXT = {
    "play --team {run}": "watch the team that you trained; with --agent NAME, be one of it",
    "analyze credit {run}": "what each agent added to the reward",
    "export {run} --pairs": "its answers as preference pairs, a data set",
}


# Not `demo.yaml`, which trains on coding problems that small models hardly solve: this pair learns to cooperate.
DEMO = "cooperation_demo"


def demo(override: Overrides = None) -> None:
    """Train two small language models to work together, on this machine's CPU, in minutes and without a hub.

    It trains a pair, trains another one with another seed, and then exchanges partners: is the gain lost? It takes
    3 GiB of memory, and leaves the trained pairs to be played with.
    """
    from rich.console import Console

    from llm_decpomdp.benchmarks.analysis.partners import exchange_in_turn, table
    from llm_decpomdp.benchmarks.config.inputs import find_config
    from llm_decpomdp.benchmarks.config.load import read_config
    from llm_decpomdp.benchmarks.doctor.memory import give_back, require_for_demo
    from llm_decpomdp.benchmarks.report.live import LiveReport
    from llm_decpomdp.benchmarks.runs import train as run

    if not override:  # else it may need less
        require_for_demo()
    # The final team is what the next commands play with.
    settings = read_config(find_config(DEMO), override or (), {"output.save_final_model": True})
    pair = run.train(settings, DEMO, [LiveReport])
    give_back()
    name = f"{pair.folder.path.name}-other-seed"
    # The second team only lends partners, so it needs neither report nor evaluations.
    output = replace(settings.output, name=name, report=False, save_path=None, keep_best=False)
    evaluation = replace(settings.evaluation, num_tasks=0)
    second = run.train(
        replace(settings, seed=settings.seed + 1, output=output, evaluation=evaluation), DEMO
    )
    give_back()
    if first_process():
        with raise_run_errors():
            evaluations = exchange_in_turn([pair.folder.path, second.folder.path])
        Console(highlight=False).print(table(evaluations))
    conclude(pair)


def train_(
    config: Annotated[
        str | None,
        Option(help="Name or path of a configuration.", autocompletion=complete_config),
    ] = None,
    override: Overrides = None,
    seed: Annotated[
        int | None, Option(min=0, help="Decides what is drawn at random; the key seed.")
    ] = None,
    output: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="The run folder; the keys output.base_dir and name."),
    ] = None,
    resume: Annotated[
        Path | None,
        Option(
            autocompletion=complete_run,
            metavar="FOLDER",
            help="Continue an interrupted run, or with --override a longer one: the budget, checkpoints and what "
            "happens to long prompts may change.",
        ),
    ] = None,
    from_: Annotated[
        Path | None,
        Option(
            "--from",
            autocompletion=complete_run,
            metavar="RUN",
            help="Begin a new run with the team of another, by its configuration if --config names none.",
        ),
    ] = None,
    warm_start: Annotated[
        str | None,
        Option(
            metavar="gold|passes|FILE",
            help="Imitate references, what the team itself solves, or the completions of a JSONL file, before the "
            "first update; the key warm_start.source.",
        ),
    ] = None,
    pairs: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Learn from stored pairs, as export --pairs --to jsonl writes them, with madpo; the key "
            "algorithm.preferences.source.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Check the configuration, and say what it would cost.")
    ] = False,
) -> None:
    """Train a team of language models, and write a report."""
    from llm_decpomdp.benchmarks.config.inputs import find_config
    from llm_decpomdp.benchmarks.config.load import read_config
    from llm_decpomdp.benchmarks.report.live import LiveReport
    from llm_decpomdp.benchmarks.runs import checkpoints as from_run
    from llm_decpomdp.benchmarks.runs import resume as resuming
    from llm_decpomdp.benchmarks.runs import train as run

    if resume is not None:
        arguments = (config, from_, dry_run or None, seed, output, warm_start, pairs)
        if any(value is not None for value in arguments):
            raise ConfigError(ALONE)
        conclude(resuming.resume(resume, override or (), [LiveReport]))
        return
    if config is None and from_ is None:
        raise ConfigError(
            "give --config NAME_OR_PATH, such as demo; `llm-decpomdp list` shows all names"
        )
    flags: dict[str, Any] = {} if seed is None else {"seed": seed}
    if warm_start is not None:
        flags["warm_start.source"] = warm_start
    if pairs is not None:
        flags |= {"algorithm.preferences.source": str(pairs), "algorithm.name": "madpo"}
    if output is not None:
        flags |= {"output.base_dir": str(output.parent), "output.name": output.name}
    if from_ is not None:
        settings, name = from_run.settings(from_, config, override or (), flags)
    else:
        path = find_config(str(config))
        settings, name = read_config(path, override or (), flags), path.stem
    if dry_run:
        print("\n".join(describe_cost(settings, name)))
    elif from_ is not None:
        conclude(from_run.train_initial_team(from_, settings, name, [LiveReport]))
    else:
        conclude(run.train(settings, name, [LiveReport]))


def reward_model(
    pairs: Annotated[
        Path, Option(metavar="FILE", help="Pairs, as export --pairs --to jsonl writes them.")
    ],
    config: Annotated[
        str, Option(help="Name or path of the configuration whose runs are to learn from it.")
    ],
    output: Annotated[Path, Option(metavar="FOLDER", help="Where reward_model.pt goes.")],
    override: Overrides = None,
    held_out: Annotated[
        float, Option(help="Share of the tasks whose pairs judge it, between 0 and 1.")
    ] = 0.2,
    penalty: Annotated[
        float, Option(help="Weight of half the squared norm of its weights.")
    ] = 0.01,
    part_length: Annotated[
        int, Option(help="Most characters of a prompt or an answer that it reads.")
    ] = 4000,
) -> None:
    """Learn to score joint answers from pairs; train --override algorithm.reward_model=FILE learns by it."""
    from llm_decpomdp.benchmarks.config.inputs import find_config
    from llm_decpomdp.benchmarks.config.load import read_config
    from llm_decpomdp.benchmarks.runs.reward_model import train_reward_model

    settings = read_config(find_config(config), override or ())
    options = {"held_out": held_out, "penalty": penalty, "part_length": part_length}
    path, report = train_reward_model(settings, pairs, output, **options)
    print(f"pairs: {report['pairs']}, of which held out: {report['held_out_pairs']}")
    for part, prefix in (("training", "train_"), ("held-out", "")):
        print(
            f"{part} pairs: accuracy {report[f'{prefix}accuracy']:.3f}, loss {report[f'{prefix}loss']:.3f}, Brier "
            f"score {report[f'{prefix}brier']:.3f}, calibration error "
            f"{report[f'{prefix}calibration_error']:.3f}"
        )
    print(path)
    give_result({"file": path, **report})


def describe_cost(config: Config, name: str) -> Iterator[str]:
    """Check a configuration, its folder and this machine, and yield lines about the cost of its run."""
    from llm_decpomdp.benchmarks.config.load import start_cost
    from llm_decpomdp.benchmarks.config.teams import check_machine
    from llm_decpomdp.benchmarks.runs import train as folders
    from llm_decpomdp.benchmarks.runs.setup import resolve

    run = resolve(config)
    config = run.config
    check_machine(config, run.team.policies)
    folder = folders.new_folder(config, name)
    updates, demonstrations = len(run.batches), run.demonstrations()
    starts = (1 + config.algorithm.rollout.refill) * sum(map(len, run.batches))
    training = start_cost(config).times(0 if run.pairs else starts)
    evaluations = run.trainer.evaluations(updates) + (demonstrations is not None)
    episodes = len(run.eval_starts) * evaluations
    players = [run.team.policies[policy] for policy in run.team.agents.values()]
    tokens = sum(spec.max_new_tokens for spec in players if spec.name)
    data = []
    for env in (run.train_env, run.eval_env):
        about = env.metadata["data"]
        stand_in = ", a stand-in" if about["stand_in"] else ""
        where = f"{about['name']} {about['split']} ({about['source']}){stand_in}"
        data.append(f"{about['rows']} problems of {where}")
    yield f"{config.algorithm.name}, {config.algorithm.rollout.plan}, on {config.env.id}: {run.team.models}"
    yield f"training: {f'{len(run.pairs):,} stored pairs' if run.pairs else data[0]}"
    yield f"evaluations: {data[1]}"
    warm = config.warm_start
    if demonstrations:
        yield f"warm start: {len(demonstrations):,} demonstrations of {warm.source}, {warm.epochs} times"
    elif demonstrations is not None:
        problems = len(run.sampled_problems)
        sampled = problems * warm.samples * warm.rounds
        yield (
            f"warm start: {problems:,} problems, {warm.samples} episodes of each in each of {warm.rounds} rounds: "
            f"{sampled:,} episodes, {sampled * config.horizon * tokens:,} tokens; those that pass are learned "
            f"{warm.epochs} times"
        )
    yield (
        f"{updates:,} updates: {training.joint_samples:,} joint samples, {training.completions * tokens:,} "
        f"tokens; {episodes:,} episodes of evaluations, {episodes * config.horizon * tokens:,} tokens"
    )
    yield "Tokens are upper bounds: every completion as long as its limit, every episode to its horizon."
    give_result(
        {
            "algorithm": config.algorithm.name,
            "environment": config.env.id,
            "model": run.team.models,
            "updates": updates,
            "joint_samples": training.joint_samples,
            "training_tokens_at_most": training.completions * tokens,
            "evaluation_episodes": episodes,
            "evaluation_tokens_at_most": episodes * config.horizon * tokens,
            "folder": folder,
        }
    )
    yield f"run folder: {folder}"
    yield "Models were not loaded, and nothing was written."


def conclude(result: run.Result) -> None:
    """Write the report of a training, unless its configuration declines one, and print `outcome`."""
    from llm_decpomdp.benchmarks.report.document import write_report

    if first_process():
        report = write_report(result.folder) if result.config.output.report else None
        print("\n".join(outcome(result, report)))
        team = result.team if result.team.is_dir() else None
        paths = {"folder": result.folder.path, "report": report, "team": team}
        give_result({**paths, **result.summary})


def outcome(result: run.Result, report: Path | None) -> Iterator[str]:
    """Yield first and last mean rewards, paths, and commands to go on with, as lines."""
    summary, first = result.summary, result.summary["first_eval"]
    yield f"updates: {summary['updates']}"
    yield from _warm_start(summary)
    if first is not None:
        before = "after the warm start" if "last_warm_start" in summary else "before training"
        yield f"evaluation {before}: {_evaluation(first)}"
        yield f"evaluation after training:  {_evaluation(summary['last_eval'])}"
    for label in ("first", "last"):
        mean = summary[f"{label}_train"]["reward_mean"]
        yield f"{label} update: mean reward {mean:.3f} (training problems)"
    if silent := summary["groups_without_signal"]:
        yield (
            f"without signal, as all their rewards were equal: {silent:.0f} of {summary['groups']:.0f} groups; "
            f"{summary['silent_updates']} of {summary['updates']} updates taught nothing"
        )
    if summary["cut_off"]:
        yield f"cut off at the token limit: {summary['cut_off']:.0%} of the completions"
    yield f"run folder: {result.folder.path}"
    if report is not None:
        yield f"report: {report}"
    if result.team.is_dir():
        size = sum(path.stat().st_size for path in result.team.rglob("*") if path.is_file())
        yield f"trained team: {result.team} ({size / 10**6:,.0f} MB)"
        yield "next:"
        # As the user called it: the program may not be on the path.
        program = sys.argv[0] if Path(sys.argv[0]).name == PROGRAM else PROGRAM
        for options, purpose in NEXT.items():
            yield f"  {program} {options.format(run=result.folder.path)}  # {purpose}"


def _warm_start(summary: Mapping[str, Any]) -> Iterator[str]:
    if "last_warm_start" not in summary:
        return
    if "first_untrained" in summary:
        yield f"evaluation before the warm start: {_evaluation(summary['first_untrained'])}"
    first, last = summary["first_warm_start"], summary["last_warm_start"]
    losses = [
        f"{key.removeprefix('nll/')} {first[key]:.3f} to {last[key]:.3f}"
        for key in first
        if key.startswith("nll/") and key in last
    ]
    steps = f"warm start: {last['step']} steps"
    yield f"{steps}; -log pi of a token, first to last step: {', '.join(losses)}"
    if "round" in last:
        rates = f"{first['pass_rate']:.1%} to {last['pass_rate']:.1%}"
        yield (
            f"own passes: {last['round']} rounds of {last['sampled_episodes']} sampled episodes; passed, first to "
            f"last round: {rates}"
        )


def _evaluation(row: Mapping[str, Any]) -> str:
    error = row["reward_standard_error"]
    spread = "" if error is None else f", standard error {error:.3f}"
    return f"mean reward {row['reward_mean']:.3f} (n = {row['n']}{spread})"
