"""The environments. Importing this package registers their ids and loads nothing else."""

from llm_decpomdp.registry import register

register("humaneval-v0", "llm_decpomdp.envs.coding:humaneval")
register("coophumaneval-v0", "llm_decpomdp.envs.coding:coophumaneval")
for _probe in ("rendezvous", "halves", "turns", "lazy", "delayed"):
    register(f"probe-{_probe}-v0", f"llm_decpomdp.envs.probes:{_probe}")
