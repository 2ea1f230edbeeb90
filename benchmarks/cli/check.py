"""The commands `check env`, `check data` and `check rewards`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llm_decpomdp.benchmarks.cli import options

if TYPE_CHECKING:
    from llm_decpomdp.benchmarks.audit.run import Audit


def env(
    env_id: Annotated[
        str, typer.Argument(help="An environment of `list`, or your own as MODULE:ID.")
    ],
    env_option: options.EnvOptions = None,
    seed: options.Seed = 0,
    messages: Annotated[
        bool, typer.Option("--messages", help="Agents may read each other's completions.")
    ] = False,
) -> None:
    """Check that an environment keeps the contract that learners rely on (`check_env`).

    The exit code is 1 if it breaks a rule.
    """
    from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
    from llm_decpomdp.benchmarks.evaluation.request import env_arguments
    from llm_decpomdp.testing.checker import ConformanceError, check_env

    try:
        check_env(env_id, seed=seed, decentralised=not messages, **env_arguments(env_option or ()))
    except ConformanceError as error:
        raise RunError(f"{env_id} breaks the contract of environments: {error}") from None
    except (KeyError, TypeError, ValueError, ImportError) as error:
        raise ConfigError(str(error.args[0]) if error.args else repr(error)) from None
    print(f"{env_id} keeps the contract of environments")


def data(
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
        print(auditing.to_json(result))
    else:
        show_audit(result)
    raise SystemExit(0 if result.healthy else 1)


def rewards(
    folder: options.Folder,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="All differences, as JSON Lines.")
    ] = None,
) -> None:
    """Grade stored episodes again, and name what differs.

    The exit code is 1 if anything does, or if the last line is incomplete.
    """
    from llm_decpomdp.benchmarks.analysis.replay import regrade
    from llm_decpomdp.utils.text import visible

    result = regrade(folder, output)
    print(visible("\n".join(result.lines())))
    raise SystemExit(0 if result.agrees else 1)


def show_audit(result: Audit) -> None:
    """Print the result of an audit as a table and one line."""
    from rich.console import Console
    from rich.table import Table

    from llm_decpomdp.utils.text import plain

    console = Console()
    if result.remarks:
        table = Table("", "kind", "task", "what", title=f"audit of {result.env_id}")
        for remark in result.remarks:
            mark = "known" if remark.explained else "[red]fault[/red]" if remark.fault else "note"
            text = f"{remark.program}: {remark.text}" if remark.program else remark.text
            text += f" (known: {remark.explained})" if remark.explained else ""
            table.add_row(mark, *map(plain, (remark.kind, remark.task_id, text)))
        console.print(table)
    console.print(plain(result.summary), highlight=False, soft_wrap=True)
