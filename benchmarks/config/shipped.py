"""Files of configurations, by name or path."""

from __future__ import annotations

import logging
from pathlib import Path

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.legacy import ERAS, OTHER_NAMES
from llm_decpomdp.validation import unknown

FOLDER = Path(__file__).parents[1] / "configs"

logger = logging.getLogger(__name__)


def shipped(folder: Path = FOLDER) -> dict[str, Path]:
    """Return the files of a folder by name."""
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def description(path: Path) -> str:
    """Return the first line of a configuration, a comment that describes it."""
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def find_config(name: str) -> Path:
    """Find the file of a name (with or without `.yaml`) or a path."""
    path = Path(name)
    if path.is_file():
        return path
    files = shipped()
    stem = path.name.removesuffix(".yaml")
    while stem in OTHER_NAMES:  # an alias may stand for another one
        stem = OTHER_NAMES[stem]
    # A path elsewhere never means a shipped file, except in the folders of `ERAS`.
    in_package = path.parent == Path() or path.parent.resolve() == FOLDER.resolve()
    # A plain name is looked up, so its error does not speak of files.
    is_path = name != path.name or path.suffix in (".yaml", ".yml")
    where = f"there is no file {path.absolute()}; " if is_path else ""
    if stem not in files and path.is_dir():
        inside = sorted(file.name for file in path.glob("*.y*ml"))[:1]
        example = f", such as {path / inside[0]}" if inside else "; it holds none"
        raise ConfigError(f"{path} is a folder: name a YAML file in it{example}")
    if stem not in files:
        names, listing = [*files, *OTHER_NAMES], "`llm-decpomdp list` shows all"
        raise ConfigError(where + unknown("configuration", stem, names, listing))
    if in_package:
        return files[stem]
    ending = ERAS.get("/".join(path.parts[-3:-1]))
    if ending is None:
        raise ConfigError(f"{where}for the package's own: --config {stem}")
    file = files.get(stem + ending, files[stem])
    logger.info("there is no file %r: the package's own %s is used", name, file.stem)
    return file
