"""The command `llm-decpomdp crossplay`: from the folders of runs to the matrices of their mixed teams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.table import Table

from llm_decpomdp.agents.saved_team import MANIFEST, declaration
from llm_decpomdp.agents.specs import PolicySpec
from llm_decpomdp.agents.team import load_team
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.cli.evaluate import Request, setting_of
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.cooperation.crossplay import CrossPlay, cross_play
from llm_decpomdp.benchmarks.evaluation import teams as eval_teams
from llm_decpomdp.benchmarks.evaluation.baselines import Setting
from llm_decpomdp.benchmarks.evaluation.summary import as_text
from llm_decpomdp.benchmarks.runs import kept_teams
from llm_decpomdp.benchmarks.runs.failures import as_run_errors
from llm_decpomdp.policy import Team


def run(runs: Sequence[Path], request: Request, agent: str | None = None) -> CrossPlay:
    """Let the agents of several runs play together, and print the matrices.

    Args:
        runs: Folders of runs or saved teams.
        request: What they play, as in `llm-decpomdp eval`; by default what the first run was evaluated on.
        agent: Who comes from the column's run; the last agent if none is named.

    Raises:
        ConfigError: If an option is wrong, or a folder holds no team that fits.
        RunError: If data or models cannot be loaded, or a policy or the sandbox fails.
    """
    _check(runs, request)
    setting = setting_of(replace(request, team=runs[0]))
    names = names_of(runs)
    with as_run_errors():
        env = setting.env
        starts = [Start(task_id=task.task_id) for task in env.tasks.tasks]
        paths = {name: _locate(runs[i], request.checkpoint) for i, name in enumerate(names)}
        for one in runs:
            kept_teams.warn_of_other_data(one, env)
        loaded = load_teams(paths, setting)
        if request.greedy:
            for team in loaded.values():
                eval_teams.make_greedy(team)
        folder = request.output or _folder(names, setting)
        about = {
            name: {**kept_teams.kept(path), "greedy": request.greedy}
            for name, path in paths.items()
        }
        found = cross_play(
            env,
            loaded,
            starts[: request.tasks],
            folder=folder,
            agent=agent,
            samples=request.samples,
            seed=request.seed,
            at_a_time=request.at_a_time,
            about=about,
        )
    console = Console(highlight=False)
    for measure in found.matrices:
        console.print(table(found, measure))
    console.print(f"cross-play: {folder}", soft_wrap=True)
    return found


def _check(runs: Sequence[Path], request: Request) -> None:
    if len(runs) < 2:
        raise ConfigError("cross-play needs the folders of two runs at least")
    if request.greedy and request.samples > 1:
        raise ConfigError("greedy answers are all the same: leave out --samples or --greedy")


def load_teams(paths: Mapping[str, Path], setting: Setting) -> dict[str, Team]:
    """The teams in some folders of saved teams and checkpoints.

    All saved teams are loaded as one, so that adapters on one base share it, whichever run they are from. A team
    from a checkpoint is loaded by its run's configuration, with a base of its own.

    Raises:
        ConfigError: If a checkpoint does not fit its configuration.
        RunError: If a model cannot be loaded.
    """
    agents: dict[str, str] = {}
    policies: dict[str, PolicySpec] = {}
    found: dict[str, Team] = {}
    names: dict[str, Mapping[str, str]] = {}
    try:
        for number, (name, path) in enumerate(paths.items()):
            if not (path / MANIFEST).is_file():
                config = load_config(path.parents[1] / "config.yaml")
                config = replace(config, output=replace(config.output, report=False))
                found[name] = teams.load(config, [setting.env])
                kept_teams.restore(found[name], path)
                continue
            names[name], specs = declaration(path, device=setting.config.model.device)
            agents |= {f"{name}/{one}": f"{number}_{policy}" for one, policy in names[name].items()}
            policies |= {f"{number}_{policy}": spec for policy, spec in specs.items()}
        together = load_team(agents, policies, seed=setting.config.seed) if agents else {}
    except (OSError, ImportError, TypeError) as error:
        raise RunError(f"cannot load the teams: {error}") from error
    found |= {name: {one: together[f"{name}/{one}"] for one in of} for name, of in names.items()}
    return {name: found[name] for name in paths}


def _locate(folder: Path, checkpoint: str | None) -> Path:
    file = folder / "config.yaml"
    return kept_teams.locate(folder, checkpoint, load_config(file if file.is_file() else None))


def names_of(runs: Sequence[Path]) -> list[str]:
    """The names of the folders, or of those around them where all are called alike, as the trainings of a
    suite are; names that are there already get a number."""
    folders = [run.resolve() for run in runs]
    while len({folder.name for folder in folders}) == 1 < len(set(folders)):
        folders = [folder.parent for folder in folders]
    names: list[str] = []
    for name in (folder.name for folder in folders):
        numbered = (f"{name}-{number}" for number in count(2))
        names.append(name if name not in names else next(n for n in numbered if n not in names))
    return names


def _folder(names: Sequence[str], setting: Setting) -> Path:
    """The same for the same runs and environment, so that the same command goes on."""
    who, place = "-".join(names), setting.env_id.replace(":", "-")
    return Path(setting.config.output.base_dir) / f"crossplay-{who}-{place}"


def table(found: CrossPlay, measure: str) -> Table:
    """A matrix for a terminal."""
    of = found.matrices[measure]
    shown = Table(
        f"others \\ {found.agent}",
        *found.teams,
        title=f"{measure}: {found.agent} from the column's run",
    )
    for row, columns in of.cells.items():
        shown.add_row(row, *map(as_text, columns.values()))
    shown.caption = (
        f"self-play {as_text(of.self_play)}; cross-play {as_text(of.cross_play)}; cross-play minus self-play "
        f"{as_text(of.difference)}"
    )
    return shown
