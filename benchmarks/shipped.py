"""The configurations that come with the package, and how one is found by name or path."""

from __future__ import annotations

from pathlib import Path

from llm_decpomdp.benchmarks.errors import ConfigError
from llm_decpomdp.naming import unknown

FOLDER = Path(__file__).with_name("configs")

OTHER_NAMES = {
    "magrpo_mt_he_config": "mt_magrpo_he_config",
    "magrpo_mt_che_config": "mt_magrpo_che_config",
}
"""Names that some documents use, and the files that they mean."""


def shipped() -> dict[str, Path]:
    """The files by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


def description(path: Path) -> str:
    """A configuration's first line, which is a comment that says what it is."""
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def find_config(name: str) -> Path:
    """The file that a name (with or without `.yaml`) or a path means.

    Raises:
        ConfigError: If there is none; the text names the nearest one.
    """
    path = Path(name)
    if path.is_file():
        return path
    stem = path.name.removesuffix(".yaml")
    here = path.parent == Path() or path.parent.resolve() == FOLDER.resolve()
    stem = OTHER_NAMES.get(stem, stem)
    if here and stem in shipped():
        return shipped()[stem]
    where = "" if here else f"no file {name!r}; "
    raise ConfigError(where + unknown("configuration", stem, [*shipped(), *OTHER_NAMES]))
