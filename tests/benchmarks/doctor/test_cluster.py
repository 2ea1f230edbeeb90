"""The nodes of a Ray cluster, examined, and programs of models in its actors."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from llm_decpomdp.benchmarks.cli.main import app
from llm_decpomdp.benchmarks.doctor import cluster as doctor

HERE = {"Python": "3.11.7", "torch": "2.13.0"}


def judged(found: dict[str, Any]) -> list[tuple[bool, bool, str]]:
    return [(one.ok, one.core, one.message) for one in doctor._compare_node("node a", found, HERE)]


def test_a_node_like_this_one_is_fine() -> None:
    found = {"versions": HERE, "layers": {"seccomp": "", "landlock": ""}}
    assert judged(found) == [(True, False, "node a: all layers of the sandbox are on")]


def test_other_versions_and_missing_layers_are_told_with_the_node() -> None:
    found = {
        "versions": {**HERE, "torch": "2.12.0"},
        "layers": {"seccomp": "the kernel has none", "landlock": ""},
    }
    assert judged(found) == [
        (False, True, "node a: torch 2.12.0 (here 2.13.0)"),
        (False, True, "node a: sandbox without seccomp: the kernel has none"),
    ]


@pytest.mark.slow
def test_every_node_of_a_cluster_is_asked() -> None:
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.add_node(num_cpus=1)
    try:
        arguments = ["doctor", "--cluster", made.address, "--trusted-network"]
        done = CliRunner().invoke(app, arguments)
    finally:
        made.shutdown()
    assert done.exit_code == 0, done.output
    assert done.output.count("all layers of the sandbox are on") == 2
