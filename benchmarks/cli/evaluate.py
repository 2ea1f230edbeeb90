"""The command `llm-decpomdp eval`: from its options to an evaluation and the table of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from llm_decpomdp.agents.saved_team import MANIFEST
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.config.catalogue import find_config
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.legacy import renamed
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.config.overrides import parse_overrides
from llm_decpomdp.benchmarks.config.places import data_place
from llm_decpomdp.benchmarks.evaluation import teams as eval_teams
from llm_decpomdp.benchmarks.evaluation.baselines import Contestant, Setting, contestant
from llm_decpomdp.benchmarks.evaluation.remote_models import RemoteModel, comparison
from llm_decpomdp.benchmarks.evaluation.run import Evaluation, evaluate
from llm_decpomdp.benchmarks.evaluation.summary import table
from llm_decpomdp.benchmarks.runs import kept_teams
from llm_decpomdp.benchmarks.runs.failures import as_run_errors
from llm_decpomdp.utils.storage import read_json_lines

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
    model: RemoteModel | None = None
    """A model behind a server, in place of the configuration's team."""
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
    on_error: str = "raise"
    output: Path | None = None
    """The evaluation's folder."""


def run(request: Request, models: Sequence[RemoteModel] = ()) -> list[Evaluation]:
    """Evaluate, and print the table.

    Args:
        request: What is asked for.
        models: Models behind a server: each is evaluated, and of several there is one table.

    Raises:
        ConfigError: If an option is wrong, or two exclude each other.
        RunError: If data or models cannot be loaded, or a policy or the sandbox fails.
        KeyboardInterrupt: After Ctrl-C; says how to go on.
    """
    if not models:
        found = {"": evaluated(request)}
    else:
        requests = [_of_model(request, model, len(models) > 1) for model in models]
        found = {one.model.name: evaluated(one) for one in requests if one.model is not None}
    console = Console(highlight=False)
    first = next(iter(found.values()))
    console.print(table(first) if len(found) == 1 else comparison(found))
    for one in found.values():
        if one.failures:
            wanted = one.episodes + len(one.failures)
            console.print(
                f"{len(one.failures)} of {wanted} episodes failed and count in no measure, such as: "
                f"{one.failures[0]}. The same command tries them again",
                soft_wrap=True,
            )
        console.print(f"evaluation: {one.folder}", soft_wrap=True)
    return list(found.values())


def _of_model(request: Request, model: RemoteModel, several: bool) -> Request:
    """A request for one of the models; each of several has a folder of its own in that of `--output`."""
    if request.team is not None or request.baseline is not None:
        raise ConfigError(
            "--model excludes --team and --baseline: each says who plays. Baselines play the configuration's model"
        )
    output = request.output / model.slug if request.output and several else request.output
    return replace(request, model=model, output=output)


def evaluated(request: Request) -> Evaluation:
    """What one team has achieved; errors as in `run`."""
    if request.greedy and request.samples > 1:
        raise ConfigError("greedy answers are all the same: leave out --samples or --greedy")
    setting = setting_of(request)
    folder = request.output or _folder(request, setting)
    with as_run_errors():
        env = setting.env
        starts = [Start(task_id=task.task_id) for task in env.tasks.tasks][: request.tasks]
        found = _contestant(request, setting)
        if request.team is not None:
            kept_teams.warn_of_other_data(request.team, env)
        if request.greedy:
            eval_teams.make_greedy(found.team)
    with _going_on(folder, len(starts) * request.samples), as_run_errors():
        return evaluate(
            found.env,
            found.team,
            starts,
            samples=request.samples,
            folder=folder,
            seed=request.seed,
            act=found.act,
            about={**found.about, "greedy": request.greedy},
            k=request.k,
            at_a_time=request.at_a_time,
            on_error=request.on_error,
        )


@contextmanager
def _going_on(folder: Path, wanted: int) -> Iterator[None]:
    """Let what ends an evaluation say how to go on, if there is something to keep."""

    def kept() -> str:
        rows = sum(1 for _ in read_json_lines(folder / "episodes.jsonl"))
        return f"run the same command again: {rows} of {wanted} episodes are kept" if rows else ""

    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(kept()) from None
    except RunError as error:
        if not kept():
            raise
        raise RunError(f"{error}. To go on, {kept()}") from error


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
    if request.model is not None:
        config = request.model.play(config)
    options = parse_overrides(
        request.env_options, wanted="an argument of the environment must look like KEY=VALUE"
    )
    if "source" in options:
        options["source"] = data_place(options["source"], Path.cwd())
    split = {} if request.split is None else {"split": request.split}
    if request.env is not None:
        return Setting(config, request.env, {**options, **split})
    own = Setting.of(config)
    return replace(own, env_options={**own.env_options, **options, **split})


def _contestant(request: Request, setting: Setting) -> Contestant:
    if request.baseline is not None:
        return contestant(request.baseline, setting)
    if request.team is not None:
        path = kept_teams.locate(request.team, request.checkpoint, setting.config)
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
        (request.model and request.model.slug)
        or request.baseline
        or (request.team and request.team.resolve().name)
        or (request.config and Path(request.config).stem)
    )
    place = setting.env_id.replace(":", "-")
    return Path(setting.config.output.base_dir) / f"eval-{who or 'untrained'}-{place}"
