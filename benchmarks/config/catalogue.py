"""Configurations that come with the package, found by name or path.

Two names may mean one file, and one name may mean files of several times: `magrpo_he_config` is as of September
2025, `magrpo_he_config.2025-08` and `magrpo_he_config.2026-01` as of then. The folders of `ERAS` are those of
their first users' commands, which work here too.
"""

from __future__ import annotations

import logging
from pathlib import Path

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.validation import unknown

FOLDER = Path(__file__).parents[1] / "configs"

ALGORITHMS = ("grpo", "magrpo")
DATA = ("he", "che", "mbpp", "classeval", "bugfix", "tldr", "arxiv")
SEVERAL_TURNS = ("classeval", "bugfix")
"""Data sets whose plain configurations play several turns already."""

OTHER_NAMES = {
    **{
        f"{name}_mt_{data}_config": f"mt_{name}_{data}_config"
        for name in ALGORITHMS
        for data in DATA
    },
    **{
        f"mt_{name}_{data}_config": f"{name}_{data}_config"
        for name in ALGORITHMS
        for data in SEVERAL_TURNS
    },
    "magrpo_mbpp_config.2026-01": "mt_magrpo_mbpp_config",
    "grpo_mbpp_config.2026-01": "mt_grpo_mbpp_config",
}
"""Aliases of files, and the names that they stand for."""

ERAS = {"LLM_Collaboration_with_MARL/configs": "", "experiments/configs": ".2025-08"}
"""Folders of configurations elsewhere, and the ending of the names of those that differed at that time."""

LISTING = "`llm-decpomdp list` shows all"
"""Where all names are listed, for errors."""

logger = logging.getLogger(__name__)


def shipped(folder: Path = FOLDER) -> dict[str, Path]:
    """Return the files of a folder by name."""
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def description(path: Path) -> str:
    """Return the first line of a configuration, a comment that describes it."""
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def find_config(name: str) -> Path:
    """Find the file of a name (with or without `.yaml`) or a path.

    Raises:
        ConfigError: If there is none; the text names the nearest one.
    """
    path = Path(name)
    if path.is_file():
        return path
    files = shipped()
    stem = _name_of_file(path.name.removesuffix(".yaml"))
    in_package = path.parent == Path() or path.parent.resolve() == FOLDER.resolve()
    is_path = name != path.name or path.suffix in (".yaml", ".yml")
    where = f"there is no file {path.absolute()}; " if is_path else ""
    if stem not in files and path.is_dir():
        inside = sorted(file.name for file in path.glob("*.y*ml"))[:1]
        example = f", such as {path / inside[0]}" if inside else "; it holds none"
        raise ConfigError(f"{path} is a folder: name a YAML file in it{example}")
    if stem not in files:
        names = [*files, *OTHER_NAMES]
        raise ConfigError(where + unknown("configuration", stem, names, LISTING))
    if in_package:
        return files[stem]
    ending = ERAS.get("/".join(path.parts[-3:-1]))
    if ending is None:
        raise ConfigError(f"{where}for the package's own: --config {stem}")
    file = files.get(stem + ending, files[stem])
    logger.info("there is no file %r: the package's own %s is used", name, file.stem)
    return file


def _name_of_file(name: str) -> str:
    while name in OTHER_NAMES:
        name = OTHER_NAMES[name]
    return name
