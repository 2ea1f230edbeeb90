"""What the commands print of a training: its cost before it, and its outcome after it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_decpomdp.benchmarks.cli.console import PROGRAM, first_process, give_result

if TYPE_CHECKING:
    from llm_decpomdp.benchmarks.config.schema import Config
    from llm_decpomdp.benchmarks.runs import train as run


def describe_cost(config: Config, name: str) -> Iterator[str]:
    """Check a configuration, its folder and this machine, and yield lines about the cost of its run."""
    from llm_decpomdp.benchmarks.config.teams import check_machine
    from llm_decpomdp.benchmarks.runs.checkpoints import new_folder
    from llm_decpomdp.benchmarks.runs.setup import resolve
    from llm_decpomdp.benchmarks.runs.setup_checks import start_cost
    from llm_decpomdp.benchmarks.runs.warm_start import load_demonstrations, sampled_problems

    run = resolve(config)
    config = run.config
    check_machine(config, run.team.policies)
    folder = new_folder(config, name)
    updates, demonstrations = len(run.batches), load_demonstrations(run)
    # At most: every group is without signal, and sampled again in every round.
    starts = (1 + config.algorithm.rollout.max_resample_rounds) * sum(map(len, run.batches))
    training = start_cost(config).times(0 if run.pairs else starts)
    # A warm start adds an evaluation of the untrained team.
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
    yield f"{config.algorithm.name}, {config.algorithm.rollout.mode}, on {config.env.id}: {run.team.models}"
    yield f"training: {f'{len(run.pairs):,} stored pairs' if run.pairs else data[0]}"
    yield f"evaluations: {data[1]}"
    warm = config.warm_start
    if demonstrations:
        yield f"warm start: {len(demonstrations):,} demonstrations of {warm.source}, {warm.epochs} times"
    elif demonstrations is not None:
        problems = len(sampled_problems(run))
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
        for options, purpose in _next_commands(result):
            yield f"  {program} {options}  # {purpose}"


def _next_commands(result: run.Result) -> Iterator[tuple[str, str]]:
    """Yield commands that work with the run, and what they are good for."""
    folder = result.folder.path
    yield (
        f"play --team {folder}",
        "watch the team that you trained; with --agent NAME, be one of it",
    )
    if not result.turn_based:
        yield f"analyze credit {folder}", "what each agent added to the reward"


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
