"""Parts of all commands: shared options and their completion, results as JSON, log lines and exit codes."""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, NoReturn

from typer import Argument, Option

from llm_decpomdp.algorithms.training.callbacks import Interrupted
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.interfaces import PartError
from llm_decpomdp.utils.extras import missing_packages
from llm_decpomdp.utils.storage import DamagedFile, FolderInUse, to_json
from llm_decpomdp.utils.text import visible

# A full disk is no fault of the program, so it gets a line and not a traceback.
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Numbers of errors that a full disk, a quota or a limit of a file's size causes."""

PROGRAM = "llm-decpomdp"

REPEATS_PROGRESS = (
    "llm_decpomdp.algorithms.training.run_log",
    "llm_decpomdp.algorithms.training.checkpoint_manager",
)
"""Loggers whose lines the progress bar of a terminal shows, too."""


def prepare_process() -> None:
    """Set up log lines."""
    lines = logging.StreamHandler()
    lines.setFormatter(LogFormatter())
    logging.basicConfig(handlers=[lines], level=logging.WARNING)
    # Warnings of libraries get the same single lines as ours.
    logging.captureWarnings(True)
    logging.getLogger("huggingface_hub").propagate = False  # it prints its lines itself
    # `captureWarnings` calls it; the default adds the place in the code.
    warnings.formatwarning = _one_line
    logging.getLogger("llm_decpomdp").setLevel(logging.INFO if first_process() else logging.WARNING)
    if sys.stderr.isatty():
        for name in REPEATS_PROGRESS:
            logging.getLogger(name).setLevel(logging.WARNING)


class LogFormatter(logging.Formatter):
    """A record as a line that says where it is a warning, without what a terminal obeys.

    Lines may quote models, programs and servers.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        # Without level and time, which would hide the text that a user needs.
        text = visible(super().format(record))
        return f"warning: {text}" if record.levelno == logging.WARNING else text


def first_process() -> bool:
    """Check whether this process prints for all that a launcher has started together."""
    return os.environ.get("RANK", "0") == "0"  # torchrun sets it


def _one_line(message: Warning | str, *_: Any, **__: Any) -> str:
    return str(message)


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn expected failures into one line on stderr and an exit code: 2, 1, or 130 for Ctrl-C."""
    try:
        yield
    except ConfigError as error:
        _leave(f"error: {error}", 2)
    # Not mistakes of the command line, so scripts can tell them by the exit code.
    except (RunError, DamagedFile, FolderInUse, PartError) as error:
        _leave(f"error: {error}", 1)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        _leave(f"error: {error}: free some space, and run the command again", 1)
    except ModuleNotFoundError as error:
        reason = missing_packages([error.name or ""])
        if reason is None:
            raise
        _leave(f"error: {reason}", 1)
    # 130 is what shells report for Ctrl-C.
    except Interrupted as stop:
        _leave(
            f"\nstopped after update {stop.update}, which is saved. Continue with: "
            f"llm-decpomdp train --resume {stop.folder}",
            130,
        )
    except KeyboardInterrupt as stop:
        _leave("\n" + ": ".join(["stopped", *filter(None, map(str, stop.args))]), 130)


def _leave(text: str, code: int) -> NoReturn:
    # Names of files and answers of servers may hold control characters.
    print(visible(text), file=sys.stderr)
    raise SystemExit(code)


MARKS = ("manifest.json", "metrics.jsonl", "suite.json")
"""Files of which one is in the folder of every run, evaluation and suite."""


def complete_environment(incomplete: str) -> list[str]:
    """Return the ids of environments that begin with a text."""
    from llm_decpomdp.registry import registered_ids

    return [name for name in registered_ids() if name.startswith(incomplete)]


def complete_config(incomplete: str) -> list[str]:
    """Return the names of configurations that begin with a text."""
    from llm_decpomdp.benchmarks.config.load import shipped

    return [name for name in shipped() if name.startswith(incomplete)]


def complete_key(incomplete: str) -> list[str]:
    """Return the keys of a configuration that begin with a text, each with its equals sign."""
    from llm_decpomdp.benchmarks.config.schema import KEYS

    return [f"{key}=" for key in KEYS if key.startswith(incomplete)]


def complete_run(incomplete: str) -> list[str]:
    """Return the folders of runs that begin with a path, and by default those in `runs`."""
    text = incomplete or "runs/"
    parent = Path(text) if text.endswith("/") else Path(text).parent
    if not parent.is_dir():
        return []
    folders = [path for path in sorted(parent.iterdir()) if path.is_dir()]
    runs = [path for path in folders if any((path / name).exists() for name in MARKS)]
    # Elsewhere any folder may lead to runs.
    return [
        str(path) if path in runs else f"{path}/"
        for path in (runs or folders)
        if str(path).startswith(text.removeprefix("./"))
    ]


Overrides = Annotated[
    list[str] | None,
    Option(
        "--override",
        metavar="KEY=VALUE ...",
        help="Set keys of the configuration.",
        autocompletion=complete_key,
    ),
]
Checkpoint = Annotated[str | None, Option(help="Which team of a run: final, best or last.")]
Env = Annotated[
    str | None,
    Option(
        help="An environment instead of the configuration's.", autocompletion=complete_environment
    ),
]
EnvId = Annotated[
    str,
    Argument(
        help="An environment of `list`, or your own as MODULE:ID.",
        autocompletion=complete_environment,
    ),
]
EnvOptions = Annotated[
    list[str] | None, Option(metavar="KEY=VALUE", help="An argument of the environment.")
]
Push = Annotated[
    str | None,
    Option(metavar="OWNER/NAME", help="Upload the folder to this repository of the hub, too."),
]
Public = Annotated[
    bool, Option("--public", help="Let a new repository be public; by default it is private.")
]
Split = Annotated[
    str | None,
    Option(help="Which problems, such as test[:16]; by default the held-out, of --env its usual."),
]
Tasks = Annotated[int | None, Option(min=1, help="How many of them, from the first on.")]
Samples = Annotated[int, Option(min=1, help="Episodes of each problem.")]
Greedy = Annotated[bool, Option("--greedy", help="Take the likeliest token.")]
Seed = Annotated[int, Option(min=0, help="Decides what is sampled.")]
AtATime = Annotated[int, Option(min=1, help="Episodes that are played together.")]
Output = Annotated[Path | None, Option(metavar="FOLDER", help="Where the results go.")]
AllowEndpoint = Annotated[
    list[str] | None,
    Option(
        metavar="VARIABLE@URL",
        help="Server that a saved team may ask, and the environment variable with its key.",
    ),
]
TrustedNetwork = Annotated[
    bool, Option("--trusted-network", help="Join a Ray cluster that asks for no token.")
]
Folder = Annotated[
    Path, Argument(metavar="FOLDER", help="A run or an evaluation.", autocompletion=complete_run)
]


_results: list[Any] = []
"""The result of the command that runs, once it is known."""


def give_result(value: Any) -> None:
    """Give the result of a command, which `--json` prints; the last one counts."""
    _results[:] = [value]


@contextmanager
def json_on_stdout(quiet: bool) -> Iterator[None]:
    """Print the result that is given in this context on stdout, and all else on stderr, or not if `quiet`."""
    # A command without `--json` in the same process leaves its result here.
    _results.clear()
    try:
        with redirect_stdout(StringIO() if quiet else sys.stderr):
            yield
    finally:
        # Also before an exit with another code, such as that of a failed check.
        if _results:
            print(json.dumps(to_json(_results.pop()), indent=2))
