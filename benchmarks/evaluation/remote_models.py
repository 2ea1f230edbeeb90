"""`eval --model`: models behind a server, one after the other, and one table of them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.table import Table

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.overrides import parse_overrides, plain
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.config.teams import SHARED
from llm_decpomdp.benchmarks.evaluation.folder import Evaluation
from llm_decpomdp.benchmarks.evaluation.measures import REWARD
from llm_decpomdp.benchmarks.evaluation.summary import as_text, overall

COMPARED = (REWARD, "last/solved", "pass@1", "tests_passed", "prompt_tokens", "tokens")
"""The measures of the table, as far as there are any."""

OPENAI_KEY = "OPENAI_API_KEY"


@dataclass(frozen=True)
class RemoteModel:
    """A model behind a server, which plays all agents."""

    name: str
    base_url: str | None = None
    key_variable: str | None = None
    options: Sequence[str] = ()
    """Further keys of its policy, such as `timeout=60`."""

    def play(self, config: Config) -> Config:
        """Return the configuration with this model in place of its team.

        Raises:
            ConfigError: If no server is known, or the configuration says who plays.
        """
        if config.team or config.policies:
            raise ConfigError("--model plays all agents: drop `team` and `policies`, or --model")
        key = self.key_variable or OPENAI_KEY
        if not (self.base_url or os.environ.get("OPENAI_BASE_URL") or os.environ.get(key)):
            raise ConfigError(
                f"no server for --model {self.name}: give --base-url URL, or set {key} for OpenAI's API. "
                f"A model of this machine or the hub is --override model.name={self.name}"
            )
        rule = "an option of the model must look like KEY=VALUE"
        policy: dict[str, Any] = {"kind": "endpoint", "name": self.name}
        policy |= {"base_url": self.base_url, "key_variable": key}
        policy |= plain(parse_overrides(self.options, wanted=rule))
        model = replace(config.model, shared=True)
        return replace(config, model=model, team={}, policies={SHARED: policy})

    @property
    def slug(self) -> str:
        """The name as a part of a folder's name."""
        return re.sub(r"[^A-Za-z0-9_.+-]+", "-", self.name).strip(".-") or "model"


def remote_models(
    names: Sequence[str],
    base_urls: Sequence[str],
    key_variables: Sequence[str],
    options: Sequence[str],
) -> list[RemoteModel]:
    """Read the models of a command line; an address or a key that is given once is that of all of them.

    Raises:
        ConfigError: If there are more addresses or keys than models, or equal models.
    """
    if not names and (base_urls or key_variables or options):
        raise ConfigError("--base-url, --key-variable and --model-option are about a --model NAME")
    for flag, values in (("--base-url", base_urls), ("--key-variable", key_variables)):
        if len(values) not in (0, 1, len(names)):
            raise ConfigError(
                f"{flag} is given {len(values)} times for {len(names)} models: give it once, or once for each"
            )
    models = [
        RemoteModel(name, _of(base_urls, number), _of(key_variables, number), options)
        for number, name in enumerate(names)
    ]
    slugs = [model.slug for model in models]
    for number, slug in enumerate(slugs):
        if slug in slugs[:number]:
            raise ConfigError(
                f"two models would share the folder {slug!r}: evaluate them one by one, each with --output"
            )
    return models


def _of(values: Sequence[str], number: int) -> str | None:
    return values[number if len(values) > 1 else 0] if values else None


def comparison(evaluations: Mapping[str, Evaluation]) -> Table:
    """Tabulate evaluations, a column for each, by the name of its model."""
    estimates = {name: overall(evaluation) for name, evaluation in evaluations.items()}
    first = next(iter(evaluations.values())).manifest
    tasks = f"{len(first['starts'])} tasks, {first['samples']} samples of each"
    table = Table(title=f"{first['environment']}: {tasks}", title_justify="left")
    table.add_column("measure")
    for name in estimates:
        table.add_column(name, justify="right", overflow="fold")
    refusals = dict.fromkeys(key for of in estimates.values() for key in of if "refused/" in key)
    for measure in (*COMPARED, *refusals):
        if any(
            measure in of and (of[measure].value or measure in COMPARED)
            for of in estimates.values()
        ):
            cells = [as_text(of[measure]) if measure in of else "" for of in estimates.values()]
            table.add_row(measure, *cells)
    table.add_row("failed episodes", *(str(len(e.failures)) for e in evaluations.values()))
    return table
