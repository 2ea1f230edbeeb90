"""The teams of a cross-play, loaded from the folders of runs and saved teams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from llm_decpomdp.agents.loading import load_team
from llm_decpomdp.agents.saved_team import MANIFEST, check_trust, declaration
from llm_decpomdp.agents.specs import PolicySpec
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import RunError
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.evaluation.baselines import Setting
from llm_decpomdp.benchmarks.runs import checkpoints as kept_teams
from llm_decpomdp.policy import Team


def load_teams(paths: Mapping[str, Path], setting: Setting) -> dict[str, Team]:
    """Load the teams of some folders of saved teams and checkpoints.

    All saved teams are loaded as one, so that adapters on one base share it, whichever run they are from. A team
    from a checkpoint is loaded by its run's configuration, with a base of its own.

    Raises:
        ConfigError: If a checkpoint does not fit its configuration.
        RunError: If a model cannot be loaded.
    """
    agents: dict[str, str] = {}
    policies: dict[str, PolicySpec] = {}
    checkpoints: dict[str, Team] = {}
    roles: dict[str, Mapping[str, str]] = {}
    try:
        for number, (name, path) in enumerate(paths.items()):
            if not (path / MANIFEST).is_file():
                config = load_config(path.parents[1] / "config.yaml")
                config = replace(config, output=replace(config.output, report=False))
                checkpoints[name] = teams.load(config, [setting.env])
                kept_teams.restore(checkpoints[name], path)
                continue
            roles[name], specs = declaration(path, device=setting.config.model.device)
            run = path.with_name("config.yaml")
            trusted = load_config(run) if run.is_file() else setting.config
            endpoints = (*setting.allow_endpoints, *teams.endpoints_of(trusted))
            check_trust(path, specs, teams.code_of(trusted), endpoints)
            agents |= {f"{name}/{a}": f"{number}_{policy}" for a, policy in roles[name].items()}
            policies |= {f"{number}_{policy}": spec for policy, spec in specs.items()}
        together = load_team(agents, policies, seed=setting.config.seed) if agents else {}
    except (OSError, ImportError, TypeError) as error:
        raise RunError(f"cannot load the teams: {error}") from error
    from_saved = {name: {a: together[f"{name}/{a}"] for a in of} for name, of in roles.items()}
    return {name: checkpoints.get(name) or from_saved[name] for name in paths}


def locate(folder: Path, checkpoint: str | None) -> Path:
    """Return the folder of a saved team, or of a checkpoint of a run."""
    file = folder / "config.yaml"
    return kept_teams.locate(folder, checkpoint, load_config(file if file.is_file() else None))


def names_of(runs: Sequence[Path]) -> list[str]:
    """Return a name for each folder: its own, or that of the folder around it where all have one name.

    The trainings of a suite have one name. Names that are there already get a number.
    """
    folders = [run.resolve() for run in runs]
    while len({folder.name for folder in folders}) == 1 < len(set(folders)):
        folders = [folder.parent for folder in folders]
    names: list[str] = []
    for name in (folder.name for folder in folders):
        numbered = (f"{name}-{number}" for number in count(2))
        names.append(name if name not in names else next(n for n in numbered if n not in names))
    return names
