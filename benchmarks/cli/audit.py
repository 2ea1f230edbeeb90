"""The command `audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def audit(
    env_id: Annotated[str, typer.Argument(help="An environment of `list` with tests.")],
    source: Annotated[str, typer.Option(help="Where the problems come from.")] = "auto",
    split: Annotated[
        str | None, typer.Option(help="Which of them, such as test[16:]; by default the usual.")
    ] = None,
    episodes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Grade the programs of a run's episodes.jsonl too."),
    ] = None,
    repeats: Annotated[int, typer.Option(help="How often each program is graded.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the result as JSON, too.")
    ] = None,
) -> None:
    """Check a data set: references, tests, chance, and whether the examples agree with the tests.

    The exit code is 1 if there are faults that no known issue explains.
    """
    from llm_decpomdp.benchmarks.audit import run as auditing

    result = auditing.audit(env_id, source, split, episodes, repeats)
    if output is not None:
        auditing.save(result, output)
    if as_json:
        print(auditing.as_json(result))
    else:
        auditing.show(result)
    raise SystemExit(0 if result.healthy else 1)
