"""The commands `list`, `doctor` and `check`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from llm_decpomdp.benchmarks.cli.console import (
    EnvId,
    EnvOptions,
    Seed,
    Tasks,
    TrustedNetwork,
    complete_environment,
    give_result,
)
from llm_decpomdp.benchmarks.config.errors import (
    ConfigError,
    RunError,
    check_output_file,
    raise_config_errors,
    raise_run_errors,
)
from llm_decpomdp.utils.text import plain, visible


def list_() -> None:
    """Show the environments, the configurations, and what installed packages add."""
    from llm_decpomdp.benchmarks.config.load import description, shipped
    from llm_decpomdp.plugins import KINDS, plugins
    from llm_decpomdp.registry import origin, registered_ids, spec

    environments = [
        {"id": env_id, "description": of.summary or of.entry_point, "package": origin(env_id)}
        for env_id, of in ((env_id, spec(env_id)) for env_id in registered_ids())
    ]
    configurations = [
        {"name": name, "description": description(path)} for name, path in shipped().items()
    ]
    extra = [plugin for plugin in plugins() if plugin.kind != "environment"]
    give_result({"environments": environments, "configurations": configurations, "plugins": extra})
    names = [*(of["id"] for of in environments), *(of["name"] for of in configurations)]
    width = max(len(str(name)) for name in names)
    print("Environments: llm_decpomdp.make(ID)\n")
    for env in environments:
        package = f" ({env['package']})" if env["package"] else ""
        print(f"{env['id']:<{width}}  {env['description']}{package}")
    print("\nConfigurations: llm-decpomdp train --config NAME\n")
    for config in configurations:
        print(f"{config['name']:<{width}}  {config['description']}")
    if extra:
        print("\nOf installed packages: names for configurations\n")
        for plugin in extra:
            kind = f"{plugin.kind:<{max(map(len, KINDS))}}"
            print(f"{kind}  {plugin.name:<{width}}  {plugin.path} ({plugin.origin})")


def doctor(
    need: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="Exit with 1 if this will not run: demo, gpu, host-safe, or an extra such as expert; may be "
            "given several times.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        Option(
            metavar="HOST:PORT",
            help="Check the nodes of a Ray cluster instead; `auto` for that of this machine.",
        ),
    ] = None,
    trusted_network: TrustedNetwork = False,
) -> None:
    """Check what works on this machine, and say how to get the rest.

    The exit code is 1 if something requested will not run: the sandbox, the bundled problems, what --need names,
    the folder of LLM_DECPOMDP_DATA, the Python of vLLM. Missing extras that nothing requests are no failure.
    """
    from llm_decpomdp.benchmarks.doctor.examine import examine, show

    if cluster is None:
        lines, lacking = examine(need or ())
        give_result({"works": not lacking, "lacking": lacking, "findings": lines})
        raise SystemExit(1 if lacking else 0)
    if need:
        raise ConfigError(
            "--need is about this machine, and --cluster about others: give one of them"
        )
    from llm_decpomdp.benchmarks.doctor.cluster import examine_cluster

    with raise_run_errors():
        findings = examine_cluster(cluster, trusted_network=trusted_network)
        shown = list(map(show, findings))
    missing = [finding.message for finding in shown if finding.core and not finding.ok]
    give_result({"works": not missing, "lacking": missing, "findings": shown})
    raise SystemExit(1 if missing else 0)


def env(
    env_id: EnvId,
    env_option: EnvOptions = None,
    seed: Seed = 0,
    messages: Annotated[
        bool, Option("--messages", help="Agents may read each other's completions.")
    ] = False,
) -> None:
    """Check that an environment keeps the contract that learners rely on (`check_env`).

    The exit code is 1 if it breaks a rule.
    """
    from llm_decpomdp.benchmarks.evaluation.request import env_arguments
    from llm_decpomdp.testing.checker import ConformanceError, check_env

    arguments = env_arguments(env_option or ())
    try:
        with raise_config_errors():
            check_env(env_id, seed=seed, decentralized=not messages, **arguments)
    except ConformanceError as error:
        raise RunError(f"{env_id} breaks the contract of environments: {error}") from None
    print(f"{env_id} passes all checks of check_env")
    give_result({"environment": env_id, "keeps_contract": True})


def data(
    env_id: Annotated[
        str,
        Argument(help="An environment of `list` with tests.", autocompletion=complete_environment),
    ],
    source: Annotated[str, Option(help="Where the problems come from.")] = "auto",
    split: Annotated[
        str | None, Option(help="Which of them, such as test[16:]; by default the usual.")
    ] = None,
    episodes: Annotated[
        Path | None,
        Option(metavar="FILE", help="Grade the programs of a run's episodes.jsonl too."),
    ] = None,
    repeats: Annotated[int, Option(help="How often each program is graded.")] = 3,
    output: Annotated[
        Path | None, Option(metavar="FILE", help="Save the result as JSON, too.")
    ] = None,
) -> None:
    """Check a data set: references, tests, chance, and whether the examples agree with the tests.

    The exit code is 1 if there are faults that no known issue explains.
    """
    from rich.console import Console

    from llm_decpomdp.benchmarks.audit import run as auditing

    check_output_file(output, ".json")
    result = auditing.audit(env_id, source, split, episodes, repeats)
    if output is not None:
        auditing.save(result, output)
    console = Console()
    if result.remarks:
        console.print(auditing.table(result))
    console.print(plain(result.summary), highlight=False, soft_wrap=True)
    give_result(json.loads(auditing.to_json(result)))
    # So that CI fails for new faults alone.
    raise SystemExit(0 if result.healthy else 1)


def rewards(
    folder: Annotated[
        Path,
        Argument(
            metavar="FOLDER|ENV_ID",
            help="A run, an evaluation, or an environment with known numbers.",
        ),
    ],
    output: Annotated[
        Path | None, Option(metavar="FILE", help="All differences of a folder, as JSON Lines.")
    ] = None,
    env_option: EnvOptions = None,
    tasks: Tasks = None,
    seed: Seed = 0,
) -> None:
    """Grade stored episodes again, and name what differs; or play an environment's known numbers and exploits.

    The exit code is 1 if a reward differs, the last line is incomplete, an exploit beats its bound, or a known
    number differs from its exact value.
    """
    from rich.console import Console

    from llm_decpomdp.benchmarks.analysis.replay import regrade
    from llm_decpomdp.benchmarks.evaluation.request import env_arguments
    from llm_decpomdp.benchmarks.evaluation.strategies import check_strategies, table
    from llm_decpomdp.registry import is_id

    env_id = str(folder)
    if is_id(env_id) and not folder.exists():
        if output is not None:
            raise ConfigError(f"--output is for stored episodes, and {env_id} is an environment")
        entries = check_strategies(env_id, env_arguments(env_option or ()), tasks, seed)
        Console().print(table(env_id, entries))
        give_result({"environment": env_id, "strategies": entries})
        raise SystemExit(1 if any(entry.problem for entry in entries) else 0)
    if env_option or tasks:
        raise ConfigError(
            f"--env-option and --tasks are for environments, and {env_id!r} is none of `llm-decpomdp list`"
        )
    check_output_file(output, ".jsonl")
    result = regrade(folder, output)
    print(visible("\n".join(result.lines())))
    give_result({"agrees": result.agrees, **asdict(result)})
    raise SystemExit(0 if result.agrees else 1)
