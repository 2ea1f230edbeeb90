"""Generator of `docs/configuration.md`: `python -m tools.quality.config_docs`.

Type, default, range and meaning of a key stand where its option is declared, its older spellings in
`llm_decpomdp.benchmarks.config.legacy`; this module only arranges them.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from typing import Any

from llm_decpomdp.agents.specs import KINDS, OWN, PolicySpec
from llm_decpomdp.benchmarks.cli.scripts import FLAGS
from llm_decpomdp.benchmarks.config import catalogue as shipped
from llm_decpomdp.benchmarks.config import legacy, overrides, teams
from llm_decpomdp.benchmarks.config.defaults import ARGUMENTS
from llm_decpomdp.benchmarks.config.schema import FIELDS, OWNERS, ROOT_KEYS, SECTIONS, Config
from llm_decpomdp.options import documentation, limits_in_words, type_in_words

COMMAND = "python -m tools.quality.config_docs > docs/configuration.md"

INTRODUCTION = f"""\
# Configuration

<!-- Made by `{COMMAND}`: change the options, not this page. -->

A configuration is a YAML file. `llm-decpomdp train --config NAME_OR_PATH` takes one that comes with the package
or one of yours; `--override KEY=VALUE ...` sets keys for one run, and the flags of the training scripts set a few
more. Later layers win: the defaults below, the file, the overrides, the flags. What a run was made with stands in
full in its folder's `config.yaml`, which is a configuration too.

Where the default is "its own", it is the environment's: a configuration that leaves the key out plays what
`llm_decpomdp.make(ID)` plays.

A key that is unknown, and a value of another type or out of its range, ends the command before anything is loaded,
with the nearest key or the range in the error. Options of learners, trainers and models are those of Python's
`LearnerOptions`, `TrainerOptions` and `PolicySpec`, with the same defaults and ranges.
"""

SPELLINGS = """\
## Older spellings

Files and overrides of the training scripts that this package replaces keep their meaning. A section that is named
after an algorithm, `A` below, holds the keys of `algorithm` and some of other sections; it sets `algorithm.name`,
`grpo` also `env.num_agents=1`, and `joint_mode` in it `algorithm.plan=tree`. Where a value stands twice, that of
the algorithm's section holds. What a file with such a section leaves out is as in the replaced scripts for
`num_turns` (1), `temperature` (0.7) and `top_p` (0.9). Other keys take the defaults above, where those scripts
had others: `early_termination_threshold` 4.0 (2.1 for one agent), `top_k` 50, `original_prompt` true, and an
evaluation of 4 problems every 4 updates.
"""

NAMES = """\
## Configurations that come with the package

Hyperparameters are those of their authors; where one differs, comments at the top of the file say so, and call
"ours" what the authors do not have. Of HumanEval and CoopHumanEval, names without a date are as of September 2025.
The plain files for TLDR and arXiv are as of August 2025, those for MBPP and ClassEval as of January 2026.
"""


def page() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION, _overrides(), *map(_section, SECTIONS), _root()]
    parts += [_teams(), _policies(), SPELLINGS, _spellings(), NAMES, _names()]
    return "\n".join(parts)


def _teams() -> str:
    """Return the docstring of `llm_decpomdp.benchmarks.config.teams`, but for its first line."""
    return f"## Policies\n\n{inspect.cleandoc(str(teams.__doc__)).partition(chr(10))[2].strip()}\n"


def document(owner: type) -> dict[str, str]:
    """Return the texts below the fields of a dataclass, by the field's name, with the null of YAML."""
    return {name: text.replace("`None`", "`null`") for name, text in documentation(owner).items()}


def _overrides() -> str:
    """Return the part about values of the docstring of `overrides`; it is Markdown."""
    _, _, about = inspect.cleandoc(overrides.__doc__ or "").partition("\n\n")
    return f"## Values of overrides\n\n{about}\n"


def _section(name: str) -> str:
    owner: Any = Config.__dataclass_fields__[name].default_factory
    keys = (f"{name}.{field.name}" for field in fields(owner))
    return f"## `{name}`\n\n{inspect.getdoc(owner)}\n\n{_keys(keys, document(owner))}"


def _root() -> str:
    return f"## Keys of no section\n\n{_keys(ROOT_KEYS, document(Config))}"


def _keys(keys: Iterable[str], about: dict[str, str]) -> str:
    rows = (
        (f"`{key}`", _type(*OWNERS[key]), _default(FIELDS[key], key), about[FIELDS[key].name])
        for key in keys
    )
    return _table(("key", "type", "default", "meaning"), rows)


def _policies() -> str:
    about = document(PolicySpec)
    kinds = {**KINDS, "module:NAME": OWN}
    rows = []
    for field in fields(PolicySpec):
        key = f"model.{field.name}"
        of = ", ".join(f"`{kind}`" for kind, keys in kinds.items() if field.name in keys)
        if key in FIELDS:
            rows.append((f"`{field.name}`", of, _type(*OWNERS[key]), f"`{key}`", f"As `{key}`."))
        elif of:
            rows.append(
                (
                    f"`{field.name}`",
                    of,
                    _type(PolicySpec, field.name),
                    _default(field),
                    about[field.name],
                )
            )
    meanings = (inspect.getdoc(PolicySpec) or "").split("\n\n")[1]
    return f"{meanings}\n\n{_table(('key', 'kinds', 'type', 'default', 'meaning'), rows)}"


def _spellings() -> str:
    old = {f"A.{key}": new for key, new in legacy.SECTION_KEYS.items()} | legacy.ROOT_KEYS
    old |= {f"--{flag}": key for flag, key in FLAGS.items()}
    keys = _table(("older", "here"), ((f"`{a}`", f"`{b}`") for a, b in old.items()))
    sections = ", ".join(f"`{name}`" for name in legacy.ALGORITHM_SECTIONS)
    values = [(f"`{key}={a}`", f"`{key}={b}`") for (key, a), b in legacy.VALUES.items()]
    values += [
        (f"`dataset.type` or `.name` with `{a}`", f"`env.id={b}`")
        for a, b in legacy.ENVIRONMENTS.items()
    ]
    values.append(("the section `wandb`", "`output.trackers.wandb`"))
    obsolete = ((f"`{key}`", advice) for key, advice in legacy.GONE.items())
    return (
        f"`A` is one of {sections}.\n\n{keys}\n{_table(('older', 'here'), values)}\n"
        f"These keys are refused, those of `algorithm` in `A` too:\n\n{_table(('older', 'instead'), obsolete)}"
    )


def _names() -> str:
    aliases: dict[str, list[str]] = {name: [] for name in shipped.shipped()}
    for name in shipped.OTHER_NAMES:
        aliases[shipped.find_config(name).stem].append(f"`{name}`")
    rows = (
        (f"`{name}`", ", ".join(aliases[name]), shipped.description(path))
        for name, path in shipped.shipped().items()
    )
    folders = (f"`{folder}/NAME.yaml` means `NAME{era}`" for folder, era in shipped.ERAS.items())
    fallback = (
        f"Where there are no such files, {', and '.join(folders)} if there is one, else `NAME`."
    )
    return f"{_table(('name', 'also called', 'what it is'), rows)}\n{fallback}\n"


def _type(owner: type[Any], name: str) -> str:
    """Return the type of a field and its range."""
    field = owner.__dataclass_fields__[name]
    if choices := field.metadata.get("choices"):
        return ", ".join(f"`{choice}`" for choice in choices)
    name, _, rest = type_in_words(owner, name).partition(", or")
    return " ".join(filter(None, (name, limits_in_words(field)))) + (rest and f", or{rest}")


def _default(field: Field[Any], key: str = "") -> str:
    if key in ARGUMENTS:
        return "its own"
    value = field.default_factory() if field.default_factory is not MISSING else field.default
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in lines)


def _cell(text: str) -> str:
    """Join the lines of a text; paragraphs stay apart."""
    paragraphs = text.replace("|", "\\|").split("\n\n")
    return "<br><br>".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


if __name__ == "__main__":
    sys.stdout.write(page())
