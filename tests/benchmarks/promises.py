"""What a configuration is to hold, written as overrides are."""

from __future__ import annotations

import json
from typing import Any

from llm_decpomdp.benchmarks.config.legacy import renamed
from llm_decpomdp.benchmarks.config.schema import Config, value_of


def require(config: Config, promised: str) -> None:
    """Check a configuration against items such as `env.num_turns=2 model.top_k=null`."""
    wanted = {key: _value(text) for key, _, text in (x.partition("=") for x in promised.split())}
    assert {key: value_of(config, renamed(key)) for key in wanted} == wanted


def _value(text: str) -> Any:
    """The value of an item: JSON, with a list for a tuple, or else text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return tuple(value) if isinstance(value, list) else value
