"""The commands `list` and `doctor`: what is there, and what works on this machine."""

from __future__ import annotations

from typing import Annotated

import typer


def list_() -> None:
    """Show the environments, the configurations, and what installed packages add."""
    from llm_decpomdp.benchmarks.config.catalogue import description, shipped
    from llm_decpomdp.plugins import KINDS, plugins
    from llm_decpomdp.registry import origin, registered_ids, spec

    width = max(map(len, [*shipped(), *registered_ids()]))
    print("Environments: llm_decpomdp.make(ID)\n")
    for env_id in registered_ids():
        package = origin(env_id)
        print(f"{env_id:<{width}}  {spec(env_id).entry_point}{f' ({package})' if package else ''}")
    print("\nConfigurations: llm-decpomdp train --config NAME\n")
    for name, path in shipped().items():
        print(f"{name:<{width}}  {description(path)}")
    if extra := [plugin for plugin in plugins() if plugin.kind != "environment"]:
        print("\nOf installed packages: names for configurations\n")
        for plugin in extra:
            kind = f"{plugin.kind:<{max(map(len, KINDS))}}"
            print(f"{kind}  {plugin.name:<{width}}  {plugin.path} ({plugin.origin})")


def doctor(
    need: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Exit with 1 if this will not run: demo, gpu, host-safe, or an extra such as expert; may be "
            "given several times.",
        ),
    ] = None,
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
    """Check what works on this machine, and say how to get the rest.

    The exit code is 1 if something requested will not run: the sandbox, the bundled problems, what --need names,
    the folder of LLM_DECPOMDP_DATA, the Python of vLLM. Missing extras that nothing requests are no failure.
    """
    from llm_decpomdp.benchmarks.config.errors import ConfigError
    from llm_decpomdp.benchmarks.doctor.examine import examine, show

    if cluster is None:
        raise SystemExit(0 if examine(need or ()) else 1)
    if need:
        raise ConfigError(
            "--need is about this machine, and --cluster about others: give one of them"
        )
    from llm_decpomdp.benchmarks.config.errors import raise_run_errors
    from llm_decpomdp.benchmarks.doctor.cluster import examine_cluster

    with raise_run_errors():
        findings = examine_cluster(cluster, trusted_network=trusted_network)
        missing = [finding for finding in map(show, findings) if finding.core and not finding.ok]
    raise SystemExit(1 if missing else 0)
