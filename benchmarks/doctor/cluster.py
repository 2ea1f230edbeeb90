"""Checks of the nodes of a Ray cluster: the same versions, and the layers of the sandbox on each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from platform import python_version
from typing import Any

from llm_decpomdp.algorithms.rollout_workers.ray_workers import connect
from llm_decpomdp.benchmarks.doctor.sandbox import Finding
from llm_decpomdp.benchmarks.runs.manifest import versions
from llm_decpomdp.envs.sandbox import Sandbox, SandboxError
from llm_decpomdp.envs.sandbox.sandbox import REQUIRED

PATIENCE = 120.0  # seconds that a node has to answer


def examine_cluster(address: str | None, *, trusted_network: bool = False) -> Iterator[Finding]:
    """Ask every node that is alive; arguments and errors as of `connect`."""
    ray = connect(address, trusted_network=trusted_network)
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    local = {"Python": python_version(), **versions()}
    try:
        for node in ray.nodes():
            where = f"node {node['NodeManagerAddress']} ({node['NodeID'][:8]})"
            if not node["Alive"]:
                yield Finding(False, f"{where}: is gone", "start it again", optional=True)
                continue
            # Ray would run a soft task on another node, and one that asks for a CPU only once a busy node is idle.
            place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            call = ray.remote(_examine_node).options(num_cpus=0, scheduling_strategy=place).remote()
            try:
                answer: dict[str, Any] = ray.get(call, timeout=PATIENCE)
            except ray.exceptions.RayError as error:
                yield Finding(False, f"{where}: {error}", "install the package there", core=True)
                continue
            resources = node["Resources"]
            size = ", ".join(f"{resources.get(name, 0):g} {name}s" for name in ("CPU", "GPU"))
            yield Finding(True, f"{where}: {size}")
            yield from _compare_node(where, answer, local)
    finally:
        ray.shutdown()


def _examine_node() -> dict[str, Any]:
    try:
        with closing(Sandbox(workers=1)) as sandbox:
            layers = dict(sandbox.layers())
    except (SandboxError, RuntimeError) as error:
        layers = {"sandbox": str(error)}
    return {"versions": {"Python": python_version(), **versions()}, "layers": layers}


def _compare_node(
    where: str, answer: dict[str, Any], local: dict[str, str | None]
) -> Iterator[Finding]:
    differences = [
        f"{name} {version} (here {local.get(name)})"
        for name, version in answer["versions"].items()
        if version != local.get(name)
    ]
    if differences:
        remedy = "install the same versions on all nodes"
        yield Finding(False, f"{where}: {', '.join(differences)}", remedy, core=True)
    gaps = {name: reason for name, reason in answer["layers"].items() if reason}
    if not gaps:
        yield Finding(True, f"{where}: all layers of the sandbox are on")
        return
    listed = "; ".join(f"{name}: {reason}" for name, reason in gaps.items())
    serious = any(name in REQUIRED or name == "sandbox" for name in gaps)
    remedy = "run `llm-decpomdp doctor` there; programs of models are less confined on this node"
    yield Finding(False, f"{where}: sandbox without {listed}", remedy, core=serious)
