"""Which values the keys of a configuration may have: their types and ranges, checked and in words."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from llm_decpomdp.agents.models.prompting import ON_LONG_PROMPT
from llm_decpomdp.algorithms import NAMES
from llm_decpomdp.algorithms.learning.options import LOSSES, SCHEDULES, TRUNCATED
from llm_decpomdp.algorithms.rollouts.chain import HANDOFFS
from llm_decpomdp.algorithms.rollouts.joint import JOINT_MODES
from llm_decpomdp.algorithms.training.options import PLANS
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.schema import FIELDS
from llm_decpomdp.validation import unknown

TYPES = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "Any": "a whole number, text",
    "list[float]": "a list of numbers such as [1.2, 0.8]",
    "list[str]": "a list of texts",
    "dict[str, str]": "a mapping of names such as {aux_0: helper}",
    "dict[str, Any]": "a mapping such as {name: value}",
}
"""The types of the schema's fields, in words."""

COMPUTE_DTYPES = ("auto", "float32", "bfloat16")

AT_LEAST = {
    "env.num_agents": 1,
    "env.num_turns": 1,
    "env.discount": 0,
    "model.max_new_tokens": 1,
    "model.max_prompt_tokens": 1,
    "model.top_k": 1,
    "algorithm.num_train_epochs": 1,
    "algorithm.max_updates": 1,
    "algorithm.prompts_per_update": 1,
    "algorithm.num_generations": 2,
    "algorithm.learning_rate": 0,
    "algorithm.warmup_updates": 0,
    "algorithm.weight_decay": 0,
    "algorithm.updates_per_batch": 1,
    "algorithm.kl_coefficient": 0,
    "algorithm.truncation_penalty": 0,
    "algorithm.early_termination_weight": 0,
    "evaluation.every": 0,
    "evaluation.num_tasks": 0,
    "output.checkpoint_every": 0,
    "output.keep_checkpoints": 1,
    "seed": 0,
}
ABOVE = {
    "model.temperature": 0,
    "model.top_p": 0,
    "algorithm.max_grad_norm": 0,
    "algorithm.clip_range": 0,
}
AT_MOST = {"env.discount": 1, "model.top_p": 1}
BELOW = {"algorithm.clip_range": 1}
BOUNDS = {
    "at least": (AT_LEAST, operator.ge),
    "above": (ABOVE, operator.gt),
    "at most": (AT_MOST, operator.le),
    "below": (BELOW, operator.lt),
}
CHOICES: Mapping[str, Iterable[str]] = {
    "algorithm.name": NAMES,
    "algorithm.plan": PLANS,
    "algorithm.joint_mode": JOINT_MODES,
    "algorithm.handoff": HANDOFFS,
    "algorithm.loss": LOSSES,
    "algorithm.lr_schedule": SCHEDULES,
    "algorithm.truncated": TRUNCATED,
    "model.compute_dtype": COMPUTE_DTYPES,
    "model.on_long_prompt": ON_LONG_PROMPT,
}
LIMITED = frozenset({*AT_LEAST, *ABOVE, *AT_MOST, *BELOW, *CHOICES})
"""The keys whose values are checked by themselves; the rest are checked by what they are for."""


def type_in_words(annotation: str) -> str:
    """A field's type, such as `a whole number, or null` for `int | None`."""
    name, _, optional = annotation.partition(" | ")
    return TYPES[name] + (", or null" if optional or name == "Any" else "")


def type_of(key: str) -> str:
    """The type of a key's value in words."""
    return type_in_words(str(FIELDS[key].type))


def holds_text(key: str) -> bool:
    """Whether a key's value is text, or perhaps null."""
    return key in FIELDS and type_of(key).partition(",")[0] == TYPES["str"]


def check_value(rule: str, value: Any, key: str) -> None:
    """Check a value by the rules of the key `rule`.

    Args:
        rule: One of `LIMITED`, or a key without a rule.
        value: The value; `None` is always in range.
        key: What an error calls the key.

    Raises:
        ConfigError: If the value is out of range, or none of the choices.
    """
    if value is None or rule not in LIMITED:
        return
    if rule in CHOICES:
        if value not in CHOICES[rule]:
            raise ConfigError(unknown(key, value, CHOICES[rule]))
        return
    for word, (table, holds) in BOUNDS.items():
        if rule in table and not math.isfinite(value):
            raise ConfigError(f"{key} must be a finite number, got {value}")
        if rule in table and not holds(value, table[rule]):
            raise ConfigError(f"{key} must be {word} {table[rule]}, got {value}")


def in_words(key: str) -> str:
    """The range of a key's numbers, such as `above 0 and at most 1`; empty where there is none."""
    found = (f"{word} {table[key]}" for word, (table, _) in BOUNDS.items() if key in table)
    return " and ".join(found)
