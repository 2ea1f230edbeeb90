"""Errors that the command line reports in one line without a traceback, and failures that become such errors."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from llm_decpomdp.interfaces import PartError
from llm_decpomdp.utils.storage import RunFolder


class ConfigError(ValueError):
    """Something in a configuration or on a command line is wrong; the text says what to change.

    Exit code 2.
    """


class RunError(RuntimeError):
    """A run cannot start or go on: its data, its models or its numbers fail it. Exit code 1."""


def refuse_repeats(folders: Sequence[Path]) -> None:
    """Raise a `ConfigError` if a folder is named twice: it would count as two independent runs."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ConfigError(f"a run is named twice: {', '.join(map(str, folders))}")


def check_output_file(path: Path | None, suffix: str) -> None:
    """Raise an error if `--output` names no file of this kind, before the work whose result it is to hold.

    Raises:
        ConfigError: If it is a folder, or ends otherwise, as a mistyped input that would be overwritten.
        RunError: If its folder cannot be made.
    """
    if path is None:
        return
    if path.suffix != suffix or path.is_dir():
        raise ConfigError(f"--output names a file that ends in {suffix}, got {path}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)


ALONE = "a resumed run keeps its configuration and folder: give --resume FOLDER with nothing but --override"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what keeps a file or folder from being written into a `RunError` that names it."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error


def failures() -> tuple[type[Exception], ...]:
    """Return the errors that may end a run which has begun."""
    # Imported here, so that `--help` does without.
    from llm_decpomdp.agents import EndpointError
    from llm_decpomdp.agents.remote.options import SamplerError
    from llm_decpomdp.algorithms.rollout_workers.options import RolloutWorkerError
    from llm_decpomdp.envs.feedback.experts import ExpertError
    from llm_decpomdp.envs.sandbox import SandboxError

    # ValueError, OSError and MemoryError are what torch, transformers and full disks raise.
    usual = (PartError, FloatingPointError, MemoryError, ValueError, OSError)
    return (*usual, EndpointError, ExpertError, SandboxError, RolloutWorkerError, SamplerError)


@contextmanager
def raise_run_errors() -> Iterator[None]:
    """Turn the failures that a run may end with into a `RunError`; mistakes of the caller are not changed."""
    try:
        yield
    # A ConfigError is a ValueError, which is among the failures below.
    except ConfigError:
        raise
    except failures() as error:
        raise RunError(format_message(error)) from error


@contextmanager
def raise_config_errors() -> Iterator[None]:
    """Turn what an environment raises for wrong arguments into a `ConfigError`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, ImportError) as error:
        raise ConfigError(str(error.args[0]) if error.args else repr(error)) from None


def format_message(error: Exception) -> str:
    """Return the text of an error with its notes, such as the task of a reward that raised it."""
    return ". ".join([str(error).removesuffix("."), *map(str, getattr(error, "__notes__", ()))])


def require_no_file(folder: Path) -> None:
    """Raise a `ConfigError` if a file stands where a folder of results is needed."""
    # mkdir would name only the parent that is a file, and not say what to change.
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise ConfigError(
                f"{place} is a file, and {folder} needs a folder there: choose another folder with --output "
                "(output.base_dir and output.name)"
            )


@contextmanager
def open_folder(path: Path) -> Iterator[RunFolder]:
    """Make a folder and hold its lock, before the work whose results are written to it.

    A new folder that is empty at the end is removed again.

    Raises:
        ConfigError: If a file stands where a folder is needed.
        FolderInUse: If another process writes to it.
        RunError: If it cannot be written.
    """
    require_no_file(path)
    is_new = not path.exists()  # before `RunFolder` makes it
    with ExitStack() as stack:
        with writing(path):
            folder = RunFolder(path)
            # A run that is refused before its first file must not block its name.
            if is_new:
                stack.callback(_remove_if_empty, path)
            stack.enter_context(folder.exclusive_access())
        yield folder


@contextmanager
def write_folder(folder: Path) -> Iterator[Path]:
    """Yield a place that becomes a new folder at the end; after an error no part of it is left.

    Raises:
        ConfigError: If the folder exists.
        RunError: If it cannot be written.
    """
    if folder.exists():
        raise ConfigError(f"{folder} already exists: choose another folder with --output")
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target, as a rename inside one folder is atomic.
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unfinished-") as place:
            target = Path(place, "made")
            yield target
            target.rename(folder)


def _remove_if_empty(path: Path) -> None:
    with suppress(OSError):
        path.rmdir()  # refuses a folder that holds something


# A changed environment differs in dozens of keys; three show which it is.
MOST = 3


def differences(before: Any, now: Any, key: str = "") -> Iterator[str]:
    """Yield each key of nested mappings whose value has changed, such as "model.name was a and is b"."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            # A switch that earlier versions did not have was off.
            if name not in before and now[name] is False:
                continue
            inner = f"{key}.{name}" if key else str(name)
            yield from differences(before.get(name), now.get(name), inner)
    elif before != now:
        # One of them may be a whole section.
        yield f"{key} was {before!s:.80} and is {now!s:.80}"


def in_short(messages: Sequence[str]) -> str:
    """Join the first of some differences, and the number of the rest."""
    more = f"; and {len(messages) - MOST} more" if len(messages) > MOST else ""
    return "; ".join(messages[:MOST]) + more
