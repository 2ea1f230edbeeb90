"""The environments. Importing this package registers their ids and loads nothing else."""

from llm_decpomdp.registry import register

register("humaneval-v0", "llm_decpomdp.envs.coding.env:humaneval")
register("coophumaneval-v0", "llm_decpomdp.envs.coding.env:coophumaneval")
register("mbpp-v0", "llm_decpomdp.envs.coding.env:mbpp")
register("classeval-v0", "llm_decpomdp.envs.classeval.env:classeval")
register("bugfix-v0", "llm_decpomdp.envs.bugfix.env:bugfix")
register("humanevalfix-v0", "llm_decpomdp.envs.bugfix.env:humanevalfix")
for _genre in ("tldr", "arxiv"):
    for _version in ("v0", "v1"):
        register(f"{_genre}-{_version}", f"llm_decpomdp.envs.writing.env:{_genre}_{_version}")
for _probe in ("rendezvous", "halves", "turns", "lazy", "delayed"):
    register(f"probe-{_probe}-v0", f"llm_decpomdp.envs.probes.env:{_probe}")
