"""A trained team as a folder for a hub: `llm-decpomdp publish TEAM`.

```
README.md               the card
team.json, <policy>/    as `save_team` writes them
training_config.yaml    the configuration of its run
```
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.saved_team import MANIFEST, read_manifest
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError, write_folder
from llm_decpomdp.benchmarks.evaluation.experiments import (
    Experiment,
    evaluation_mean,
    experiments,
    first_moment,
    format_estimate,
    interval_units,
    last_estimate,
    mean_gain,
)
from llm_decpomdp.benchmarks.evaluation.statistics import share
from llm_decpomdp.benchmarks.evaluation.teams import locate_team
from llm_decpomdp.benchmarks.publish.cards import (
    NOT_RECORDED,
    TAGS,
    describe_origin,
    describe_sources,
    render,
)
from llm_decpomdp.benchmarks.runs.checkpoints import save_checkpoint
from llm_decpomdp.benchmarks.runs.results import read_results
from llm_decpomdp.benchmarks.runs.setup import load_stored_config
from llm_decpomdp.utils.storage import RunFolder

CONFIG = "training_config.yaml"
"""Not `config.yaml`, by which commands recognize a run."""

ADAPTER = "adapter_config.json"


def publish_team(
    source: Path,
    output: Path | None = None,
    *,
    checkpoint: str | None = None,
    seeds: Sequence[Path] = (),
    base_model: str | None = None,
    license_name: str | None = None,
    repository: str | None = None,
) -> Path:
    """Write the folder of a team for a hub. After an error no part of it is left.

    Args:
        source: A run, or a saved team.
        output: A new folder; by default `published` in the run, or beside the saved team.
        checkpoint: Which team of a run: `final`, `best` or `last`.
        seeds: Further runs of the same configuration, whose evaluations the results cover.
        base_model: The name on the hub of a base model that the run had as a local folder.
        license_name: The license of the weights, as the hub names it.
        repository: OWNER/NAME of the repository that is going to hold the team.

    Returns:
        The folder.

    Raises:
        ConfigError: If there is no team, the output exists, or others could not load an adapter's base model.
        RunError: If the team cannot be read, or the folder cannot be written.
    """
    team = locate_team(source, checkpoint)
    run = _find_run(source, team)
    for seed in seeds if run else ():
        if not (seed / "config.yaml").is_file():
            raise ConfigError(f"{seed} holds no run: --seed-run names the folder of one")
    folder = output or (run or team.parent) / "published"
    with write_folder(folder) as target:
        if (team / MANIFEST).is_file():
            shutil.copytree(team, target)
        else:
            save_checkpoint(team, load_stored_config(RunFolder(source).config), target)
        try:
            manifest = read_manifest(target)
        except (OSError, ValueError) as error:
            raise RunError(str(error)) from error
        _replace_local_paths(target, manifest, base_model, required=repository is not None)
        content = _describe_team(manifest, run, seeds, license_name, repository)
        if run is not None:
            shutil.copy(run / "config.yaml", target / CONFIG)
            content["origin"]["team"] = f"`{team.name}` of the run"
            if not (team / MANIFEST).is_file():
                content["limitations"].insert(0, CHECKPOINT_NOTE)
        card = render("team_card.jinja", **content)
        (target / "README.md").write_text(card, encoding="utf-8")
    return folder


def _find_run(source: Path, team: Path) -> Path | None:
    """Return the folder of the run of a team, `None` where it was saved elsewhere."""
    places = (source, team.parent)
    return next((p for p in places if (p / "config.yaml").is_file()), None)


def _replace_local_paths(
    folder: Path, manifest: dict[str, Any], base_model: str | None, *, required: bool
) -> None:
    """Replace paths of base models on this machine, in the manifest and in the configurations of adapters."""
    entries = [of for of in manifest["policies"].values() if of.get("base_model")]
    # Paths of configurations are made absolute, so all others are names on the hub.
    local = [of for of in entries if Path(of["base_model"]).is_absolute()]
    adapters = {of["base_model"] for of in local if of["adapter"]}
    if base_model is not None and len(adapters) != 1:
        raise ConfigError(
            f"--base-model names the one local base model of adapters; this team has {len(adapters)}: "
            f"{', '.join(sorted(adapters)) or 'leave it out'}"
        )
    if adapters and base_model is None and required:
        raise ConfigError(
            f"the adapters need {', '.join(sorted(adapters))}, which others do not have: name their base model on "
            "the hub with --base-model OWNER/NAME"
        )
    for entry in local:
        if not entry["adapter"]:
            entry["base_model"] = Path(entry["base_model"]).name
        elif base_model is not None:
            entry["base_model"] = base_model
            path = folder / entry["folder"] / ADAPTER
            config = json.loads(path.read_text(encoding="utf-8"))
            config["base_model_name_or_path"] = base_model
            path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def _describe_team(
    manifest: Mapping[str, Any],
    run: Path | None,
    seeds: Sequence[Path] = (),
    license_name: str | None = None,
    repository: str | None = None,
) -> dict[str, Any]:
    experiment = _read_experiment(run, seeds)
    record = experiment.runs[0].manifest if experiment else {}
    agents = [_describe_agent(name, manifest) for name in manifest["agents"]]
    models = [agent for agent in agents if agent["folder"] != NO_FOLDER]
    bases = {
        of["base"] for of in models if "/" in of["base"] and not Path(of["base"]).is_absolute()
    }
    needs_local = any(agent["base"] == LOCAL for agent in models)
    front = {
        **({"license": license_name} if license_name else {}),
        "library_name": "peft" if any(agent["adapter"] for agent in models) else "transformers",
        **({"base_model": sorted(bases)} if bases else {}),
        "pipeline_tag": "text-generation",
        "tags": [*TAGS],
    }
    environment = record.get("environment", "an unknown environment")
    algorithm = str(record.get("algorithm", "")).rpartition(":")[2].upper()
    commands = [
        f"llm-decpomdp train --config {CONFIG} --override output.name=reproduction output.base_dir=. "
        "output.save_path=null",
        f"llm-decpomdp eval --config {CONFIG} --team . --output evaluation",
    ]
    return {
        "front": front,
        "title": f"{algorithm or 'A team'} on {environment}",
        "agents": agents,
        "environment": environment,
        "version": manifest["versions"]["llm-decpomdp"],
        "description": {"environment": "", "algorithm": "", **record.get("description", {})},
        "repository": repository or "OWNER/NAME",
        "example": models[0] if models else None,
        "maximum": record.get("description", {}).get("reward", {}).get("maximum"),
        **_results(experiment),
        "sources": describe_sources(record),
        "license_text": f"The weights have the license `{license_name}`."
        if license_name
        else "The license of the weights is not stated. The license of the base model limits their use.",
        "origin": dict(describe_origin(record)),
        "base_models": {
            policy: f"{Path(base['name']).name}, fingerprint `{base['weights'][:16]}`"
            for policy, base in record.get("base_models", {}).items()
        },
        "packages": ", ".join(
            f"{name} {version}" for name, version in record.get("packages", {}).items() if version
        ),
        "commands": commands if experiment else [],
        "limitations": [
            *(["The adapters need a base model that was a local folder."] if needs_local else []),
            *_limitations(experiment, record),
        ],
    }


CHECKPOINT_NOTE = (
    "The team is a checkpoint of the run, and the results are those of the run's evaluations."
)

NO_FOLDER = "none"

LOCAL = "a local model"
"""Base model of adapters that the reader of a card does not have."""


def _describe_agent(name: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    entry = manifest["policies"][manifest["agents"][name]]
    adapter, base = bool(entry.get("adapter")), entry.get("base_model")
    return {
        "name": name,
        "folder": entry.get("folder", NO_FOLDER),
        "adapter": adapter,
        "holds": entry["kind"]
        if entry["kind"] != "model"
        else ("a LoRA adapter" if adapter else "all weights"),
        "base": LOCAL if base and Path(base).is_absolute() else base or NOT_RECORDED,
        "temperature": entry.get("temperature", ""),
        "max_new_tokens": entry.get("max_new_tokens", ""),
        "history": "its dialogue" if entry.get("history") == "chat" else "its last prompt",
    }


def _read_experiment(run: Path | None, seeds: Sequence[Path]) -> Experiment | None:
    """Read a run and its repetitions with other seeds as one experiment."""
    if run is None:
        if seeds:
            raise ConfigError("--seed-run needs a run: name its folder in place of the saved team")
        return None
    try:
        groups = experiments([read_results(RunFolder(path)) for path in (run, *seeds)])
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if len(groups) > 1:
        raise ConfigError(
            "the runs are no repetitions with other seeds: "
            + " and ".join(experiment.name for experiment in groups)
        )
    return groups[0]


def _results(experiment: Experiment | None) -> dict[str, Any]:
    rows: list[dict[str, str]] = []
    evaluations = experiment.runs[0].evaluations if experiment else ()
    if experiment is None or not evaluations:
        return {"results": rows, "seeds": [], "tasks": 0, "units": ""}
    for position in (0, -1) if len(evaluations) > 1 else (-1,):
        update = evaluations[position]["update"]
        name = f"after {update} updates" if update else first_moment(experiment)
        has_solved = all(
            score.solved is not None for run in experiment.runs for score in run.scores
        )
        solved = (
            last_estimate(experiment, lambda score: score.solved or 0.0, position, share)
            if has_solved
            else None
        )
        rows.append(
            {
                "name": name,
                "reward": format_estimate(evaluation_mean(experiment, position)),
                "solved": format_estimate(solved) if solved else "",
            }
        )
    if len(evaluations) > 1:
        gain = format_estimate(mean_gain(experiment), sign=True)
        rows.append({"name": "gain", "reward": gain, "solved": ""})
    last = experiment.runs[0].select_scores("eval", evaluations[-1]["update"])
    return {
        "results": rows,
        "seeds": [run.manifest.get("seed") for run in experiment.runs],
        "tasks": len({score.task for score in last}),
        "units": interval_units([experiment]),
    }


def _limitations(experiment: Experiment | None, record: Mapping[str, Any]) -> Iterator[str]:
    if experiment is None:
        yield "Nothing is known of the training and of the quality of this team."
    elif not experiment.runs[0].evaluations:
        yield "The run has no evaluation, so the quality of this team is unknown."
    else:
        if len(experiment.runs) == 1:
            yield "One run was trained. The intervals are over tasks and say nothing about other seeds."
        else:
            count, seed = len(experiment.runs), record.get("seed")
            yield f"The results are means over {count} seeds. The team is that of seed {seed}."
        gain = mean_gain(experiment)
        if (
            len(experiment.runs[0].evaluations) > 1
            and gain.low is not None
            and not gain.excludes(0.0)
        ):
            yield "The interval of the gain contains 0: training had no significant effect on the reward."
        # As `Config.to_yaml` writes it.
        if "keep_best: true" in experiment.runs[0].config_text:
            yield "The best of several evaluations was chosen by the tasks of the results, which favors it."
    if (record.get("git") or {}).get("dirty"):
        yield "The checkout of the training had uncommitted changes, so its commit alone may not reproduce it."
    yield "Agents trained together may fit only their own partners: `llm-decpomdp analyze crossplay` measures it."
    yield "Completions can be programs. Run them in a sandbox only, such as that of the environment."
