"""Where problems come from: files, folders, and splits of them."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path

import pytest

import llm_decpomdp
from llm_decpomdp.envs.datasets import loading
from llm_decpomdp.envs.datasets.humaneval import COOPHUMANEVAL, HUMANEVAL
from llm_decpomdp.envs.datasets.loading import load, parse_split
from llm_decpomdp.envs.datasets.mbpp import MBPP
from llm_decpomdp.envs.datasets.rows import KNOWN_ISSUES
from llm_decpomdp.envs.writing.tasks import ABSTRACTS, POSTS
from tests.envs.own_rows import make_rows, write_json, write_lines, write_parquet

pytestmark = pytest.mark.usefixtures("offline")


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
        "aux_0": "def aux(x):\n    return x + 1",
        "main_0": "def f2(x):\n    return aux(x) + 1",
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
    told = (
        r"line 2: field 'entry_point' is missing; the row has 'task_id', 'prompt', .*docs/data.md"
    )
    with pytest.raises(ValueError, match=told):
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
    with pytest.raises(ValueError, match="or the path of an existing JSONL, JSON or Parquet file"):
        load(HUMANEVAL, "test", source)


def test_a_file_that_is_not_there_is_told_with_the_place_and_the_nearest_one(own, monkeypatch):
    monkeypatch.chdir(own.parent)
    with pytest.raises(ValueError) as error:
        load(HUMANEVAL, "test", "onw.jsonl")
    assert str(error.value) == (
        f"there is no file {own.parent / 'onw.jsonl'}; did you mean {str(own)!r}? A source is auto, hub, "
        "bundled, or the path of an existing JSONL, JSON or Parquet file"
    )
    with pytest.raises(ValueError, match=f"{own.parent} is a folder"):
        load(HUMANEVAL, "test", f"../{own.parent.name}")
    with pytest.raises(ValueError, match=f"did you mean 'hub'.*there is no {own.parent / 'hbu'}"):
        load(HUMANEVAL, "test", "hbu")


def test_a_relative_path_is_known_by_its_place(own, monkeypatch):
    monkeypatch.chdir(own.parent)
    assert load(HUMANEVAL, "test", "own.jsonl").source == str(own)
    assert load(HUMANEVAL, "test", f"../{own.parent.name}/own.jsonl").source == str(own)


def test_the_first_ten_bad_rows_are_told_at_once(tmp_path):
    rows = make_rows(30)
    lines = [json.dumps(row) for row in rows]
    lines[0] = "{oops"
    lines[1] = "[1]"
    for number in range(2, 14):
        del rows[number]["prompt"]
        lines[number] = json.dumps(rows[number])
    lines[20] = lines[19]
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError) as error:
        load(HUMANEVAL, "test", path)
    first, *told = str(error.value).splitlines()
    assert first == f"{path}: 15 of 30 rows are bad"
    assert told[0].startswith("  line 1: not valid JSON")
    assert told[1] == "  line 2: a row must be an object, got list"
    assert told[2].startswith("  lines 3, 4, 5, 6, 7, 8, 9, 10: field 'prompt' is missing; the row")
    assert told[3:] == ["  ... and 5 more"]


def test_a_byte_order_mark_is_read_over(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(map(json.dumps, make_rows())), encoding="utf-8-sig")
    assert len(load(HUMANEVAL, "test", path)) == 4


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        (
            "own.jsonl",
            '{"a": 1}\n{"a": "\u00f1"}'.encode("latin-1"),
            ", line 2: the byte 0xf1 is not UTF",
        ),
        (
            "own.jsonl",
            '{"a": 1}'.encode("utf-16"),
            " is in UTF-16: write the file in UTF-8, as with",
        ),
        ("own.jsonl", gzip.compress(b"{}", mtime=0), " is compressed with gzip: unpack it first"),
        (
            "own.jsonl.gz",
            gzip.compress(b"{}", mtime=0),
            " is compressed with gzip: unpack it first",
        ),
        ("own.parquet", b"{}", " is no Parquet file"),
    ],
)
def test_a_file_in_another_encoding_is_named_with_the_remedy(tmp_path, name, content, text):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError) as error:
        load(HUMANEVAL, "test", path)
    assert str(error.value).startswith(f"{path}{text}")


# Splits


@pytest.mark.parametrize("name", ["train", "test", "all"])
@pytest.mark.parametrize("dataset", [HUMANEVAL, MBPP, POSTS, ABSTRACTS], ids=lambda d: d.name)
def test_a_file_has_all_of_its_rows_in_each_split(tmp_path, dataset, name):
    row = {**dataset.bundled()[0], "split": None, "token_count": 200}
    key = "article_id" if dataset is ABSTRACTS else "task_id"
    rows = [{**row, "task_id": f"own/{n}", key: f"own/{n}"} for n in range(4)]
    path = write_lines(tmp_path / "own.jsonl", rows)
    assert len(load(dataset, name, path)) == 4
    assert [task.index for task in load(dataset, f"{name}[1:3]", path).tasks] == [1, 2]


def test_the_hubs_data_has_its_own_splits_alone():
    with pytest.raises(ValueError, match="unknown split 'train'; Valid: test"):
        llm_decpomdp.make("humaneval-v0", split="train")
    assert llm_decpomdp.make("humaneval-v0", split="train", source="own.jsonl")


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
        ("test[3:]+test[:2]", [3, 0, 1]),
        ("train[:25%] + test[75%:]", [0, 3]),
    ],
)
def test_a_split_is_sliced_and_keeps_the_rows_own_numbers(own, split, expected):
    tasks = load(HUMANEVAL, split, own)
    assert [task.index for task in tasks.tasks] == expected
    assert tasks.split == split


@pytest.mark.parametrize(
    "bounds",
    [
        "[:13%]",
        "[-13%:]",
        "[:-38%]",
        "[-62%:-13%]",
        "[99%:]",
        "[:99%]",
        "[-100%:]",
        "[-5:]",
        "[:7]",
    ],
)
def test_a_slice_means_what_it_means_in_datasets(tmp_path, bounds):
    datasets = pytest.importorskip("datasets")
    rows = [{**row, "task_id": f"own/{n}"} for n, row in enumerate(make_rows() * 2)]
    path = write_lines(tmp_path / "own.jsonl", rows)
    read = datasets.ReadInstruction.from_spec(f"test{bounds}").to_absolute({"test": len(rows)})
    expected = list(range(len(rows)))[read[0].from_ : read[0].to]
    if expected:
        assert [task.index for task in load(HUMANEVAL, f"test{bounds}", path).tasks] == expected
    else:
        with pytest.raises(ValueError, match="is empty"):
            load(HUMANEVAL, f"test{bounds}", path)


@pytest.mark.parametrize("split", ["test[-1%:]", "test[:-12%]", "test[-50%:-12%]"])
def test_a_negative_percentage_of_no_row_is_refused(own, split):
    with pytest.raises(ValueError, match=r"1?\d% of 4 rows is less than half a row.*such as -1"):
        load(HUMANEVAL, split, own)


REFUSED = [
    (r"must lie in \[-100%, 100%\], got -?\d+%", ["test[:200%]", "test[101%:]", "test[-120%:]"]),
    ("both bounds of a split must be rows, or both percentages", ["test[1:50%]", "test[10%:3]"]),
    ("split must look like", ["", "test[", "test[1]", "test[a:]", "test[1:2:3]", "test[1.5:]"]),
    ("or 'train\\+test\\[16:\\]', got '.*test", ["test+", "+test", "test++test"]),
    (r"unknown split 'tets'; did you mean 'test'\?", ["tets[:5]", "test[5:]+tets[:5]"]),
]


@pytest.mark.parametrize(("told", "splits"), REFUSED)
def test_a_wrong_split_is_refused_when_the_environment_is_made(told, splits):
    for split in splits:
        with pytest.raises(ValueError, match=told):
            llm_decpomdp.make("humaneval-v0", split=split)


@pytest.mark.parametrize("split", ["test[4:]", "test[2:2]", "test[:0%]"])
def test_an_empty_slice_is_refused(own, split):
    told = r"is empty: it has 4 rows; train, test or all takes all of them, test\[:50%\] the first half"
    with pytest.raises(ValueError, match=told):
        load(HUMANEVAL, split, own)
    with pytest.raises(ValueError, match=r"it has 164 rows; test takes all of them"):
        load(HUMANEVAL, "test[500:]", "bundled")


def test_a_split_is_parsed_into_the_names_and_bounds_of_its_parts():
    parts = [("train", "1", None), ("test", None, None)]
    assert parse_split("train[1:]+test", ("test", "train")) == parts


def test_joined_splits_have_the_tasks_of_each_as_in_datasets():
    joined = [task.task_id for task in load(MBPP, "validation+train", "bundled").tasks]
    single = [load(MBPP, split, "bundled").tasks for split in ("validation", "train")]
    assert joined == [task.task_id for tasks in single for task in tasks]


def test_parts_of_a_split_that_overlap_are_refused(own):
    with pytest.raises(
        ValueError, match=r"the parts of split 'test\[:2\]\+test\[1:\]' overlap: 'own"
    ):
        load(HUMANEVAL, "test[:2]+test[1:]", own)


def test_parts_from_different_places_are_refused(monkeypatch):
    def read_hub(repository, config, split, revision):
        if split == "test":
            raise OSError("the connection was reset")
        return list(MBPP.bundled()), "abc"

    monkeypatch.setattr(loading, "hub_has", lambda repository: True)
    monkeypatch.setattr(loading, "hub_rows", read_hub)
    assert load(MBPP, "train", "auto").source == "hub"
    with pytest.raises(
        ConnectionError, match=r"'train\+test' come from different places, hub abc and bundled: "
    ):
        load(MBPP, "train+test", "auto")


def test_an_empty_part_of_a_split_is_refused(own):
    with pytest.raises(ValueError, match=r"split 'test\[4:\]' of .* is empty"):
        load(HUMANEVAL, "test[:2]+test[4:]", own)


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
