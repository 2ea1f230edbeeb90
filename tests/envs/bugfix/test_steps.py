"""Whether a variant of a program ends is decided by its steps, not by a clock."""

from __future__ import annotations

import pytest

from llm_decpomdp.envs.bugfix.programs import ProgramSource, bundled_faults, bundled_sources, counts
from llm_decpomdp.envs.bugfix.tasks import MAX_STEPS, limit_steps
from llm_decpomdp.envs.sandbox import Sandbox

TEST = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\n"


def executed(body):
    source = ProgramSource("Own/0", "", f"def square(x):\n{body}", "square", TEST)
    (execution,) = source.run(Sandbox(), [source.code])
    return execution


@pytest.mark.parametrize(
    "body",
    [
        "    while x:\n        continue\n",
        "    try:\n        while x:\n            pass\n    except BaseException:\n        return x\n",
        f"    for _ in range({MAX_STEPS}):\n        pass\n    return x * x\n",
        f"    return x * x + 0 * sum(0 for _ in range({MAX_STEPS}))\n",
        "    def fibonacci(n):\n        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)\n"
        "    return fibonacci(30)\n",
    ],
)
def test_a_program_of_too_many_steps_crashes(body):
    execution = executed(body)
    assert execution.tests[0].status == "crashed" and not counts(execution)


def test_the_steps_of_all_tests_count_together():
    body = f"    for _ in range({MAX_STEPS // 2}):\n        pass\n    return x * x\n"
    assert [test.status for test in executed(body).tests] == ["passed", "crashed"]


def test_only_the_code_of_these_names_is_counted():
    code = "import math\n\ndef f(x):\n    return g(x)\n\ndef g(x):\n    return x\n"
    text = limit_steps(code, {"f"})
    assert text.startswith("import math") and text.count("    __step__()") == 1


@pytest.mark.parametrize("name", ["Program/0", "OurClasses/1", "Bundled/20", "HumanEval/32"])
def test_counted_programs_do_the_same(name):
    (source,) = (source for source in bundled_sources() if source.name == name)
    (execution,) = source.run(Sandbox(), [source.code])
    assert execution.error is None and all(test.passed for test in execution.tests)


def test_a_fault_near_the_limit_on_time_is_none_for_its_steps():
    (source,) = (source for source in bundled_sources() if source.name == "HumanEval/75")
    fault = ("dropped_statement@5:13",)
    (execution,) = source.run(Sandbox(), [source.mutate(fault)])
    assert execution.tests[0].status == "crashed"
    assert fault not in bundled_faults()["HumanEval/75"]
