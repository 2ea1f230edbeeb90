"""The command `llm-decpomdp eval`: from its options to an evaluation and the table of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from llm_decpomdp.agents.saved_team import MANIFEST
from llm_decpomdp.algorithms.rollout import Start
from llm_decpomdp.benchmarks.config import load_config
from llm_decpomdp.benchmarks.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation import teams as eval_teams
from llm_decpomdp.benchmarks.evaluation.baselines import Contestant, Setting, contestant
from llm_decpomdp.benchmarks.evaluation.run import Evaluation, evaluate
from llm_decpomdp.benchmarks.evaluation.summary import table
from llm_decpomdp.benchmarks.failures import as_run_errors
from llm_decpomdp.benchmarks.legacy import renamed
from llm_decpomdp.benchmarks.overrides import parse_overrides
from llm_decpomdp.benchmarks.shipped import find_config

OF_THE_TEAM = ("model", "team", "policies")
"""Sections of a configuration that say what a saved team says itself, but for `model.device`."""


@dataclass(frozen=True)
class Request:
    """What a command line asks for."""

    config: str | None = None
    """Name or path of a configuration."""
    overrides: Sequence[str] = ()
    team: Path | None = None
    """The folder of a team or of a run."""
    checkpoint: str | None = None
    """Which team of a run."""
    baseline: str | None = None
    env: str | None = None
    """An environment instead of the configuration's."""
    env_options: Sequence[str] = ()
    """Arguments of the environment, such as `num_turns=2`."""
    split: str | None = None
    tasks: int | None = None
    """How many of the split's first tasks; all if none is given."""
    samples: int = 1
    k: Sequence[int] = ()
    greedy: bool = False
    seed: int = 0
    at_a_time: int = 64
    output: Path | None = None
    """The evaluation's folder."""


def run(request: Request) -> Evaluation:
    """Evaluate, and print the table.

    Raises:
        ConfigError: If an option is wrong, or two exclude each other.
        RunError: If data or models cannot be loaded, or a policy or the sandbox fails.
    """
    if request.greedy and request.samples > 1:
        raise ConfigError("greedy answers are all the same: leave out --samples or --greedy")
    setting = setting_of(request)
    with as_run_errors():
        starts = [Start(task_id=task.task_id) for task in setting.make_env().tasks.tasks]
        found = _contestant(request, setting)
        if request.greedy:
            eval_teams.make_greedy(found.team)
        result = evaluate(
            found.env,
            found.team,
            starts[: request.tasks],
            samples=request.samples,
            folder=request.output or _folder(request, setting),
            seed=request.seed,
            act=found.act,
            about={**found.about, "greedy": request.greedy},
            k=request.k,
            at_a_time=request.at_a_time,
        )
    console = Console(highlight=False)
    console.print(table(result))
    console.print(f"evaluation: {result.folder}", soft_wrap=True)
    return result


def setting_of(request: Request) -> Setting:
    """What is played, and with which configuration.

    Raises:
        ConfigError: If an option is wrong, or two exclude each other.
    """
    if request.team is not None and request.baseline is not None:
        raise ConfigError("--team and --baseline exclude each other: each is a team of its own")
    if request.checkpoint is not None and request.team is None:
        raise ConfigError("--checkpoint says which team of a run: name the run with --team")
    path = find_config(request.config) if request.config else None
    if path is None and request.team is not None and (request.team / "config.yaml").is_file():
        path = request.team / "config.yaml"
    config = load_config(path, request.overrides)
    config = replace(config, output=replace(config.output, report=False))  # nothing is drawn
    options = parse_overrides(
        request.env_options, wanted="an argument of the environment must look like KEY=VALUE"
    )
    split = {} if request.split is None else {"split": request.split}
    if request.env is not None:
        return Setting(config, request.env, {**options, **split})
    own = Setting.of(config)
    return replace(own, env_options={**own.env_options, **options, **split})


def _contestant(request: Request, setting: Setting) -> Contestant:
    if request.baseline is not None:
        return contestant(request.baseline, setting)
    if request.team is not None:
        path = eval_teams.locate(request.team, request.checkpoint, setting.config)
        if (path / MANIFEST).is_file():
            _refuse_changes(request.overrides, path)
        return eval_teams.of_folder(request.team, request.checkpoint, setting)
    return eval_teams.of_config(setting)


def _refuse_changes(overrides: Sequence[str], team: Path) -> None:
    for item in overrides:
        key = renamed(item.partition("=")[0])
        if key.partition(".")[0] in OF_THE_TEAM and key != "model.device":
            raise ConfigError(
                f"{item!r} changes nothing: the saved team in {team} has its own models and sampling; leave "
                f"it out, or change {MANIFEST} in a copy of that folder"
            )


def _folder(request: Request, setting: Setting) -> Path:
    """The same for the same team and environment, so that the same command goes on."""
    who = (
        request.baseline
        or (request.team and request.team.resolve().name)
        or (request.config and Path(request.config).stem)
    )
    place = setting.env_id.replace(":", "-")
    return Path(setting.config.output.base_dir) / f"eval-{who or 'untrained'}-{place}"
