"""MBPP: what the tests call, what the prompt shows, and that every reference earns full marks."""

from __future__ import annotations

import ast
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import llm_decpomdp
from llm_decpomdp.envs.coding.reward import CodeReward
from llm_decpomdp.envs.coding.roles import coding_team
from llm_decpomdp.envs.datasets.loading import load
from llm_decpomdp.envs.datasets.mbpp import LAST_IDS, MBPP, SPLITS, find_entry_point, mbpp_task
from llm_decpomdp.envs.datasets.rows import KNOWN_ISSUES, BadRow
from llm_decpomdp.oracle import answers
from tests.envs.own_rows import write_lines

LOCAL = Path(os.environ.get("LLM_DECPOMDP_DATA", "")) / MBPP.filename
SIZES = {"prompt": 7, "test": 257, "validation": 43, "train": 120, "all": 427}

ROW = {
    "task_id": 11,
    "prompt": "Write a function to find the square.",
    "code": "def sq(x, base=1):\n  return x * x * base",
    "test_imports": [],
    "test_list": ["assert sq(2) == 4", "assert sq(3, 2) == 18"],
}


def rewards(tasks) -> dict[str, float]:
    """What each reference earns alone, where it is not full marks."""
    reward = CodeReward(coding_team(1))
    with ThreadPoolExecutor(4) as pool:
        verdicts = pool.map(lambda t: reward(t, {"main_0": t.references["main_0"]}), tasks)
        pairs = zip(tasks, verdicts, strict=True)
        return {task.task_id: verdict.reward for task, verdict in pairs if not verdict.solved}


# The rows


def test_a_row_becomes_a_task():
    task = mbpp_task(3, ROW)
    assert (task.task_id, task.index, task.entry_point) == ("MBPP/11", 3, "sq")
    assert task.signature == "def sq(x, base=1)"
    assert task.prompt == ('def sq(x, base=1):\n    """Write a function to find the square."""\n')
    assert task.tests.cases == ("assert sq(2) == 4", "assert sq(3, 2) == 18")
    assert task.references == {"main_0": ROW["code"]} and task.preamble == ""


BOTH = "def part(x):\n  return x\ndef whole(x):\n  return part(x)"


@pytest.mark.parametrize(
    ("code", "tests", "expected"),
    [
        (BOTH, ["assert whole(1) == 1"], "whole"),
        (BOTH, ["assert part(1) == 1"], "part"),
        (BOTH, ["assert set(whole([1])) == set([1])"], "whole"),
        (BOTH, ["assert math.isclose(whole(1), 1, rel_tol=0.001)"], "whole"),
        (BOTH, ["assert whole('a b').split()[0].upper() == 'A'"], "whole"),
        (BOTH, ["assert ''.join(whole('ab')) == 'ab'"], "whole"),
        (BOTH, ["assert not whole(0) or sorted(whole([2, 1]))[0] == 1"], "whole"),
        (BOTH, ["assert whole(part(1)) == 1"], "whole"),
        (BOTH, ["assert part(1) == 1", "assert part(2) == 2", "assert whole(1) == 1"], "part"),
        (BOTH + "\nprint(part(1))", ["assert part.__name__ and whole(1) == 1"], "whole"),
        ("async def a(x):\n  return x", ["assert asyncio.run(a(1)) == 1"], "a"),
    ],
)
def test_the_entry_point_is_what_the_tests_call(code, tests, expected):
    assert find_entry_point(ast.parse(code), ast.parse("\n".join(tests))) == expected


def test_a_method_of_that_name_is_not_the_function():
    with pytest.raises(BadRow, match=r"calls none of the functions in 'code': \['part', 'whole'\]"):
        find_entry_point(ast.parse(BOTH), ast.parse("assert [].whole(1) == 1"))


def test_what_tests_and_header_need_of_the_reference_is_given():
    code = (
        "import sys, math\nHALF = 3\nLIMIT = 2 * HALF\ndef unused(p):\n  return p\n"
        "def first(p, limit=LIMIT):\n  return unused(p) + limit"
    )
    row = {**ROW, "code": code, "test_list": ["assert first(4) + sys.getsizeof(1) > LIMIT"]}
    task = mbpp_task(0, row)
    assert task.entry_point == "first"
    assert task.preamble == "import sys, math\nHALF = 3\nLIMIT = 2 * HALF\n"
    assert task.signature == "def first(p, limit=LIMIT)" and "unused" not in task.prompt
    assert rewards([task]) == {}


def test_imports_of_the_tests_are_made_and_not_shown():
    tests = ["assert math.isclose(sq(2), 4.0)"]
    code = "import math\ndef sq(x):\n  return math.pow(x, 2)"
    row = {**ROW, "code": code, "test_list": tests, "test_imports": ["import math"]}
    task = mbpp_task(0, row)
    assert "import" not in task.prompt and rewards([task]) == {}
    without = mbpp_task(0, {**row, "code": ROW["code"], "test_imports": []})
    assert rewards([without]) == {"MBPP/11": pytest.approx(1.1)}


@pytest.mark.parametrize(
    "text", ['Say """hello""" \\n.', "One\n\n  two ' \" \\", "Ünïcode \u2028 x"]
)
def test_any_text_is_shown_as_it_stands(text):
    task = mbpp_task(0, {**ROW, "prompt": text})
    function = ast.parse(task.prompt).body[0]
    assert ast.literal_eval(function.body[0].value) == text
    assert rewards([task]) == {}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"code": ""}, "field 'code' must be a text"),
        ({"code": "def f(:"}, "field 'code' does not parse"),
        ({"test_list": []}, "field 'test_list' holds no test"),
        ({"test_list": None}, "field 'test_list' holds no test"),
        ({"test_list": "assert sq(1)"}, "field 'test_list' must be a list of texts"),
        ({"test_list": ["assert sq("]}, "field 'test_list' or 'test_imports' does not parse"),
        ({"test_list": ["assert other(1)"]}, r"calls none of the functions in 'code': \['sq'\]"),
        ({"test_imports": [5]}, "field 'test_imports' must be a list of texts"),
        ({"prompt": None}, "field 'prompt' must be a text"),
        ({"task_id": None}, "field 'task_id' must be a text"),
    ],
)
def test_a_bad_row_names_its_field(change, problem):
    with pytest.raises(BadRow, match=problem):
        mbpp_task(0, {**ROW, **change})


# The splits


@pytest.fixture
def own(tmp_path) -> Path:
    """A file with rows at the bounds of every split, one that names its split, and one without any."""
    ids = [1, 10, 11, 510, 511, 600, 601, 974, "own/1"]
    rows = [{**ROW, "task_id": task_id} for task_id in ids]
    rows.append({**ROW, "task_id": 12, "split": "train"})
    return write_lines(tmp_path / MBPP.filename, rows)


@pytest.mark.parametrize(
    ("split", "ids"),
    [
        ("prompt", ["MBPP/1", "MBPP/10", "own/1"]),
        ("test", ["MBPP/11", "MBPP/510", "own/1"]),
        ("validation", ["MBPP/511", "MBPP/600", "own/1"]),
        ("train", ["MBPP/601", "MBPP/974", "own/1", "MBPP/12"]),
        ("train[1:3]", ["MBPP/974", "own/1"]),
        ("all[-1:]", ["MBPP/12"]),
    ],
)
def test_a_row_belongs_to_the_split_of_its_id_or_to_the_one_that_it_names(own, split, ids):
    tasks = load(MBPP, split, own)
    assert [task.task_id for task in tasks.tasks] == ids
    whole = load(MBPP, split.partition("[")[0], own)
    assert [task.index for task in whole.tasks] == list(range(len(whole)))


def test_a_bad_row_is_named_by_its_line_in_the_whole_file(tmp_path):
    rows = [ROW, {**ROW, "task_id": 700}, {**ROW, "task_id": 701, "code": ""}]
    path = write_lines(tmp_path / "own.jsonl", rows)
    with pytest.raises(ValueError, match=r"own\.jsonl, line 3: field 'code'"):
        load(MBPP, "train", path)
    assert len(load(MBPP, "test", path)) == 1


def test_an_unknown_split_is_refused_when_the_environment_is_made():
    with pytest.raises(ValueError, match=r"unknown split 'tran'; did you mean 'train'\?"):
        llm_decpomdp.make("mbpp-v0", split="tran[:5]")
    with pytest.raises(ValueError, match="unknown split 'all'; Valid: test"):
        llm_decpomdp.make("humaneval-v0", split="all")


# Our problems


def test_every_bundled_reference_earns_full_marks():
    tasks = load(MBPP, "all", "bundled")
    assert len(tasks) == 40 and tasks.stand_in and tasks.source == "bundled"
    assert rewards(tasks.tasks) == {}


def test_bundled_problems_come_in_all_splits_and_never_in_two():
    found = [t.task_id for split in SPLITS for t in load(MBPP, split, "bundled").tasks]
    assert len(found) == len(set(found)) == 40
    assert [len(load(MBPP, split, "bundled")) for split in SPLITS] == [4, 20, 4, 12]


def test_a_team_plays_mbpp_and_is_told_the_real_header():
    env = llm_decpomdp.make("mbpp-v0", source="bundled", split="test", external_mode="plain")
    observations, _ = env.reset(seed=0)
    assert env.name == "mbpp_v0" and env.task.signature in observations["main_0"]
    main = answers(env).reference("main_0")
    assert env.step({"aux_0": "def aux(x):\n    return x", "main_0": main})[1]["main_0"] == 2.5


# The real rows


BY_THE_TEXT = {
    "MBPP/143": "def find_lists(t):\n    return sum(isinstance(part, list) for part in t)",
    "MBPP/164": "def are_equivalent(a, b):\n    return total(a) == total(b)\n"
    "def total(n):\n    return sum(d for d in range(1, n + 1) if n % d == 0)",
    "MBPP/295": "def sum_div(n):\n    return sum(d for d in range(1, n + 1) if n % d == 0)",
    "MBPP/310": "def string_to_tuple(text):\n    return tuple(text)",
    "MBPP/430": "def parabola_directrix(a, b, c):\n    return c - (b * b + 1) / (4 * a)",
    "MBPP/431": "def common_element(a, b):\n    return any(x in b for x in a)",
    "MBPP/443": "def largest_neg(values):\n    return max(v for v in values if v < 0)",
    "MBPP/461": "def upper_ctr(text):\n    return sum(c.isupper() for c in text)",
    "MBPP/468": "def max_product(a):\n    best = list(a)\n    for i in range(len(a)):\n"
    "        for j in range(i):\n            if a[j] < a[i]:\n"
    "                best[i] = max(best[i], best[j] * a[i])\n    return max(best)",
    "MBPP/574": "import math\ndef surfacearea_cylinder(r, h):\n    return 2 * math.pi * r * (r + h)",
    "MBPP/579": "def find_dissimilar(a, b):\n    return tuple(sorted(set(a) ^ set(b)))",
    "MBPP/581": "def surface_Area(b, h):\n    return b * b + 2 * b * ((b / 2) ** 2 + h * h) ** 0.5",
    "MBPP/590": "import math\ndef polar_rect(r, angle):\n"
    "    return r * math.cos(angle), r * math.sin(angle)",
    "MBPP/769": "def Diff(a, b):\n    return [x for x in a if x not in b] + [x for x in b if x not in a]",
    "MBPP/777": "def find_sum(values):\n    return sum(v for v in values if values.count(v) == 1)",
}


@pytest.mark.skipif(not LOCAL.is_file(), reason="LLM_DECPOMDP_DATA has no mbpp_sanitized.jsonl")
class TestRealRows:
    @pytest.mark.parametrize("split", SIZES)
    def test_the_splits_have_their_sizes(self, split):
        tasks = load(MBPP, split, "auto")
        assert (len(tasks), tasks.stand_in) == (SIZES[split], False)

    def test_the_splits_are_the_ranges_of_ids(self):
        begin = 0
        for split, last in zip(SPLITS, LAST_IDS, strict=True):
            numbers = [int(t.task_id.removeprefix("MBPP/")) for t in load(MBPP, split, LOCAL).tasks]
            assert begin < min(numbers) and max(numbers) <= last
            begin = last

    def test_rows_that_are_known_to_be_wrong_refuse_what_their_text_wants(self):
        tasks = {task.task_id: task for task in load(MBPP, "all", LOCAL).tasks}
        wrong = [task_id for task_id in KNOWN_ISSUES if task_id.startswith("MBPP/")]
        assert all(tasks[task_id].known_issue for task_id in wrong)
        reward = CodeReward(coding_team(1))
        for task_id, code in BY_THE_TEXT.items():
            assert tasks[task_id].known_issue
            verdict = reward(tasks[task_id], {"main_0": code})
            assert verdict.components["syntax"] == 0.5 and not verdict.solved, task_id

    def test_all_references_earn_full_marks_alone(self):
        tasks = load(MBPP, "all", LOCAL).tasks
        assert rewards(tasks) == {}
        for task in tasks:
            assert task.signature.startswith(f"def {task.entry_point}(")
            assert "(...)" not in task.signature
            assert task.tests.split and not task.tests.vary
