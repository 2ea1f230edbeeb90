"""The command `doctor`."""

from __future__ import annotations

from typing import Annotated

import typer


def doctor(
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Check the nodes of a Ray cluster instead; `auto` for that of this machine.",
        ),
    ] = None,
    trusted_network: Annotated[
        bool, typer.Option("--trusted-network", help="Join a Ray cluster that asks for no token.")
    ] = False,
) -> None:
    """Check what works on this machine, and say how to get the rest."""
    from llm_decpomdp.benchmarks.doctor.examine import examine, show

    if cluster is None:
        raise SystemExit(0 if examine() else 1)
    from llm_decpomdp.benchmarks.doctor.cluster import examine_cluster
    from llm_decpomdp.benchmarks.runs.failures import as_run_errors

    with as_run_errors():
        findings = examine_cluster(cluster, trusted_network=trusted_network)
        missing = [finding for finding in map(show, findings) if finding.core and not finding.ok]
    raise SystemExit(1 if missing else 0)
