"""What the commands share: log lines, exit codes, and the words at the end of a run."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from llm_decpomdp.algorithms.training.interruption import Interrupted
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.extras import missing_packages
from llm_decpomdp.benchmarks.runs.train import Result
from llm_decpomdp.utils.terminal import visible

PROGRAM = "llm-decpomdp"

NEXT = {
    "play --team {run}": "watch the team that you trained; with --agent NAME, be one of it",
    "credit {run}": "what each agent added to the reward",
    "export {run} --pairs": "its answers as preference pairs, a data set",
}
"""Commands that take a run with a team, and what for."""


def prepare_process() -> None:
    """Set up log lines."""
    lines = logging.StreamHandler()
    lines.setFormatter(Line())
    logging.basicConfig(handlers=[lines], level=logging.WARNING)
    logging.captureWarnings(True)
    logging.getLogger("huggingface_hub").propagate = False  # it prints its lines itself
    warnings.formatwarning = _one_line
    logging.getLogger("llm_decpomdp").setLevel(logging.INFO if first_process() else logging.WARNING)
    if sys.stderr.isatty():  # the progress bar says the same
        for name in ("run_log", "saver"):
            logging.getLogger(f"llm_decpomdp.algorithms.training.{name}").setLevel(logging.WARNING)


class Line(logging.Formatter):
    """A record as a line that says where it is a warning, without what a terminal obeys.

    Lines may quote models, programs and servers.
    """

    def __init__(self) -> None:
        super().__init__("%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        text = visible(super().format(record))
        return f"warning: {text}" if record.levelno == logging.WARNING else text


def first_process() -> bool:
    """Whether this process speaks for all that a launcher has started together."""
    return os.environ.get("RANK", "0") == "0"


def _one_line(message: Warning | str, *_: Any, **__: Any) -> str:
    return str(message)


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn expected failures into one line on stderr and an exit code: 2, 1, or 130 for Ctrl-C."""
    try:
        yield
    except ConfigError as error:
        _leave(f"error: {error}", 2)
    except RunError as error:
        _leave(f"error: {error}", 1)
    except ModuleNotFoundError as error:
        reason = missing_packages([error.name or ""])
        if reason is None:
            raise
        _leave(f"error: {reason}", 1)
    except Interrupted as stop:
        _leave(
            f"\nstopped after update {stop.update}, which is saved. Continue with: "
            f"llm-decpomdp train --resume {stop.folder}",
            130,
        )
    except KeyboardInterrupt as stop:
        _leave("\n" + ": ".join(["stopped", *filter(None, map(str, stop.args))]), 130)


def _leave(text: str, code: int) -> NoReturn:
    print(visible(text), file=sys.stderr)
    raise SystemExit(code)


def tell(result: Result) -> None:
    """Write the report that a run wants, and print its first and last mean rewards, and what to do next."""
    from llm_decpomdp.benchmarks.report import write_report

    if first_process():
        report = write_report(result.folder) if result.config.output.report else None
        print("\n".join(outcome(result, report)))


def outcome(result: Result, report: Path | None) -> list[str]:
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
    lines += _doubts(summary)
    lines.append(f"run folder: {result.folder.path}")
    if report is not None:
        lines.append(f"report: {report}")
    if result.team.is_dir():
        lines += _next(result)
    return lines


def _next(result: Result) -> Iterator[str]:
    """The trained team with its size, and what to do with it."""
    size = sum(path.stat().st_size for path in result.team.rglob("*") if path.is_file())
    yield f"trained team: {result.team} ({size / 10**6:,.0f} MB)"
    yield "next:"
    program = sys.argv[0] if Path(sys.argv[0]).name == PROGRAM else PROGRAM
    for options, purpose in NEXT.items():
        yield f"  {program} {options.format(run=result.folder.path)}  # {purpose}"


def _doubts(summary: Mapping[str, Any]) -> list[str]:
    """What speaks against learning."""
    silent, lines = summary["groups_without_signal"], []
    if silent:
        lines.append(
            f"without signal, as all their rewards were equal: {silent:.0f} of {summary['groups']:.0f} groups; "
            f"{summary['silent_updates']} of {summary['updates']} updates taught nothing"
        )
    if summary["cut_off"]:
        lines.append(f"cut off at the token limit: {summary['cut_off']:.0%} of the completions")
    return lines


def _evaluation(row: Mapping[str, Any]) -> str:
    error = row["reward_standard_error"]
    spread = "" if error is None else f", standard error {error:.3f}"
    return f"mean reward {row['reward_mean']:.3f} (n = {row['n']}{spread})"
