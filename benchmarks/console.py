"""What the commands share: log lines, exit codes, and the words at the end of a run."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from llm_decpomdp.algorithms.interruption import Interrupted
from llm_decpomdp.benchmarks.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.run import Result


def prepare_process() -> None:
    """Set up log lines."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    logging.captureWarnings(True)
    warnings.formatwarning = _one_line
    logging.getLogger("llm_decpomdp").setLevel(logging.INFO if first_process() else logging.WARNING)
    if sys.stderr.isatty():  # the progress bar says the same
        for name in ("journal", "saver"):
            logging.getLogger(f"llm_decpomdp.algorithms.{name}").setLevel(logging.WARNING)


def first_process() -> bool:
    """Whether this process speaks for all that a launcher has started together."""
    return os.environ.get("RANK", "0") == "0"


def _one_line(message: Warning | str, *_: Any, **__: Any) -> str:
    return f"warning: {message}"


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn expected failures into one line on stderr and an exit code: 2, 1, or 130 for Ctrl-C."""
    try:
        yield
    except ConfigError as error:
        _leave(f"error: {error}", 2)
    except RunError as error:
        _leave(f"error: {error}", 1)
    except Interrupted as stop:
        _leave(
            f"\nstopped after update {stop.update}, which is saved. Continue with: "
            f"llm-decpomdp train --resume {stop.folder}",
            130,
        )
    except KeyboardInterrupt:
        _leave("\nstopped", 130)


def _leave(text: str, code: int) -> NoReturn:
    print(text, file=sys.stderr)
    raise SystemExit(code)


def tell(result: Result) -> None:
    """Print the first and last mean rewards, and where everything is."""
    if first_process():
        print("\n".join(outcome(result)))


def outcome(result: Result) -> list[str]:
    """The lines that `tell` prints."""
    summary = result.summary
    lines = [f"updates: {summary['updates']}"]
    first, last = summary["first_eval"], summary["last_eval"]
    if first is not None:
        before, after = _evaluation(first), _evaluation(last)
        lines.append(f"evaluation before training: {before}")
        lines.append(f"evaluation after training:  {after}")
    for label, row in (("first", summary["first_train"]), ("last", summary["last_train"])):
        lines.append(f"{label} update: mean reward {row['reward_mean']:.3f} (training problems)")
    lines.append(f"run folder: {result.folder.path}")
    if result.report is not None:
        lines.append(f"report: {result.report}")
    return lines


def _evaluation(row: Mapping[str, Any]) -> str:
    error = row["reward_standard_error"]
    spread = "" if error is None else f", standard error {error:.3f}"
    return f"mean reward {row['reward_mean']:.3f} (n = {row['n']}{spread})"
