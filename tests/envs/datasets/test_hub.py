"""Problems from the hub, and what stands in where it cannot be reached."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import llm_decpomdp
from llm_decpomdp.envs.datasets.humaneval import COOPHUMANEVAL
from llm_decpomdp.envs.datasets.loading import load
from llm_decpomdp.envs.datasets.mbpp import MBPP
from llm_decpomdp.utils import hub
from tests.envs.hub_server import HubServer
from tests.envs.own_rows import make_rows, write_lines, write_parquet
from tests.support.processes import python
from tests.support.servers import Handler, Server

pytestmark = pytest.mark.usefixtures("offline")


class SilentServer:
    """Accepts connections and never answers; remembers how many came."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                self.connections.append(self.socket.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        for connection in (*self.connections, self.socket):
            connection.close()


@pytest.fixture
def silent_hub(monkeypatch) -> Iterator[SilentServer]:
    server = SilentServer()
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    yield server
    server.close()


def test_a_hub_that_does_not_answer_is_replaced_with_one_warning(silent_hub, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(hub, "PROBE_SECONDS", 0.3)
    with pytest.warns(UserWarning, match="coophumaneval uses the bundled stand-in") as caught:
        for _ in range(2):
            env = llm_decpomdp.make("coophumaneval-v0")
            env.reset(seed=0)
    assert len(caught) == 1
    assert len(silent_hub.connections) == 2
    data = env.metadata["data"]
    assert (data["source"], data["stand_in"], data["rows"]) == ("bundled", True, 82)


def test_the_hub_gets_less_than_three_seconds():
    assert hub.PROBE_SECONDS < 3


def test_an_insisted_on_hub_that_does_not_answer_is_an_error(silent_hub, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(hub, "PROBE_SECONDS", 0.3)
    with pytest.raises(
        ConnectionError, match="source='hub': the Hugging Face hub cannot be reached"
    ):
        load(COOPHUMANEVAL, "test", "hub")


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", "nonsense"])
def test_an_endpoint_that_is_not_there_is_a_hub_out_of_reach(monkeypatch, endpoint):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    assert not hub.hub_reachable()


def test_a_name_that_is_looked_up_for_long_is_a_hub_out_of_reach(monkeypatch):
    done = threading.Event()
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(hub, "PROBE_SECONDS", 0.1)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: done.wait(60) and [])
    begin = time.monotonic()
    reachable = hub.hub_reachable()
    seconds = time.monotonic() - begin
    done.set()
    assert not reachable and seconds < 30


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"])
def test_offline_means_no_call_at_all(silent_hub, monkeypatch, variable):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv(variable, "1")
    with pytest.warns(UserWarning, match="stand-in"):
        assert load(COOPHUMANEVAL, "test", "auto").stand_in
    with pytest.raises(ConnectionError):
        load(COOPHUMANEVAL, "test", "hub")
    assert silent_hub.connections == []


@pytest.fixture
def hub_folder(tmp_path, monkeypatch) -> Path:
    """A data set as the hub stores it."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "CoopHumanEval"
    (folder / "data").mkdir(parents=True)
    write_parquet(folder / "data" / "test-00000-of-00001.parquet", make_rows())
    return folder


@pytest.mark.parametrize("source", ["hub", "auto"])
def test_the_hubs_own_format_is_loaded_and_sliced(hub_folder, source):
    dataset = dataclasses.replace(COOPHUMANEVAL, hub=str(hub_folder))
    tasks = load(dataset, "test[1:]", source)
    assert [task.task_id for task in tasks.tasks] == ["own/1", "own/2", "own/3"]
    assert (tasks.source, tasks.stand_in) == ("hub", False)
    assert tasks.fingerprint == load(dataset, "test[1:]", source).fingerprint


def test_a_configuration_of_the_hub_has_the_splits_of_a_local_file(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    tests = {"test_imports": ["import math"], "test_list": ["assert sq(2) == 4"]}
    row = {"prompt": "Square it.", "code": "def sq(x):\n    return x * x", **tests}
    ids = {"prompt": [2, 3], "test": [11, 12, 510], "validation": [511], "train": [601, 602]}
    folder = tmp_path / "mbpp"
    entries = "".join(f"  - {{split: {split}, path: small/{split}.parquet}}\n" for split in ids)
    other = "- config_name: full\n  data_files: full.parquet\n"
    (folder / "small").mkdir(parents=True)
    (folder / "README.md").write_text(
        f"---\nconfigs:\n{other}- config_name: sanitized\n  data_files:\n{entries}---\n"
    )
    for split, numbers in ids.items():
        rows = [{"task_id": number, **row} for number in numbers]
        write_parquet(folder / "small" / f"{split}.parquet", rows)
    write_parquet(folder / "full.parquet", [{"task_id": 1, **row}])
    every = [{"task_id": number, **row} for numbers in ids.values() for number in numbers]
    local = write_lines(tmp_path / "mbpp.jsonl", every)
    dataset = dataclasses.replace(MBPP, hub=str(folder))
    for split in ("train", "test[1:]", "all", "all[2:5]"):
        from_hub, from_file = load(dataset, split, "hub"), load(dataset, split, local)
        assert from_hub.tasks == from_file.tasks
        assert from_hub.fingerprint == from_file.fingerprint
    assert len(load(dataset, "all", "hub")) == 8


def test_a_hub_that_answers_with_an_error_is_a_hub_out_of_reach(monkeypatch):
    class Unavailable(Handler):
        def do_GET(self):
            self.send_error(503)

    monkeypatch.delenv("HF_HUB_OFFLINE")
    with Server(Unavailable) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        with pytest.warns(UserWarning, match="stand-in"):
            assert load(COOPHUMANEVAL, "test", "auto").stand_in


def test_a_hub_that_answers_and_gives_no_data_is_replaced_and_said(monkeypatch, tmp_path, caplog):
    (tmp_path / "README.md").write_text("a folder without data")
    dataset = dataclasses.replace(COOPHUMANEVAL, hub=str(tmp_path))
    with pytest.warns(UserWarning, match="stand-in"):
        assert load(dataset, "test", "auto").stand_in
    assert "the hub does not give" in caplog.text


# The commit


SCRIPT = """
import dataclasses, json, sys
from llm_decpomdp.envs.datasets.humaneval import COOPHUMANEVAL
from llm_decpomdp.envs.datasets.loading import load

dataset = dataclasses.replace(COOPHUMANEVAL, hub="own/data")
for split, source in (("test", "hub"), ("test[1:]", "auto"), ("test", sys.argv[1])):
    tasks = load(dataset, split, source)
    print(json.dumps({**tasks.describe(), "first": tasks.tasks[0].task_id}))
"""


def test_what_the_hub_gave_is_known_by_its_commit_and_can_be_had_again(tmp_path):
    pytest.importorskip("datasets")
    old, new = "a" * 40, "b" * 40
    for commit, rows in ((old, make_rows(3)), (new, make_rows(4)[1:])):
        (tmp_path / commit / "data").mkdir(parents=True)
        write_parquet(tmp_path / commit / "data" / "test-00000-of-00001.parquet", rows)
    usual = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    with HubServer("own/data", {commit: tmp_path / commit for commit in (old, new)}, new) as hub:
        settings = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home"), "no_proxy": "*"}
        done = python("-c", SCRIPT, f"hub@{old}", env=usual | settings)
    assert "Generating" not in done.stderr and "%|" not in done.stderr  # bars, in a log file
    now, same, before = map(json.loads, done.stdout.splitlines())
    assert (now["source"], now["revision"], now["first"], now["rows"]) == ("hub", new, "own/1", 3)
    assert (same["source"], same["revision"], same["stand_in"]) == ("hub", new, False)
    assert (before["source"], before["revision"], before["first"]) == ("hub", old, "own/0")
    assert before["fingerprint"] != now["fingerprint"]
