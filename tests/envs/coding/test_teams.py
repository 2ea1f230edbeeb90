"""Teams of any size: how the points are shared out, whose helper is used, and what everybody is told."""

from __future__ import annotations

from functools import partial

import pytest

import llm_decpomdp
from llm_decpomdp import Turn, answers, check_env
from llm_decpomdp.envs.coding.feedback import FEEDBACK
from llm_decpomdp.envs.coding.reward import CodeReward
from llm_decpomdp.envs.coding.roles import coding_team
from llm_decpomdp.envs.feedback.code_mode import CodeMode, CodeOptions
from llm_decpomdp.envs.feedback.experts import expert_prompt, short_names
from llm_decpomdp.envs.sandbox import Limits, Sandbox
from tests.envs.own_rows import square_row, square_task, write_lines

MODES = (*FEEDBACK, "passed", "plain", "expert_edits")
TASK = square_task(2, 3)
SANDBOX = Sandbox(Limits(load_seconds=5, test_seconds=5))
NOTHING = "no code"


def helpers(number: int) -> list[str]:
    """Helpers that return minus their argument."""
    return [f"def aux_{index}(x):\n    return -x" for index in range(number)]


def main(body: str) -> str:
    return f"def sq(x):\n    {body}"


def played(*completions: str):
    """The roles of a team, its turn with these completions, main's last, and the verdict."""
    roles = coding_team(len(completions))
    texts = dict(zip((role.agent for role in roles), completions, strict=True))
    verdict = CodeReward(roles, SANDBOX)(TASK, texts)
    return roles, Turn({}, texts, verdict), verdict


def judge(*completions: str):
    return played(*completions)[2]


def points(*completions: str) -> tuple[float, ...]:
    """The components about helpers."""
    found = judge(*completions).components
    names = ("aux_defined", "uses_aux", "not_wrapper", "aux_ignored")
    return tuple(round(found[name], 9) for name in names)


# The shares


@pytest.mark.parametrize("number", [2, 3, 4, 7])
def test_a_team_of_any_size_earns_four_if_every_helper_is_used(number):
    calls = " + ".join(f"aux_{index}(x)" for index in range(number))
    verdict = judge(*helpers(number), main(f"return -x * ({calls}) // {number}"))
    assert verdict.reward == pytest.approx(4.0) and verdict.solved


ALL = "return aux_0(x) * aux_1(x) - aux_2(x) - x"
FIRST, SECOND = helpers(2)
CALLS_FIRST = "def aux_1(x):\n    return aux_0(x) * x"
CALLS_SECOND = "def aux_0(x):\n    return aux_1(x) * x"
WRONG_FIRST = "def aux_0(x):\n    return 99"
LOADS = "T = [aux_0(v) for v in range(9)]\ndef sq(x):\n    return T[x] * aux_1(x)"
NONE = "def aux_2(x):\n    pass"
ONE_OF_TWO = (0.4, 0.25, 0.5, 0.0)
SHARES = {
    "all": ((*helpers(3), main(ALL)), (0.4, 0.5, 1.0, 0.0)),
    "two of three": (
        (*helpers(3), main("return aux_0(x) * aux_1(x)")),
        (0.4, 0.5 * 2 / 3, 2 / 3, 0.0),
    ),
    "one of three": ((*helpers(3), main("return aux_2(x) * -x")), (0.4, 0.5 / 3, 1 / 3, 0.0)),
    "no call": ((*helpers(3), main("return x * x")), (0.4, 0.0, 0.0, 0.0)),
    "one missing": (
        (*helpers(2), NOTHING, main("return aux_0(x) * -x")),
        (0.4 * 2 / 3, 0.5 / 3, 1 / 3, 0.0),
    ),
    "one ignored": (
        (*helpers(3), main("aux_2(x)\n    return aux_0(x) * aux_1(x)")),
        (0.4, 0.5, 1.0, -0.5 / 3),
    ),
    "one without result": (
        (*helpers(2), NONE, main("return aux_2(x) or aux_0(x) * aux_1(x)")),
        (0.4 * 2 / 3, 0.5, 1.0, -0.5 / 3),
    ),
    "no main": ((*helpers(3), NOTHING), (0.4, 0.0, 0.0, 0.0)),
    "no test passes": (
        (FIRST, SECOND, main("return aux_0(x) + aux_1(x) + 99")),
        (0.4, 0.0, 0.0, 0.0),
    ),
    "helper called aux": (
        ("def aux(x):\n    return -x", SECOND, main("return aux_1(x) * -x")),
        (0.2, 0.25, 0.5, 0.0),
    ),
    "helper called by a helper": ((FIRST, CALLS_FIRST, main("return -aux_1(x)")), ONE_OF_TWO),
    "helper called by an earlier one": (
        (CALLS_SECOND, SECOND, main("return -aux_0(x)")),
        ONE_OF_TWO,
    ),
    "main's call never runs": (
        (FIRST, CALLS_FIRST, main("return aux_0(x) if x > 99 else -aux_1(x)")),
        ONE_OF_TWO,
    ),
    "replaced by a later helper": (
        (WRONG_FIRST, f"{FIRST}\n\n{SECOND}", main("return aux_0(x) * aux_1(x)")),
        ONE_OF_TWO,
    ),
    "called while loading": ((FIRST, SECOND, LOADS), (0.4, 0.5, 1.0, 0.0)),
    "replaced and called while loading": ((FIRST, f"{SECOND}\n\n{FIRST}", LOADS), ONE_OF_TWO),
    "defined by main": (
        (FIRST, SECOND, f"{FIRST}\n\ndef sq(x):\n    return aux_0(x) * aux_1(x)"),
        ONE_OF_TWO,
    ),
}


@pytest.mark.parametrize(("team", "expected"), SHARES.values(), ids=SHARES)
def test_each_helper_has_its_share_of_what_is_about_helpers(team, expected):
    assert points(*team) == tuple(round(value, 9) for value in expected)


def test_full_marks_need_every_helper():
    assert not judge(FIRST, SECOND, main("return aux_0(x) * -x")).solved
    assert judge(FIRST, SECOND, main("return aux_0(x) * aux_1(x)")).solved


# Wrappers

SQUARES = ["def aux_0(x):\n    return x * x", "def aux_1(x):\n    return x"]
WRAPPERS = {
    "one": "return aux_0(x)",
    "one given to the other": "return aux_1(aux_0(x))",
    "one after the other": "y = aux_0(x)\n    return aux_1(y)",
    "through a function of its own": "return inner(x)\n\ndef inner(x):\n    return aux_1(aux_0(x))",
}


@pytest.mark.parametrize("body", WRAPPERS.values(), ids=WRAPPERS)
def test_main_wraps_if_one_of_the_helpers_does_as_well(body):
    assert points(*SQUARES, main(body))[2] == 0.0


def test_work_of_its_own_is_more_than_wrapping():
    halves = "def aux_0(x):\n    return x * x / 2", "def aux_1(x):\n    return x * 2"
    assert points(*halves, main("return aux_1(aux_0(x))"))[1:3] == (0.5, 1.0)


def test_each_helpers_use_is_told_apart():
    code = main("aux_0(x)\n    y = aux_1(x)\n    return y * -x")
    uses = judge(*helpers(3), code).details["helpers"]
    assert uses == {"aux_0": "ignored", "aux_1": "used", "aux_2": "not called"}


# Helpers among themselves


def test_helpers_may_call_each_other():
    team = (FIRST, CALLS_FIRST, main("return -aux_1(x)"))
    assert judge(*team).components["tests"] == 1.0


def test_a_helper_of_two_authors_is_the_later_ones():
    both = f"{FIRST}\n\ndef aux_1(x):\n    return 99"
    assert judge(both, SECOND, main("return aux_0(x) * aux_1(x)")).solved
    team = (WRONG_FIRST, f"{FIRST}\n\n{SECOND}", main("return aux_0(x) * aux_1(x)"))
    assert judge(*team).components["tests"] == 1.0


def test_a_broken_helper_breaks_the_program_and_a_missing_one_does_not():
    body = main("return aux_0(x) * -x")
    assert judge(FIRST, "def aux_1(x):\n    return (", body).components["syntax"] == 0.0
    assert judge(FIRST, NOTHING, body).components["tests"] == 1.0


# What everybody is told


def told(mode: str, *completions: str) -> dict[str, str]:
    roles, turn, _ = played(*completions)
    return CodeMode(roles, FEEDBACK, CodeOptions(external_mode=mode))(TASK, turn)[0]


def test_main_is_told_of_every_helper_and_helpers_of_their_own_code_only():
    code = main("hidden = aux_0(x)\n    aux_1(x)\n    return hidden * -x")
    found = told("level_feedback", *helpers(3), code)
    assert "- Aux_0 usage: main calls aux_0 and uses its result\n" in found["main_0"]
    assert "- Aux_1 usage: called but misused (Line 3: " in found["main_0"]
    assert "- Aux_2 usage: main does NOT call aux_2\n" in found["main_0"]
    assert "- Aux_2 definition: FOUND\n" in found["aux_0"]
    assert "Your previous aux_1(...) implementation:\ndef aux_1(x)" in found["aux_1"]
    assert found["aux_1"].endswith(
        "Revise your aux_1(...) accordingly. Output ONLY the function code with no extra text."
    )
    assert all("hidden" not in found[f"aux_{index}"] for index in range(3))
    brief = told("level_passed", *helpers(3), code)["main_0"]
    assert "- Aux_0 usage: aux_0 call present and used\n- Aux_1 usage: aux_1 is called but" in brief


def test_a_syntax_error_of_one_of_several_team_mates_is_told_without_its_code():
    found = told(
        "level_feedback", "def aux_0(x):\n    return secret +*", *helpers(2)[1:], main(ALL)
    )
    assert "- Syntax: ERROR (in a team-mate's code)" in found["aux_1"]
    assert "secret" not in found["aux_1"] + found["main_0"]
    assert "SyntaxError at line 2" in found["aux_0"]


def test_an_expert_is_told_of_the_whole_team():
    names = short_names(["aux_0", "aux_1", "main_0"])
    assert names == {"aux_0": "aux_0", "aux_1": "aux_1", "main_0": "main"}
    text = expert_prompt("p", dict.fromkeys(names.values(), "code"))
    assert "3 agents solved" in text and "`aux_0` and `aux_1` each wrote" in text
    assert 'exactly "aux_0" and "aux_1" and "main"' in text


# Environments


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_agents", [3, 5])
def test_larger_teams_pass_our_strict_check(mode, num_agents, expert):
    settings = {"num_agents": num_agents, "external_mode": mode, "expert_model": "an expert"}
    check_env(partial(llm_decpomdp.make, "coophumaneval-v0", source="bundled", **settings))


def test_data_divides_its_solutions_between_two_only():
    env = llm_decpomdp.make("coophumaneval-v0", source="bundled", num_agents=3)
    env.reset(seed=0)
    for agent in env.possible_agents:
        with pytest.raises(LookupError, match=f"has no reference for agent '{agent}'"):
            answers(env).reference(agent)


def test_a_reference_that_needs_no_helper_stands_in_any_team():
    env = llm_decpomdp.make("humaneval-v0", num_agents=3)
    env.reset(seed=0)
    assert answers(env).reference("main_0") == env.task.references["main_0"]
    with pytest.raises(LookupError):
        answers(env).reference("aux_0")


def test_a_helper_handed_lazily_to_another_helper_is_used(tmp_path):
    path = write_lines(tmp_path / "own.jsonl", [square_row(3)])
    env = llm_decpomdp.make("coophumaneval-v0", source=str(path), num_agents=3)
    env.reset(seed=0)
    helpers = {
        "aux_0": "def aux_0(x):\n    return x * x + 1",
        "aux_1": "def aux_1(xs):\n    return sum(xs)",
    }
    main = "def sq(x):\n    return aux_1(map(aux_0, [x])) - 1"
    assert env.step({**helpers, "main_0": main})[1]["main_0"] == 4.0
