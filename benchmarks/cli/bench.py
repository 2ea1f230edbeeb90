"""The commands `bench` and `plan`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from llm_decpomdp.benchmarks.cli.console import (
    PROGRAM,
    Overrides,
    TrustedNetwork,
    complete_config,
    give_result,
)
from llm_decpomdp.benchmarks.config.errors import ConfigError, raise_run_errors, require_no_file

Engine = Literal["local", "ray"]

FILE_WIDTH = 120


def bench(
    suite: Annotated[str | None, Argument(help="Name or path of a suite.")] = None,
    show: Annotated[bool, Option("--list", help="Show the suites.")] = False,
    only: Annotated[
        list[str] | None,
        Option(metavar="ARM", help="Run this arm alone; may be given several times."),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Check every arm, and say what it would cost.")
    ] = False,
    tokens_per_second: Annotated[
        float | None,
        Option(metavar="N", min=0.001, help="With --dry-run: hours, where N are sampled a second."),
    ] = None,
    cores: Annotated[
        int | None, Option(min=1, help="Cores to use at most; all if not given.")
    ] = None,
    engine: Annotated[
        Engine, Option(help="Run on this machine, or on the nodes of a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        Option(metavar="HOST:PORT", help="Address of a Ray cluster; by default, one is started."),
    ] = None,
    trusted_network: TrustedNetwork = False,
    output: Annotated[Path | None, Option(metavar="FOLDER", help="By default runs/SUITE.")] = None,
) -> None:
    """Run a suite of experiments, and write its leaderboard. Stopped, the same command goes on.

    The exit code is 1 if an arm has failed; the others are not harmed by that.
    """
    from llm_decpomdp.benchmarks.suites.cost import show_costs
    from llm_decpomdp.benchmarks.suites.job import make_jobs, require_initial_teams
    from llm_decpomdp.benchmarks.suites.run import lock_folder, refuse_runs, run_suite
    from llm_decpomdp.benchmarks.suites.suite import find_suite, load_suite

    if show:
        show_suites()
        return
    if suite is None:
        raise ConfigError("give a suite; --list shows those that come with the package")
    if suite == "science":  # a suite of earlier versions
        raise ConfigError(
            "science is not in the package any more: run `python -m studies.hypotheses` in a checkout"
        )
    if engine == "local" and (address or trusted_network):
        raise ConfigError("--address and --trusted-network are of --engine ray: give that too")
    if engine == "ray" and cores:
        raise ConfigError("--cores is of this machine: Ray takes what its nodes have")
    plan = load_suite(find_suite(suite))
    folder = output or Path("runs") / plan.name
    require_no_file(folder)
    # The report of the suite would overwrite that of a run.
    refuse_runs(folder)
    jobs = make_jobs(plan, folder, only or ())
    if dry_run:
        require_initial_teams(jobs)
        costs, problems = show_costs(plan, jobs, tokens_per_second)
        give_result({"arms": costs, "problems": problems})
        raise SystemExit(1 if problems else 0)
    if tokens_per_second:
        raise ConfigError("--tokens-per-second tells the hours of a --dry-run: give both")
    ray = {"address": address, "trusted_network": trusted_network} if engine == "ray" else None
    command = [PROGRAM, "bench", suite, *(["--output", str(output)] if output else [])]
    with lock_folder(folder) as lock:
        with raise_run_errors():
            failed = run_suite(plan, jobs, folder, command, cores, lock, ray)
        show_leaderboard(folder)
    raise SystemExit(1 if failed else 0)


def show_suites() -> None:
    """Print the suites that come with the package."""
    from rich.console import Console

    from llm_decpomdp.benchmarks.config.load import description
    from llm_decpomdp.benchmarks.suites.suite import load_suite, shipped_suites

    suites = shipped_suites()
    width = max(map(len, suites))
    give_result({name: description(path) for name, path in suites.items()})
    console = Console(highlight=False, soft_wrap=True)
    for name, path in suites.items():
        count = len(load_suite(path).arms)
        console.print(f"{name:<{width}}  {description(path)} ({count} arms)", markup=False)


def show_leaderboard(folder: Path) -> None:
    """Write the leaderboard and the report of a suite, and print the leaderboard."""
    from rich.console import Console

    from llm_decpomdp.benchmarks.report.suites import write_suite_report
    from llm_decpomdp.benchmarks.suites.leaderboard import (
        read_leaderboard,
        to_tables,
        write_leaderboard,
    )

    leaderboard = read_leaderboard(folder)
    write_leaderboard(leaderboard, folder)
    # Without a terminal rich takes 80 columns, which break the rows of the tables.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH)
    for table in to_tables(leaderboard):
        console.print(table)
    if leaderboard.tables:
        console.print(f"report: {write_suite_report(folder)}", soft_wrap=True)
    give_result({"folder": folder, **asdict(leaderboard)})
    for job in leaderboard.failed:
        console.print(
            f"FAILED: {job.name}: {job.error.splitlines()[-1]}", markup=False, soft_wrap=True
        )


def plan(
    config: Annotated[
        str,
        Argument(
            metavar="CONFIG",
            help="Name or path of a configuration.",
            autocompletion=complete_config,
        ),
    ],
    gpus: Annotated[
        str, Option(metavar="[N]xKIND", help="Devices: 8xh100, a100, h200, l40s, 4090, cpu.")
    ] = "cpu",
    override: Overrides = None,
    assume: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=VALUE",
            help="Replace usable_memory (share), length (share of max_new_tokens), characters (per token), memory "
            "(GB of a device) or prompt (tokens).",
        ),
    ] = None,
    parameters: Annotated[
        float | None,
        Option(min=1, max=1e15, help="Weights of a model of unknown size, such as 7.6e9."),
    ] = None,
) -> None:
    """Estimate the memory that a run needs on each device; exit with 2 if it cannot fit."""
    from llm_decpomdp.benchmarks.config.load import find_config, read_config
    from llm_decpomdp.benchmarks.doctor.device_plan import (
        estimate_devices,
        plan_lines,
        read_assumptions,
    )

    settings = read_config(find_config(config), override or (), {})
    numbers = read_assumptions(assume or ())
    if parameters is not None:
        numbers["parameters"] = parameters
    estimate = estimate_devices(settings, gpus, numbers)
    give_result(
        {
            "devices": estimate.devices,
            "fits": estimate.need <= estimate.usable,
            "gigabytes": estimate.need,
            "usable_gigabytes": estimate.usable,
            "parts": {part: size / 1e9 for part, size in estimate.parts.items() if size},
            "assumed": estimate.assumed,
        }
    )
    print("\n".join(plan_lines(settings, estimate)))
