"""The command `list`."""

from __future__ import annotations


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
    if others := [plugin for plugin in plugins() if plugin.kind != "environment"]:
        print("\nOf installed packages: names for configurations\n")
        for plugin in others:
            kind = f"{plugin.kind:<{max(map(len, KINDS))}}"
            print(f"{kind}  {plugin.name:<{width}}  {plugin.path} ({plugin.origin})")
