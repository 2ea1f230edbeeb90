"""Evaluations from the options of a command: environment, team and folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.saved_team import MANIFEST
from llm_decpomdp.benchmarks.config.errors import (
    ConfigError,
    RunError,
    open_folder,
    raise_run_errors,
)
from llm_decpomdp.benchmarks.config.inputs import absolute_data_path, parse_overrides
from llm_decpomdp.benchmarks.config.legacy import renamed
from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.benchmarks.evaluation import teams as eval_teams
from llm_decpomdp.benchmarks.evaluation.baselines import EvalConfig, TeamUnderTest, find_baseline
from llm_decpomdp.benchmarks.evaluation.folder import EvaluationResult
from llm_decpomdp.benchmarks.evaluation.run import check_options, evaluate, refuse_run
from llm_decpomdp.benchmarks.evaluation.teams import RemoteModel
from llm_decpomdp.benchmarks.runs import checkpoints as kept_teams
from llm_decpomdp.benchmarks.runs.data import warn_of_other_data
from llm_decpomdp.benchmarks.runs.setup import load_config
from llm_decpomdp.utils.storage import read_json_lines

OF_THE_TEAM = ("model", "team", "policies")
"""Sections of a configuration that a saved team replaces, except `model.device`."""


@dataclass(frozen=True)
class EvalRequest:
    """The options of an evaluation."""

    config: str | None = None
    overrides: Sequence[str] = ()
    team: Path | None = None
    checkpoint: str | None = None
    """The team of a run: `final`, `best` or `last`."""
    baseline: str | None = None
    model: RemoteModel | None = None
    env: str | None = None
    env_options: Sequence[str] = ()
    """Arguments of the environment, such as `num_turns=2`."""
    split: str | None = None
    tasks: int | None = None
    """Number of the split's first tasks; `None` for all."""
    samples: int = 1
    k: Sequence[int] = ()
    greedy: bool = False
    seed: int = 0
    at_a_time: int = 64
    on_error: str = "raise"
    output: Path | None = None
    allow_endpoints: Sequence[str] = ()


def evaluate_models(
    request: EvalRequest, models: Sequence[RemoteModel]
) -> dict[str, EvaluationResult]:
    """Evaluate a team, or each of several remote models, in separate folders of `--output`.

    Returns:
        The evaluations by the names of the models; that of the request's team has an empty name.

    Raises:
        ConfigError: If an option is wrong, or two exclude each other.
        RunError: If data or models cannot be loaded, or a policy or the sandbox fails.
        KeyboardInterrupt: After Ctrl-C; its text tells how to resume.
    """
    if not models:
        return {"": evaluate_team(request)}
    if request.team is not None or request.baseline is not None:
        raise ConfigError(
            "--model excludes --team and --baseline, as each of them is a team. Baselines use the configuration's "
            "model"
        )
    evaluations, output = {}, request.output
    for model in models:
        folder = output / model.slug if output and len(models) > 1 else output
        evaluations[model.name] = evaluate_team(replace(request, model=model, output=folder))
    return evaluations


def evaluate_team(request: EvalRequest) -> EvaluationResult:
    """Evaluate one team; errors as in `evaluate_models`."""
    if request.greedy and request.samples > 1:
        raise ConfigError("greedy samples are all equal: leave out --samples or --greedy")
    check_options(request.samples, request.k, request.at_a_time, request.on_error)
    setting = resolve_request(request)
    name = (
        (request.model and request.model.slug)
        or request.baseline
        or (request.team and request.team.resolve().name)
        or (request.config and Path(request.config).stem)
        or "untrained"
    )
    path = request.output or default_folder(setting, f"eval-{name}")
    with open_folder(path) as folder:
        refuse_run(folder)
        with raise_run_errors():
            # Fast checks come before data and models are loaded.
            if request.team is not None:
                kept_teams.locate(request.team, request.checkpoint, setting.config)
            baseline = find_baseline(request.baseline, setting) if request.baseline else None
            starts = setting.starts(request.tasks)
            entry = baseline.load() if baseline else _entry(request, setting)
            if request.team is not None:
                warn_of_other_data(request.team, setting.env)
            if request.greedy:
                eval_teams.make_greedy(entry.team)
        with _resumable(path, len(starts) * request.samples), raise_run_errors():
            return evaluate(
                entry.env,
                entry.team,
                starts,
                samples=request.samples,
                folder=folder,
                seed=request.seed,
                act=entry.act,
                about={**entry.about, "greedy": request.greedy},
                k=request.k,
                at_a_time=request.at_a_time,
                on_error=request.on_error,
            )


@contextmanager
def _resumable(folder: Path, total: int) -> Iterator[None]:
    """Add to failures and Ctrl-C how to resume the evaluation, if any of its episodes are stored."""
    try:
        yield
    except (KeyboardInterrupt, RunError) as error:
        rows = sum(1 for _ in read_json_lines(folder / "episodes.jsonl"))
        remedy = f"run the same command again: {rows} of {total} episodes are kept" * bool(rows)
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(remedy) from None
        if not remedy:
            raise
        raise RunError(f"{error}. To go on, {remedy}") from error


def resolve_request(request: EvalRequest) -> EvalConfig:
    """Resolve the environment and the configuration; raise a `ConfigError` if options are wrong."""
    if request.team is not None and request.baseline is not None:
        raise ConfigError("--team and --baseline exclude each other: each of them is a team")
    for item in request.allow_endpoints:
        if "@" not in item:
            raise ConfigError(
                f"--allow-endpoint must look like VARIABLE@URL, as in KEY@https://host/v1, got {item!r}"
            )
    if request.checkpoint is not None and request.team is None:
        raise ConfigError("--checkpoint selects a team of a run: name the run with --team")
    path = find_config(request.config) if request.config else None
    if path is None and request.team is not None and (request.team / "config.yaml").is_file():
        path = request.team / "config.yaml"
    config = load_config(path, request.overrides)
    if request.model is not None:
        config = request.model.play(config)
    options = env_arguments(request.env_options)
    # A path of the command line is relative to the working folder, not to the configuration.
    if "source" in options:
        options["source"] = absolute_data_path(options["source"], Path.cwd())
    if request.split is not None:
        options["split"] = request.split
    if request.env is not None:
        return EvalConfig(config, request.env, options, request.allow_endpoints)
    setting = EvalConfig.from_config(config)
    return replace(
        setting,
        env_options={**setting.env_options, **options},
        allow_endpoints=request.allow_endpoints,
    )


def env_arguments(items: Sequence[str]) -> dict[str, Any]:
    """Read arguments of an environment, such as `num_turns=2`; raise a `ConfigError` for another form."""
    return parse_overrides(items, wanted="an argument of the environment must look like KEY=VALUE")


def default_folder(setting: EvalConfig, name: str) -> Path:
    """Return the folder of results, without a time, so that the same command goes on."""
    return Path(setting.config.output.base_dir) / f"{name}-{setting.env_id}".replace(":", "-")


def _entry(request: EvalRequest, setting: EvalConfig) -> TeamUnderTest:
    if request.team is None:
        return eval_teams.load_configured_team(setting)
    path = kept_teams.locate(request.team, request.checkpoint, setting.config)
    for item in request.overrides if (path / MANIFEST).is_file() else ():
        key = renamed(item.partition("=")[0])
        # A saved team has its own models, but the device is a property of this machine.
        if key.partition(".")[0] in OF_THE_TEAM and key != "model.device":
            raise ConfigError(
                f"{item!r} changes nothing: the saved team in {path} has its own models and sampling; leave it "
                f"out, or change {MANIFEST} in a copy of that folder"
            )
    return eval_teams.load_stored_team(path, setting)
