"""Evaluations as logs of Inspect, for its viewer: `inspect view --log-dir FOLDER`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.runs.results import Row, data_sets, stored_rows, task_name
from llm_decpomdp.utils.extras import how_to_get, installed
from llm_decpomdp.utils.storage import RunFolder

REWARD = "reward"


def write_inspect_logs(run: Path, folder: Path) -> dict[str, int]:
    """Write a log for each evaluation of a run, or of an evaluation's folder, with Inspect's own writer.

    Args:
        run: The folder with `episodes.jsonl`.
        folder: An existing folder for the logs.

    Returns:
        The number of samples by log.

    Raises:
        ConfigError: If no evaluation is stored.
        RunError: If Inspect is not installed.
    """
    if installed("inspect-ai") is None:
        raise RunError(
            f"Inspect writes its logs itself, and is not installed: {how_to_get('inspect')}"
        )
    from inspect_ai.log import write_eval_log

    updates = {
        row["update"]: 0 for _, row in stored_rows(run / "episodes.jsonl") if _is_evaluation(row)
    }
    if not updates:
        raise ConfigError(f"{run} has no evaluations, and logs of Inspect are of these alone")
    manifest = RunFolder(run).read_manifest() if (run / "manifest.json").is_file() else {}
    names = {}
    for update in updates:
        log = _log(run, manifest, update)
        path = folder / f"update-{update:05d}.eval"
        write_eval_log(log, str(path))
        names[path.name] = len(log.samples)
    return names


def _is_evaluation(row: Row) -> bool:
    return bool(row["phase"] == "eval")


def _log(run: Path, manifest: Mapping[str, Any], update: int) -> Any:
    from inspect_ai.log import (
        EvalConfig,
        EvalDataset,
        EvalLog,
        EvalMetric,
        EvalResults,
        EvalScore,
        EvalSpec,
        EvalStats,
    )

    # Inspect accepts no log without a date.
    created = str(manifest.get("created", "2000-01-01T00:00:00+00:00"))
    environment = str(manifest.get("environment", "environment"))
    rows = (row for _, row in stored_rows(run / "episodes.jsonl") if _is_evaluation(row))
    samples = [_sample(row) for row in rows if row["update"] == update]
    data = next((of for _, of in data_sets(manifest)), {})
    scores = [
        EvalScore(
            name=name,
            scorer=name,
            metrics={
                "mean": EvalMetric(
                    name="mean",
                    value=fmean(s.scores[name].value for s in samples if name in s.scores),
                )
            },
        )
        for name in dict.fromkeys(name for sample in samples for name in sample.scores)
    ]
    return EvalLog(
        status="success",
        eval=EvalSpec(
            created=created,
            task=f"{environment}, {run.name}, after update {update}",
            dataset=EvalDataset(name=str(data.get("name", environment)), samples=len(samples)),
            model=f"llm_decpomdp/{manifest.get('model', 'team')}",
            config=EvalConfig(epochs=max(sample.epoch for sample in samples)),
            metadata={k: manifest[k] for k in ("algorithm", "seed", "data") if k in manifest},
        ),
        results=EvalResults(
            total_samples=len(samples), completed_samples=len(samples), scores=scores
        ),
        # Runs do not store when an evaluation began; without times the viewer shows no number.
        stats=EvalStats(started_at=created, completed_at=created),
        samples=samples,
    )


def _sample(row: Row) -> Any:
    """Return an episode as a sample: the messages of all agents in the order of play, and its scores."""
    from inspect_ai.log import EvalSample
    from inspect_ai.scorer import Score

    groups = row["groups"]
    values = {REWARD: fmean(fmean(group["rewards"]) for group in groups)}
    for key in groups[-1]["infos"][0] if groups[-1]["infos"] else ():
        if key == "solved" or key.startswith("reward/"):
            values[key] = fmean(fmean(info[key] for info in group["infos"]) for group in groups)
    messages = [message for group in groups for message in _messages(group)]
    return EvalSample(
        id=task_name(row),
        epoch=row.get("sample", 0) + 1,  # Inspect counts from 1
        input="\n\n".join(f"[{agent}]\n{text}" for agent, text in groups[0]["prompts"].items()),
        target="",
        messages=messages,
        scores={name: Score(value=float(value)) for name, value in values.items()},
        metadata={"turns": 1 + groups[-1]["turn"], "start": row["start"]},
    )


def _messages(group: Row) -> Iterator[Any]:
    """Yield the prompt and the answer of each agent in a group, of the joint sample that goes on."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser

    joint = group["joint"][group["chosen"] or 0]
    for (agent, texts), number in zip(group["completions"].items(), joint, strict=True):
        about = {"agent": agent, "turn": group["turn"] + 1}
        prompt = f"[{agent}]\n{group['prompts'][agent]}"
        yield ChatMessageUser(content=prompt, metadata=about)
        yield ChatMessageAssistant(content=texts[number], model=agent, metadata=about)
