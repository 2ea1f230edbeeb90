"""What each agent is asked on the first turn."""

from __future__ import annotations

import pytest

from llm_decpomdp.envs.coding.roles import AuxRole, MainRole, coding_team
from llm_decpomdp.envs.datasets.humaneval import CodeTask, code_task


def make_task(prompt: str, entry_point: str = "now") -> CodeTask:
    test = "def check(candidate):\n    assert candidate(5) == 25\n"
    row = {"task_id": "t/0", "prompt": prompt, "test": test, "entry_point": entry_point}
    return code_task(0, row)


TASK = make_task('def sq(x: int) -> int:\n    """square"""\n', "sq")

AUX_PROMPT = '''\
Write a helper function named `aux` for the coding problem below. A team-mate writes `sq` at the same time \
and may call your helper.

Problem:
def sq(x: int) -> int:
    """square"""

Rules:
- Name the function `aux` and choose the parameters that serve the problem.
- Return data from which `sq` can build its answer.
- Answer with Python code only: no explanations, no examples, no tests, no Markdown fences.

Format:
def aux(...):
    # your code here
    return result'''

MAIN_PROMPT = '''\
Solve the coding problem below by writing the function `sq`.

Problem:
def sq(x: int) -> int:
    """square"""

Rules:
- Define `sq` with exactly the signature shown.
- A team-mate writes a helper function `aux(...)` for this problem at the same time. You may call it and \
assign its result to a variable; do not define `aux` yourself.
- Do work of your own beside the call: `sq` must not only return what `aux` returns.
- Answer with Python code only: no explanations, no examples, no tests, no Markdown fences.

Format:
def sq(x: int) -> int:
    # your code here
    return result'''

SINGLE_PROMPT = '''\
Solve the coding problem below by writing the function `sq`.

Problem:
def sq(x: int) -> int:
    """square"""

Rules:
- Define `sq` with exactly the signature shown.
- Be complete: handle every case that the problem names.
- Answer with Python code only: no explanations, no examples, no tests, no Markdown fences.

Format:
def sq(x: int) -> int:
    # your code here
    return result'''


def test_first_prompts_are_word_for_word():
    assert AuxRole().instructions(TASK) == AUX_PROMPT
    assert MainRole(("aux",)).instructions(TASK) == MAIN_PROMPT
    assert MainRole().instructions(TASK) == SINGLE_PROMPT


def test_an_agent_alone_hears_of_no_helper():
    assert "aux" not in MainRole().instructions(TASK)


@pytest.mark.parametrize(
    ("prompt", "header"),
    [
        ('def now() -> int:\n    """time"""\n', "def now() -> int:"),
        (
            'def now(a: Tuple[int, int] = (1, 2), b=3):\n    """x"""\n',
            "def now(a: Tuple[int, int]=(1, 2), b=3):",
        ),
        (
            'def poly(xs, x):\n    return 0\n\n\ndef now(xs: list):\n    """x"""\n',
            "def now(xs: list):",
        ),
        ("def now(x):\n    # no docstring\n", "def now(x):"),
    ],
)
def test_the_format_shows_the_entry_points_own_signature(prompt, header):
    for helpers in (("aux",), ()):
        text = MainRole(helpers).instructions(make_task(prompt))
        stub = text.rpartition("Format:\n")[2]
        assert stub.splitlines()[0] == header
        compile(stub, "stub", "exec")


def test_a_problem_in_prose_is_asked_too():
    text = MainRole(("aux",)).instructions(make_task("Tell the time."))
    assert "Tell the time." in text and "def now(...):" in text


def test_no_first_prompt_holds_a_test():
    for role in coding_team(2):
        assert "25" not in role.instructions(make_task('def now(x):\n    """x"""\n'))


@pytest.mark.parametrize(
    ("number", "helpers"),
    [(1, ()), (2, ("aux",)), (3, ("aux_0", "aux_1")), (5, ("aux_0", "aux_1", "aux_2", "aux_3"))],
)
def test_a_team_has_any_number_of_helpers_and_one_main(number, helpers):
    team = coding_team(number)
    agents = [f"aux_{index}" for index in range(number - 1)]
    assert [role.agent for role in team] == [*agents, "main_0"]
    assert [role.function(TASK) for role in team] == [*helpers, "sq"]
    assert team[-1].helpers == helpers


@pytest.mark.parametrize("number", [0, -1, True, 2.0, "2", None])
def test_a_number_of_agents_that_is_none_is_refused(number):
    with pytest.raises(ValueError, match="num_agents must be a whole number of at least 1"):
        coding_team(number)


AUX_OF_THREE = '''\
Write a helper function named `aux_1` for the coding problem below. Team-mates write `sq`, which may call your \
helper, and the helpers `aux_0` and `aux_2` at the same time.

Problem:
def sq(x: int) -> int:
    """square"""

Rules:
- Name the function `aux_1` and choose the parameters that serve the problem.
- Return data from which `sq` can build its answer.
- Take a part of the problem that is of use by itself; define no other helper.
- Answer with Python code only: no explanations, no examples, no tests, no Markdown fences.

Format:
def aux_1(...):
    # your code here
    return result'''

RULES_OF_THREE = """\
- Define `sq` with exactly the signature shown.
- Team-mates write the helper functions `aux_0(...)`, `aux_1(...)`, `aux_2(...)` for this problem at the same \
time. You may call each of them and assign its result to a variable; do not define them yourself.
- Do work of your own beside the calls: `sq` must not only return what the helpers return.
"""


def test_first_prompts_of_a_larger_team_are_word_for_word():
    team = coding_team(4)
    assert team[1].instructions(TASK) == AUX_OF_THREE
    main = team[-1].instructions(TASK)
    assert RULES_OF_THREE in main
    assert main.partition("Rules:")[0] == MAIN_PROMPT.partition("Rules:")[0]


def test_of_two_helpers_each_hears_of_the_other():
    assert "the helper `aux_1` at" in coding_team(3)[0].instructions(TASK)
