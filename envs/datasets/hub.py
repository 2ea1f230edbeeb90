"""Data sets on the Hugging Face hub: a probe, and their rows, with the commit that they are of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_decpomdp.utils.hub import hub_reachable


def hub_has(repository: str) -> bool:
    """Return True if the hub answers for this data set now, or it is a local folder."""
    return Path(repository).is_dir() or hub_reachable(f"/api/datasets/{repository}")


def hub_rows(
    repository: str, config: str | None, split: str, revision: str
) -> tuple[list[Mapping[str, Any]], str]:
    """Return the rows of a data set, and the commit that they are of.

    Args:
        repository: Its name on the hub, or a local folder in the hub's format, which has no commits.
        config: One of its configurations.
        split: A split, or several joined by `+`.
        revision: A commit, tag or branch; what a branch is now is looked up once, so that rows and commit agree.

    Raises:
        OSError: If the hub does not give it.
        ValueError: If there is no such configuration or split.
    """
    from datasets import load_dataset

    if Path(repository).is_dir():
        return list(load_dataset(repository, config, split=split)), ""
    from huggingface_hub import HfApi

    commit = str(HfApi().dataset_info(repository, revision=revision).sha)
    return list(load_dataset(repository, config, split=split, revision=commit)), commit
