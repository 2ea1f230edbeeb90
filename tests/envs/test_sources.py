"""Where problems come from: files, folders, the hub, and what stands in when there is no network."""

from __future__ import annotations

import dataclasses
import json
import socket
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import llm_decpomdp
from llm_decpomdp.envs import sources
from llm_decpomdp.envs.humaneval import COOPHUMANEVAL, HUMANEVAL
from llm_decpomdp.envs.known_issues import KNOWN_ISSUES
from llm_decpomdp.envs.mbpp import MBPP
from llm_decpomdp.envs.sources import load, parse_split


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """No test reaches a network; each starts as a fresh process would."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("LLM_DECPOMDP_DATA", raising=False)
    monkeypatch.setattr(sources, "_warned", set())


def make_rows(number: int = 4) -> list[dict[str, str]]:
    return [
        {
            "task_id": f"own/{index}",
            "prompt": f'def f{index}(x):\n    """Add {index}."""\n',
            "test": f"def check(candidate):\n    assert candidate(1) == {index + 1}\n",
            "entry_point": f"f{index}",
        }
        for index in range(number)
    ]


def write_lines(path: Path, rows) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def write_json(path: Path, rows) -> Path:
    path.write_text(json.dumps(rows), "utf-8")
    return path


def write_parquet(path: Path, rows) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.fixture
def own(tmp_path) -> Path:
    return write_lines(tmp_path / "own.jsonl", make_rows())


# Files


@pytest.mark.parametrize(
    ("ending", "write"),
    [("jsonl", write_lines), ("json", write_json), ("parquet", write_parquet)],
)
def test_a_file_of_own_problems_is_played(tmp_path, ending, write):
    path = write(tmp_path / f"own.{ending}", make_rows())
    env = llm_decpomdp.make("coophumaneval-v0", source=str(path))
    observations, _ = env.reset(options={"task_id": "own/2"})
    assert "def f2(x):" in observations["main_0"]
    actions = {
        "aux_0": "def aux(x):\n    return x",
        "main_0": "def f2(x):\n    return aux(x) + 2",
    }
    assert env.step(actions)[1] == {"aux_0": 4.0, "main_0": 4.0}
    data = env.metadata["data"]
    assert (data["source"], data["rows"], data["stand_in"]) == (str(path), 4, False)


def test_a_path_object_is_a_source_too(own):
    assert len(load(COOPHUMANEVAL, "test", own)) == 4


def test_equal_data_has_one_fingerprint_whatever_its_file(tmp_path, own):
    prints = {
        load(HUMANEVAL, "test", path).fingerprint
        for path in (own, write_json(tmp_path / "own.json", make_rows()))
    }
    assert len(prints) == 1
    assert load(HUMANEVAL, "test[1:]", own).fingerprint not in prints


def test_unicode_line_separators_inside_a_text_end_no_line(tmp_path):
    rows = make_rows(2)
    rows[0]["prompt"] = 'def f0(x):\n    """One\u2028two\x85three\x0cfour."""\n'
    path = write_lines(tmp_path / "own.jsonl", rows)
    assert load(HUMANEVAL, "test", path).tasks[0].prompt == rows[0]["prompt"]


def test_blank_lines_at_the_end_and_windows_line_ends_are_fine(tmp_path):
    path = tmp_path / "own.jsonl"
    text = "\r\n".join(json.dumps(row) for row in make_rows()) + "\r\n\r\n\n"
    path.write_bytes(text.encode())
    assert len(load(HUMANEVAL, "test", path)) == 4


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"prompt": ""}, "line 3: field 'prompt' must be a text that is not empty, got ''"),
        ({"test": None}, "line 3: field 'test' must be a text that is not empty, got None"),
        ({"test": "def check(:"}, "line 3: field 'test': the test does not parse"),
        (
            {"entry_point": "a b"},
            "line 3: field 'entry_point' must be a function's name, got 'a b'",
        ),
        ({"task_id": "own/1"}, "line 3: field 'task_id' repeats 'own/1'"),
    ],
)
@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_a_bad_row_is_named_by_line_and_field(tmp_path, ending, change, text):
    rows = make_rows()
    rows[2].update(change)
    write = write_lines if ending == "jsonl" else write_json
    path = write(tmp_path / f"own.{ending}", rows)
    with pytest.raises(ValueError) as error:
        llm_decpomdp.make("humaneval-v0", source=str(path)).reset(seed=0)
    assert f"{path}, {text}" in str(error.value)


def test_a_missing_field_is_named(tmp_path):
    rows = make_rows()
    del rows[1]["entry_point"]
    with pytest.raises(ValueError, match=r"line 2: field 'entry_point' must be a text"):
        load(HUMANEVAL, "test", write_lines(tmp_path / "own.jsonl", rows))


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("own.jsonl", '{"task_id": 1}\n{oops\n', "line 2: not valid JSON"),
        ("own.jsonl", "{}\n\n{}\n", "line 2: not valid JSON"),
        ("own.jsonl", "[1]\n", "line 1: a row must be an object, got list"),
        ("own.jsonl", "", "is empty: it has 0 rows"),
        ("own.json", '{"rows": []}', "must hold a list of objects, got dict"),
        ("own.json", "[{]", "own.json: not valid JSON"),
        ("own.json", "[5]", "line 1: a row must be an object, got int"),
        ("own.csv", "a,b", "must end in .jsonl, .json or .parquet"),
    ],
)
def test_a_file_that_holds_no_rows_is_refused(tmp_path, name, content, text):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ValueError) as error:
        load(HUMANEVAL, "test", path)
    assert str(path) in str(error.value) and text in str(error.value)


@pytest.mark.parametrize("source", ["bundeled", "/nowhere/own.jsonl", "."])
def test_an_unknown_source_is_refused(source):
    with pytest.raises(ValueError, match=r"unknown source .* or the path of an existing JSONL"):
        load(HUMANEVAL, "test", source)


# Splits


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("test", [0, 1, 2, 3]),
        ("test[1:]", [1, 2, 3]),
        ("test[:1]", [0]),
        ("test[1:3]", [1, 2]),
        ("test[-1:]", [3]),
        ("test[:-1]", [0, 1, 2]),
        ("test[:50%]", [0, 1]),
        ("test[50%:]", [2, 3]),
        ("test[25%:75%]", [1, 2]),
        ("test[2:99]", [2, 3]),
    ],
)
def test_a_split_is_sliced_and_keeps_the_rows_own_numbers(own, split, expected):
    tasks = load(HUMANEVAL, split, own)
    assert [task.index for task in tasks.tasks] == expected
    assert tasks.split == split


@pytest.mark.parametrize("split", ["test[4:]", "test[2:2]", "test[:0%]"])
def test_an_empty_slice_is_refused(own, split):
    with pytest.raises(ValueError, match="is empty: it has 4 rows"):
        load(HUMANEVAL, split, own)


@pytest.mark.parametrize("split", ["", "test[", "test[1]", "test[a:]", "test[1:2:3]", "test[1.5:]"])
def test_a_malformed_split_is_refused_when_the_environment_is_made(split):
    with pytest.raises(ValueError, match="split must look like"):
        llm_decpomdp.make("humaneval-v0", split=split)


def test_an_unknown_split_is_refused_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"unknown split 'tets'; did you mean 'test'\?"):
        llm_decpomdp.make("humaneval-v0", split="tets[:5]")
    assert parse_split("train[1:]", ("test", "train")) == ("train", "1", None)


# Tasks that are known to be wrong


@pytest.fixture
def faulty(tmp_path) -> Path:
    """Four rows, the second and third of which bear the ids of tasks that are known to be wrong."""
    rows = make_rows()
    rows[1]["task_id"], rows[2]["task_id"] = "CoopHumanEval/2", "CoopHumanEval/12"
    return write_lines(tmp_path / "faulty.jsonl", rows)


def test_known_issues_stand_in_the_metadata(faulty, own):
    data = llm_decpomdp.make("coophumaneval-v0", source=str(faulty)).metadata["data"]
    wrong = {f"CoopHumanEval/{number}" for number in (2, 12)}
    assert data["known_issues"] == {task_id: KNOWN_ISSUES[task_id] for task_id in wrong}
    assert data["excluded"] == {} and data["rows"] == 4
    json.dumps(data)
    assert llm_decpomdp.make("humaneval-v0", source=str(own)).metadata["data"]["known_issues"] == {}


def test_known_issues_can_be_excluded_and_the_other_tasks_keep_their_places(faulty):
    env = llm_decpomdp.make("coophumaneval-v0", source=str(faulty), exclude_known_issues=True)
    assert [(t.task_id, t.index) for t in env.tasks.tasks] == [("own/0", 0), ("own/3", 3)]
    data = env.metadata["data"]
    assert data["excluded"] == {key: KNOWN_ISSUES[key] for key in data["excluded"]}
    assert set(data["excluded"]) == {"CoopHumanEval/2", "CoopHumanEval/12"}
    assert data["known_issues"] == {} and data["rows"] == 2
    assert data["fingerprint"] != load(COOPHUMANEVAL, "test", faulty).fingerprint


def test_a_slice_is_taken_before_known_issues_are_excluded(faulty):
    tasks = load(COOPHUMANEVAL, "test[1:4]", faulty, exclude_known_issues=True)
    assert [task.task_id for task in tasks.tasks] == ["own/3"]
    assert set(load(COOPHUMANEVAL, "test[:2]", faulty, True).excluded) == {"CoopHumanEval/2"}
    with pytest.raises(ValueError, match="holds nothing but tasks with known issues"):
        load(COOPHUMANEVAL, "test[1:3]", faulty, exclude_known_issues=True)


def test_a_wrong_flag_is_refused():
    with pytest.raises(ValueError, match="exclude_known_issues must be True or False, got 'yes'"):
        llm_decpomdp.make("humaneval-v0", exclude_known_issues="yes")


# Bundled data and folders of local copies


def test_humaneval_comes_from_its_package_and_stands_in_for_nothing():
    for source in ("auto", "bundled"):
        tasks = load(HUMANEVAL, "test", source)
        assert (len(tasks), tasks.source, tasks.stand_in) == (164, "package", False)


def test_bundled_problems_say_that_they_stand_in():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tasks = load(COOPHUMANEVAL, "test", "bundled")
    assert (len(tasks), tasks.source, tasks.stand_in) == (82, "bundled", True)


@pytest.mark.parametrize("dataset", [HUMANEVAL, COOPHUMANEVAL], ids=lambda d: d.name)
def test_a_folder_of_local_copies_comes_first(tmp_path, monkeypatch, dataset):
    path = write_lines(tmp_path / dataset.filename, make_rows())
    monkeypatch.setenv("LLM_DECPOMDP_DATA", str(tmp_path))
    tasks = load(dataset, "test", "auto")
    assert (len(tasks), tasks.source, tasks.stand_in) == (4, str(path), False)
    assert load(dataset, "test", "bundled").source != str(path)


def test_a_folder_without_the_file_is_told_of(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("LLM_DECPOMDP_DATA", str(tmp_path))
    assert load(HUMANEVAL, "test", "auto").source == "package"
    assert f"{tmp_path} has no humaneval.jsonl" in caplog.text


# The hub


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
    monkeypatch.setattr(sources, "PROBE_SECONDS", 0.3)
    with pytest.warns(UserWarning, match="coophumaneval uses the bundled stand-in") as caught:
        for _ in range(2):
            env = llm_decpomdp.make("coophumaneval-v0")
            env.reset(seed=0)
    assert len(caught) == 1
    assert len(silent_hub.connections) == 2
    data = env.metadata["data"]
    assert (data["source"], data["stand_in"], data["rows"]) == ("bundled", True, 82)


def test_the_hub_gets_less_than_three_seconds():
    assert sources.PROBE_SECONDS < 3


def test_an_insisted_on_hub_that_does_not_answer_is_an_error(silent_hub, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(sources, "PROBE_SECONDS", 0.3)
    with pytest.raises(
        ConnectionError, match="source='hub': the Hugging Face hub cannot be reached"
    ):
        load(COOPHUMANEVAL, "test", "hub")


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", "nonsense"])
def test_an_endpoint_that_is_not_there_is_a_hub_out_of_reach(monkeypatch, endpoint):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    assert not sources.hub_reachable()


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
    class Unavailable(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(503)

        def log_message(self, *_):
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Unavailable)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    try:
        with pytest.warns(UserWarning, match="stand-in"):
            assert load(COOPHUMANEVAL, "test", "auto").stand_in
    finally:
        server.shutdown()
        server.server_close()


def test_a_hub_that_answers_and_gives_no_data_is_replaced_and_said(monkeypatch, tmp_path, caplog):
    (tmp_path / "README.md").write_text("a folder without data")
    dataset = dataclasses.replace(COOPHUMANEVAL, hub=str(tmp_path))
    with pytest.warns(UserWarning, match="stand-in"):
        assert load(dataset, "test", "auto").stand_in
    assert "the hub does not give" in caplog.text
