"""The command `list`."""

from __future__ import annotations


def list_() -> None:
    """Show the environments and the configurations."""
    from llm_decpomdp.benchmarks.config.catalogue import description, shipped
    from llm_decpomdp.registry import registered, spec

    width = max(map(len, [*shipped(), *registered()]))
    print("Environments: llm_decpomdp.make(ID)\n")
    for env_id in registered():
        print(f"{env_id:<{width}}  {spec(env_id).entry_point}")
    print("\nConfigurations: llm-decpomdp train --config NAME\n")
    for name, path in shipped().items():
        print(f"{name:<{width}}  {description(path)}")
