"""Programs of models in Ray actors: the corpus, and what is worth stealing in a cluster."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.envs.sandbox import Program, Sandbox, instrument
from tests.support.processes import ROOT, python

pytestmark = pytest.mark.slow

REACHES_STORE = """
def attack():
    import socket
    try:
        socket.create_connection(({host!r}, {port}), timeout=1).close()
    except Exception as error:
        return type(error).__name__
    return "in"
"""

READS_TOKEN = """
def attack():
    import os
    found = [name for name in os.environ if "RAY" in name]
    try:
        found.append(open({path!r}).read())
    except Exception as error:
        return str(found)
    return "in"
"""


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A cluster of one node that asks for a token, which its actors have to know."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    token = tmp_path_factory.mktemp("token") / "auth_token"
    token.write_text("b" * 64)
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    ray.init(address=made.address, log_to_driver=False)
    yield ray
    ray.shutdown()
    made.shutdown()
    del os.environ["RAY_AUTH_TOKEN_PATH"]


def attack(program: str) -> tuple[bool, str]:
    """Run a program in a sandbox of this process; tell whether it stayed outside, and the result in full."""
    test = instrument("assert attack() != 'in'", "attack")
    with closing(Sandbox(workers=1)) as sandbox:
        (result,) = sandbox.run_batch([(Program((("main_0", program),), "attack"), test)])
    return all(test.passed for test in result.tests), str(result)


def test_programs_do_not_reach_the_control_store(ray: Any) -> None:
    host, port = ray.get_runtime_context().gcs_address.split(":")
    socket.create_connection((host, int(port)), timeout=5).close()  # whoever is not confined does
    program = REACHES_STORE.format(host=host, port=port)
    outside, told = ray.get(ray.remote(attack).remote(program))
    assert outside, told


def test_programs_do_not_read_the_token(ray: Any) -> None:
    path = os.environ["RAY_AUTH_TOKEN_PATH"]
    assert ray.get(ray.remote(lambda: Path(path).read_text()).remote()) == "b" * 64
    outside, told = ray.get(ray.remote(attack).remote(READS_TOKEN.format(path=path)))
    assert outside, told


def test_the_corpus_is_as_harmless_in_an_actor(ray: Any) -> None:
    def corpus() -> subprocess.CompletedProcess[str]:
        command = ["-m", "tests.attacks", "--without", "--quick", "--jobs", "1"]
        return python(*command, check=False, cwd=str(ROOT))

    done = ray.get(ray.remote(corpus).remote())
    assert done.returncode == 0, done.stdout
