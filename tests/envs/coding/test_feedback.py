"""Feedback of a coding team."""

from __future__ import annotations

import pytest

import llm_decpomdp
from llm_decpomdp import Turn, answers
from llm_decpomdp.envs.coding.feedback import FEEDBACK, lost_results, names
from llm_decpomdp.envs.coding.reward import CodeReward
from llm_decpomdp.envs.coding.roles import coding_team
from llm_decpomdp.envs.feedback.code_mode import NO_CODE, CodeMode, CodeOptions
from llm_decpomdp.envs.sandbox import Limits, Sandbox
from tests.envs.own_rows import square_task

AUX = "def aux(x):\n    return x * x"
MAIN = "def sq(x):\n    y = aux(x)\n    return y + (x > 2)"
ALONE = "def sq(x):\n    return x * x + (x > 2)"
GOOD = "def sq(x):\n    y = aux(x)\n    return y + 0"
TASK = square_task(1, 2, 3)
SANDBOX = Sandbox(Limits(load_seconds=5, test_seconds=5))


def feedback(main: str, aux: str | None = None, name: str = "level_feedback", **options):
    """The next prompts; without the previous response unless `options` want it."""
    completions = {"main_0": main} if aux is None else {"aux_0": aux, "main_0": main}
    roles = coding_team(len(completions))
    options = {"external_mode": name, "previous_response": False, **options}
    mode = CodeMode(roles, FEEDBACK, CodeOptions(**options))
    verdict = CodeReward(roles, SANDBOX)(TASK, completions)
    return mode(TASK, Turn({}, completions, verdict))[0]


# Definitions and syntax


def test_missing_functions_are_named():
    found = feedback("no code", "def helper(x):\n    return x")
    missing = "- Main definition: MISSING (no function named `sq`)"
    assert missing in found["main_0"] and missing in found["aux_0"]
    assert "- Aux definition: MISSING (no function named `aux`)" in found["aux_0"]
    assert "Aux usage" not in found["main_0"]
    assert "(`sq` never returns)" in feedback("def sq(x):\n    pass")["main_0"]


def test_without_code_the_previous_response_says_so():
    text = feedback("Sorry.", AUX, "plain", previous_response=True)["main_0"]
    assert f"implementation:\n{NO_CODE}\n" in text


def test_a_previous_response_is_the_code_that_was_run():
    completion = f"Sure:\n```python\n{ALONE}\n```\nDone."
    text = feedback(completion, None, "plain", previous_response=True)["main_0"]
    assert f"implementation:\n{ALONE}\n\nRevise" in text


BROKEN = "def {0}(x):\n    secret_word = x\n    return secret_word +* 2"


@pytest.mark.parametrize(
    "wrap", ["{0}", "Sure, here is my code:\n\n```python\n{0}\n```\nDone.", "\n\n\n{0}"]
)
def test_a_syntax_error_has_its_place_in_the_agents_own_code(wrap):
    found = feedback(wrap.format(BROKEN.format("sq")), AUX)
    assert "- Syntax: ERROR (SyntaxError at line 3, col 25 of your code:" in found["main_0"]
    assert "the joint program does not parse" in found["main_0"]


def test_a_team_mates_syntax_error_shows_nothing_of_its_code():
    for mine, found in (
        ("aux_0", feedback(BROKEN.format("sq"), AUX)),
        ("main_0", feedback(GOOD, BROKEN.format("aux"))),
    ):
        assert "- Syntax: ERROR (in your team-mate's code)" in found[mine]
        assert "secret_word" not in found[mine] and "line 3" not in found[mine]


@pytest.mark.parametrize("name", [*FEEDBACK, "passed", "plain"])
def test_a_team_mates_code_is_never_quoted(name):
    found = feedback("def sq(x):\n    hidden_name = aux(x)\n    return hidden_name", AUX, name)
    assert "hidden_name" not in found["aux_0"]
    assert "x * x" not in found["main_0"]


def test_an_exception_has_its_line_in_the_code_of_its_author_only():
    main = "Code:\n```python\nimport math\n\ndef sq(x):\n    y = aux(x)\n    return y / 0\n```"
    found = feedback(main, AUX)
    failed = "Failed case: assert sq(1) == 1 -> ZeroDivisionError: division by zero"
    assert f"{failed} (line 5 of your code)\n" in found["main_0"]
    assert f"{failed}\n" in found["aux_0"]
    found = feedback(GOOD, "def aux(x):\n    return 1 / 0")
    assert f"{failed} (line 2 of your code)\n" in found["aux_0"]
    assert f"{failed}\n" in found["main_0"]


def test_a_program_that_cannot_be_loaded_says_why_for_every_test():
    text = feedback("import nowhere\n" + GOOD, AUX, sandbox_slice=0)["main_0"]
    assert "- Tests: 0/3 passed" in text
    assert text.count("ModuleNotFoundError: No module named 'nowhere' (line 1 of your code)") == 3


# The other levels


@pytest.mark.parametrize(
    ("main", "full", "brief"),
    [
        (GOOD, "main calls aux and uses its result", "aux call present and used"),
        (ALONE, "main does NOT call aux", "main does not call aux"),
        (
            "def sq(x):\n    aux(x)\n    return x * x",
            "called but misused (Line 2: the result is thrown away)",
            "aux is called but its result is not used properly",
        ),
        (
            "def sq(x):\n    aux(x)\n    y = aux(x)\n    aux(x)\n    return x * x",
            "called but misused (Line 2: the result is thrown away; "
            "Line 3: the result is assigned to y but never used)",
            "aux is called but its result is not used properly",
        ),
    ],
)
def test_the_use_of_the_helper_is_told_to_main_only(main, full, brief):
    found = feedback(main, AUX)
    assert f"- Aux usage: {full}\n" in found["main_0"] and "Aux usage" not in found["aux_0"]
    found = feedback(main, AUX, "level_passed")
    assert f"- Aux usage: {brief}\n" in found["main_0"] and "Aux usage" not in found["aux_0"]


def test_a_thin_wrapper_is_warned_of():
    text = feedback("def sq(x):\n    return aux(x)", AUX)["main_0"]
    assert "- Warning: main is a thin wrapper around aux" in text
    halves = feedback("def sq(x):\n    return aux(x) // 2", "def aux(x):\n    return 2 * x * x")
    assert "Warning" not in halves["main_0"]
    assert "Warning" not in feedback("def sq(x):\n    pass", AUX)["main_0"]


def test_until_a_test_passes_only_the_helpers_name_is_known():
    main = "def sq(x):\n    return aux(x) + 99"
    assert "- Aux usage: main mentions aux\n" in feedback(main, AUX)["main_0"]
    assert "Aux usage: aux is mentioned;" in feedback(main, AUX, "level_passed")["main_0"]
    never = "def sq(x):\n    return aux(x) if x > 99 else x * x"
    found = feedback(never, AUX)["main_0"]
    assert "- Aux usage: main does NOT call aux in a test that passes\n" in found


def test_a_result_that_decides_nothing_is_told_without_a_line():
    main = "def sq(x):\n    y = aux(x)\n    return x * x if y is not None else 0"
    assert (
        "called but misused (the tests that pass need no more than a constant or its argument)"
        in feedback(main, AUX)["main_0"]
    )


@pytest.mark.parametrize(
    ("main", "aux", "expected"),
    [
        (GOOD, AUX, ["Implementation OK", "Syntax correct", "Passed all tests"]),
        (
            "def sq(x):\n    return -1",
            AUX,
            ["Implementation OK", "Syntax correct", "No tests passed"],
        ),
        (BROKEN.format("sq"), AUX, ["Implementation OK", "Syntax not correct", "No tests passed"]),
        (
            "",
            AUX,
            [
                "No implementation found in required structure",
                "Syntax correct",
                "No tests passed",
                "Aux usage: main missing, cannot check",
            ],
        ),
    ],
)
def test_level_passed_says_each_level(main, aux, expected):
    lines = feedback(main, aux, "level_passed", sandbox_slice=0)["main_0"].splitlines()
    assert lines[1 : 1 + len(expected)] == [f"- {line}" for line in expected]


@pytest.mark.parametrize(
    ("main", "aux", "all_passed"),
    [
        (GOOD, AUX, True),
        ("def sq(x):\n    return x * x", "", True),
        (MAIN, AUX, False),
        ("", AUX, False),
        (GOOD, "def aux(x):\n    return (x", False),
    ],
)
def test_passed_is_one_signal_for_everything(main, aux, all_passed):
    signal = "All levels passed" if all_passed else "Not all levels passed"
    for text in feedback(main, aux, "passed", sandbox_slice=0).values():
        assert text.splitlines()[0] == f"Signal: {signal}"


def test_prose_is_a_missing_implementation_and_no_syntax_error_in_either_mode() -> None:
    texts = {}
    for mode in ("level_feedback", "level_passed"):
        env = llm_decpomdp.make("coophumaneval-v0", source="bundled", external_mode=mode)
        env.reset(seed=0)
        prompts = env.step(
            {"aux_0": "I am sorry, dave.", "main_0": answers(env).reference("main_0")}
        )[0]
        texts[mode] = prompts["aux_0"]
    assert "- Syntax: OK" in texts["level_feedback"] and "MISSING" in texts["level_feedback"]
    assert "- Syntax correct" in texts["level_passed"]


def main(body: str, around: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{around}\ndef main(x, xs=()):\n{lines}"


def test_lines_on_which_a_result_is_lost_are_named():
    found = lost_results(main("aux(x)\ny = aux(x)\nz = aux(x)\nw: int = aux(x)\nreturn z"), "aux")
    assert found == (
        "Line 3: the result is thrown away",
        "Line 4: the result is assigned to y but never used",
        "Line 6: the result is assigned to w but never used",
    )


def test_names_are_looked_for_in_the_code_not_in_its_text():
    assert names("def main(x):\n    return [aux]", "aux")
    assert not names("def main(x):\n    return 'aux(x)'  # aux(x)", "aux")
    assert not names("def main(:", "aux")


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")  # garbage of other tests
def test_a_strange_escape_in_the_code_is_nobodys_business() -> None:
    assert names("def main(x):\n    return aux(x) + len('\\d')", "aux")
