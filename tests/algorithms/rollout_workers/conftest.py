"""A Ray cluster on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two nodes with a CPU each, beside a head without."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(2):
        made.add_node(num_cpus=1)
    closing = threading.Event()
    threading.Thread(target=reap, args=(made, closing), daemon=True).start()
    yield made
    closing.set()
    made.shutdown()


def reap(cluster: Any, closing: threading.Event) -> None:
    """Take note of nodes that have died, as init does elsewhere: to their actors a zombie lives on."""
    while not closing.wait(0.1):
        for node in cluster.list_all_nodes():
            for processes in list(node.all_processes.values()):
                for info in processes:
                    info.process.poll()
