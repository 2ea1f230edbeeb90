"""Generator of `docs/configuration.md`: `python -m tools.quality.config_docs`.

Type, default, range and meaning of a key come from the declaration of its option, and older spellings from
`llm_decpomdp.benchmarks.config.legacy`.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import Field, fields
from typing import Any

from llm_decpomdp.agents.loading import PolicySpec
from llm_decpomdp.agents.policy_kinds import KINDS, OWN
from llm_decpomdp.benchmarks.cli.scripts import FLAGS
from llm_decpomdp.benchmarks.config import inputs, legacy, load, teams
from llm_decpomdp.benchmarks.config.schema import ARGUMENTS, FIELDS, OWNERS, SECTIONS
from llm_decpomdp.option_texts import documentation, limits_in_words, type_in_words
from llm_decpomdp.options import default_of

COMMAND = "python -m tools.quality.config_docs > docs/configuration.md"

LONGEST_CELL = 160
"""Most characters of a cell of a table."""

EVERYDAY = (
    "env.id",
    "env.num_agents",
    "env.num_turns",
    "dataset.source",
    "dataset.train_split",
    "dataset.eval_split",
    "model.name",
    "model.temperature",
    "model.max_new_tokens",
    "model.lora",
    "algorithm.name",
    "algorithm.group_size",
    "algorithm.train_batch_size",
    "algorithm.num_train_epochs",
    "algorithm.max_updates",
    "algorithm.learning_rate",
    "algorithm.rollout.mode",
    "evaluation.every",
    "output.name",
    "seed",
)
"""Keys that most configurations set."""

INTRODUCTION = f"""\
# Configuration

<!-- Made by `{COMMAND}`: change the options, not this page. -->

A configuration is a YAML file. `llm-decpomdp train --config NAME_OR_PATH` takes one that comes with the
package or one of yours. `--override KEY=VALUE ...` sets keys for one run, and the flags of the training
scripts set a few more. Later layers win: the defaults below, the file, the overrides, the flags. A run stores
its whole configuration in its folder as `config.yaml`, which is a configuration too.

An optional feature has a section of its own, such as `algorithm.kl`. Without the section, or with `null`, it
is off. The main key of a section may stand for the section: `objective: gspo` means `objective: {{name:
gspo}}`. A key without an effect is an error, as is an unknown key or a value out of its range. The error
names the nearest key or the range, before anything is loaded. In Python the same options are those of
`LearnerOptions`, `TrainerOptions` and `PolicySpec`, with the same names, defaults and ranges.

## Everyday keys
"""

SPELLINGS = """\
## Older spellings

Files and overrides of earlier versions, and of the training scripts that this package replaces, keep their
meaning. A section that is named after an algorithm, `A` below, holds the keys of `algorithm` and some of
other sections. It sets `algorithm.name`, and `grpo` sets `env.num_agents=1`. `joint_mode` in it sets
`algorithm.rollout.mode=tree`. If a value stands twice, the one of the algorithm's section holds. A file with
such a section has the defaults of those scripts for `num_turns` (1), `temperature` (0.7) and `top_p` (0.9).
All other keys have the defaults above. Those scripts had others for these: `early_termination_threshold` 4.0
(2.1 for one agent), `top_k` 50, `original_prompt` true, and an evaluation of 4 problems every 4 updates.
"""

NAMES = """\
## Configurations that come with the package

Hyperparameters are those of their authors. Comments at the top of a file say which ones differ, and call
"ours" what the authors do not have. Names of HumanEval and CoopHumanEval without a date are as of September
2025. The plain files for TLDR and arXiv are as of August 2025, those for MBPP and ClassEval as of January
2026.
"""


def page() -> str:
    """Return the whole page."""
    keys = (key for key in FIELDS if "." not in key)
    parts = [
        INTRODUCTION,
        _everyday(),
        *map(_section, SECTIONS),
        "## Keys of no section\n",
        _keys(keys),
    ]
    about = inspect.cleandoc(inputs.__doc__ or "").partition("\n\n")[2]
    parts += ["## Values of overrides\n", about, "", _policies()]
    return "\n".join([*parts, SPELLINGS, _spellings(), NAMES, _names()])


def _everyday() -> str:
    rows = (
        (
            f"[`{key}`]({anchor(key)})",
            _type(*OWNERS[key]),
            _default(FIELDS[key], key),
            _summary(key),
        )
        for key in EVERYDAY
    )
    return _table(("key", "values", "default", "meaning"), rows)


def _summary(key: str) -> str:
    """Return the first sentence of a key's meaning, without parentheses, cut at a clause if it is long."""
    text = re.sub(r" \([^)]*\)", "", re.split(r"(?<=[^.][.;]) ", _meaning(key))[0]).rstrip(".;")
    while len(text) > LONGEST_CELL - 1:
        text = text.rpartition(",")[0]
    return f"{text}."


def _meaning(key: str) -> str:
    owner, name = OWNERS[key]
    return " ".join(document(owner).get(name, "").split())


def document(owner: type) -> dict[str, str]:
    """Return the texts below the fields of a dataclass, by the field's name, with the null of YAML."""
    return {name: text.replace("`None`", "`null`") for name, text in documentation(owner).items()}


def _section(name: str) -> str:
    keys = [key for key in FIELDS if key.rpartition(".")[0] == name]
    about = (inspect.getdoc(OWNERS[keys[0]][0]) or "").partition("\n\n")[0]
    level = "##" + "#" * name.count(".")
    return f"{level} `{name}`\n\n{about}\n\n{_keys(keys)}"


def _keys(keys: Iterable[str]) -> str:
    """Return a heading for each key, which links and the search of the site find."""
    lines = (
        f"#### `{key}`\n\n{_capitalized(_type(*OWNERS[key]))}; default {_default(FIELDS[key], key)}. "
        f"{_meaning(key)}\n"
        for key in keys
    )
    return "\n".join(lines)


def find_anchors() -> dict[str, str]:
    """Return the link within the page to each key and section, by its name."""
    return {name: anchor(name) for name in (*SECTIONS, *FIELDS) if "." in name}


def anchor(key: str) -> str:
    """Return the link within the page to a key; the site and a forge make the same anchor of its heading."""
    return f"#{key.replace('.', '')}"


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _policies() -> str:
    about, kinds = document(PolicySpec), {**KINDS, "module:NAME": OWN}
    lines = []
    for field in fields(PolicySpec):
        key = f"model.{field.name}"
        of = ", ".join(f"`{kind}`" for kind, keys in kinds.items() if field.name in keys)
        if key in FIELDS:
            differs = limits_in_words(field) != limits_in_words(FIELDS[key])
            of += f"; {_type(PolicySpec, field.name)}" * differs
            lines.append(f"* `{field.name}` (of {of}). See `{key}`.\n")
        elif of:
            text = " ".join(about[field.name].split())
            kind = f"{_type(PolicySpec, field.name)}; default {_default(field)}"
            lines.append(f"* `{field.name}` (of {of}; {kind}). {text}\n")
    intro = inspect.cleandoc(str(teams.__doc__)).partition("\n")[2].strip()
    meanings = (inspect.getdoc(PolicySpec) or "").split("\n\n")[1]
    return f"## Policies of a team\n\n{intro}\n\n{meanings}\n\n{''.join(lines)}"


def _spellings() -> str:
    old = {f"A.{key}": new for key, new in legacy.SECTION_KEYS.items()} | legacy.ROOT_KEYS
    old |= {f"--{flag}": key for flag, key in FLAGS.items()} | legacy.FLAT_KEYS
    keys = _table(("older", "here"), ((f"`{a}`", f"`{b}`") for a, b in old.items()))
    sections = ", ".join(f"`{name}`" for name in legacy.ALGORITHM_SECTIONS)
    values = [(f"`{key}={a}`", f"`{key}={b}`") for (key, a), b in legacy.VALUES.items()]
    values += [
        (f"`dataset.type` or `.name` with `{a}`", f"`env.id={b}`")
        for a, b in legacy.ENVIRONMENTS.items()
    ]
    values.append(("the section `wandb`", "`output.trackers.wandb`"))
    gone = "".join(f"* `{key}`: {advice}.\n" for key, advice in legacy.GONE.items())
    return (
        f"`A` is one of {sections}.\n\n{keys}\n{_table(('older', 'here'), values)}\n"
        f"These keys are refused, those of `algorithm` in `A` too:\n\n{gone}"
    )


def _names() -> str:
    aliases: dict[str, list[str]] = {name: [] for name in load.shipped()}
    for name in legacy.OTHER_NAMES:
        aliases[load.find_config(name).stem].append(f"`{name}`")
    rows = (
        (f"`{name}`", ", ".join(aliases[name]), load.description(path))
        for name, path in load.shipped().items()
    )
    folders = (f"`{folder}/NAME.yaml` means `NAME{era}`" for folder, era in legacy.ERAS.items())
    fallback = (
        f"Where there are no such files, {', and '.join(folders)} if there is one, else `NAME`."
    )
    return f"{_table(('name', 'also called', 'what it is'), rows)}\n{fallback}\n"


def _type(owner: type[Any], name: str) -> str:
    """Return the type of a field and its range, with the texts that it may be."""
    field, words = owner.__dataclass_fields__[name], type_in_words(owner, name)
    if choices := field.metadata.get("choices"):
        return words.replace("text", ", ".join(f"`{choice}`" for choice in choices))
    # The range stands between the type and its alternative, such as "above 0, or none".
    name, _, rest = words.partition(", or")
    return " ".join(filter(None, (name, limits_in_words(field)))) + (rest and f", or{rest}")


def _default(field: Field[Any], key: str = "") -> str:
    if key in ARGUMENTS:
        return "the environment's"
    value = default_of(field)
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in lines
    )


if __name__ == "__main__":
    sys.stdout.write(page())
