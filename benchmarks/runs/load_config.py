"""Configurations that are read and checked, without loading data or models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_decpomdp.benchmarks.config.errors import raise_config_errors
from llm_decpomdp.benchmarks.config.load import read_config, read_tree
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs.setup import declare_run

ASKS_OUTSIDE = "expert_edits"
"""Mode whose prompts another model writes."""

# Looking at a stored run must not need the key of the expert's server.
NOBODY_ASKED = {
    "external.mode": "plain",
    "external.expert_model": None,
    "external.expert_base_url": None,
}


def load_config(
    path: Path | None = None,
    overrides: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> Config:
    """Read a configuration and check it, without loading data or models; as `read_config` and `validate`."""
    return validate(read_config(path, overrides, flags, defaults, folder))


def load_stored_config(path: Path) -> Config:
    """Load the configuration of a run to look at its episodes: no expert is asked, and no key needed for one."""
    return load_config(path, flags=NOBODY_ASKED if asks_outside(path) else None)


def asks_outside(path: Path) -> bool:
    """Check whether another model wrote prompts of a run: those cannot be written again."""
    external = read_tree(path).get("external")
    return isinstance(external, Mapping) and external.get("mode") == ASKS_OUTSIDE


def validate(config: Config) -> Config:
    """Check how sections fit together, loading nothing; return the configuration with its environment's sizes."""
    with raise_config_errors():
        config.make_train_env()  # it alone sees `train_split`, which it may refuse
        env = config.make_eval_env()
    return declare_run(config, env).config
