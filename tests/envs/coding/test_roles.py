"""Roles of a coding team, and users' templates of their prompts."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

import llm_decpomdp
from llm_decpomdp import answers, check_env
from llm_decpomdp.envs.coding.roles import AuxRole, MainRole, coding_team
from llm_decpomdp.envs.datasets.humaneval import CodeTask, code_task


def make_task(prompt: str, entry_point: str = "now") -> CodeTask:
    test = "def check(candidate):\n    assert candidate(5) == 25\n"
    row = {"task_id": "t/0", "prompt": prompt, "test": test, "entry_point": entry_point}
    return code_task(0, row)


TASK = make_task('def sq(x: int) -> int:\n    """square"""\n', "sq")

PROMPT = '''\
{opening}

Problem:
def sq(x: int) -> int:
    """square"""

Rules:
{rules}
- Answer with Python code only: no explanations, no examples, no tests, no Markdown fences.

Format:
{header}:
    # your code here
    return result'''

AUX_PROMPT = PROMPT.format(
    opening="Write a helper function named `aux` for the coding problem below. A team-mate writes `sq` at the "
    "same time and may call your helper.",
    rules="- Name the function `aux` and choose the parameters that serve the problem.\n"
    "- Return data from which `sq` can build its answer.",
    header="def aux(...)",
)
SOLVE = "Solve the coding problem below by writing the function `sq`."
MAIN = {"opening": SOLVE, "header": "def sq(x: int) -> int"}
SIGNATURE = "- Define `sq` with exactly the signature shown.\n"
MAIN_PROMPT = PROMPT.format(
    rules=f"{SIGNATURE}- A team-mate writes a helper function `aux(...)` for this problem at the same time. You "
    "may call it and assign its result to a variable; do not define `aux` yourself.\n"
    "- Do work of your own beside the call: `sq` must not only return what `aux` returns.",
    **MAIN,
)
SINGLE_PROMPT = PROMPT.format(
    rules=f"{SIGNATURE}- Be complete: handle every case that the problem names.", **MAIN
)
AUX_OF_THREE = PROMPT.format(
    opening="Write a helper function named `aux_1` for the coding problem below. Team-mates write `sq`, which may "
    "call your helper, and the helpers `aux_0` and `aux_2` at the same time.",
    rules="- Name the function `aux_1` and choose the parameters that serve the problem.\n"
    "- Return data from which `sq` can build its answer.\n"
    "- Take a part of the problem that is of use by itself; define no other helper.",
    header="def aux_1(...)",
)
MAIN_OF_FOUR = PROMPT.format(
    rules=f"{SIGNATURE}- Team-mates write the helper functions `aux_0(...)`, `aux_1(...)`, `aux_2(...)` for this "
    "problem at the same time. You may call each of them and assign its result to a variable; do not define them "
    "yourself.\n- Do work of your own beside the calls: `sq` must not only return what the helpers return.",
    **MAIN,
)


def test_first_prompts_are_word_for_word():
    assert AuxRole().instructions(TASK) == AUX_PROMPT
    assert MainRole(("aux",)).instructions(TASK) == MAIN_PROMPT
    assert MainRole().instructions(TASK) == SINGLE_PROMPT
    team = coding_team(4)
    assert team[1].instructions(TASK) == AUX_OF_THREE
    assert team[-1].instructions(TASK) == MAIN_OF_FOUR


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


def test_of_two_helpers_each_hears_of_the_other():
    assert "the helper `aux_1` at" in coding_team(3)[0].instructions(TASK)


AUX = "Help with {entry_point} by writing {helper}, {{not this}}.\n{problem}\n{signature}|{helpers}"
MAIN = "{signature}: {{}} {problem} ({helpers})"


@pytest.fixture
def write(tmp_path):
    """Writes a template and returns its path."""

    def build(text: str, name: str = "template.txt") -> str:
        (tmp_path / name).write_text(text, "utf-8")
        return str(tmp_path / name)

    return build


def make(roles, num_agents: int = 2, env_id: str = "coophumaneval-v0"):
    return llm_decpomdp.make(env_id, source="bundled", num_agents=num_agents, roles=roles)


def test_a_template_words_the_first_prompt(write):
    roles = {
        "aux_0": {"template": write(AUX, "aux.txt")},
        "main_0": {"template": write(MAIN, "m.txt")},
    }
    env = make(roles)
    observations, _ = env.reset(options={"task_id": "HumanEval/150"})
    problem, header = env.task.prompt.strip("\n"), env.task.signature
    assert observations["aux_0"] == (
        f"Help with x_or_y by writing aux, {{not this}}.\n{problem}\n{header}|aux"
    )
    assert observations["main_0"] == f"{header}: {{}} {problem} (aux)"


def test_in_a_larger_team_each_helper_has_its_own_name(write):
    path = write("{helper} of {helpers}: {problem}")
    env = make({agent: {"template": path} for agent in ("aux_0", "aux_2")}, num_agents=4)
    observations, _ = env.reset(seed=0)
    assert observations["aux_2"].startswith("aux_2 of aux_0, aux_1, aux_2: ")
    assert observations["aux_0"].startswith("aux_0 of aux_0, aux_1, aux_2: ")
    assert observations["aux_1"].startswith("Write a helper function named `aux_1`")


def test_an_agent_alone_has_no_helpers_to_name(write):
    env = make({"main_0": {"template": write("[{helpers}] {problem}")}}, num_agents=1)
    assert env.reset(seed=0)[0]["main_0"].startswith("[] ")


def test_braces_of_the_problem_are_no_fields(write, tmp_path):
    row = {
        "task_id": "t/0",
        "prompt": 'def f(x):\n    """{x} {problem} {{}}"""\n',
        "entry_point": "f",
        "test": "assert f({}) == {}",
    }
    (tmp_path / "own.jsonl").write_text(json.dumps(row))
    env = llm_decpomdp.make(
        "humaneval-v0",
        source=str(tmp_path / "own.jsonl"),
        num_agents=1,
        roles={"main_0": {"template": write("{problem}")}},
    )
    assert env.reset(seed=0)[0]["main_0"] == row["prompt"].strip("\n")


def test_the_original_prompt_of_later_turns_is_the_users(write):
    env = llm_decpomdp.make(
        "coophumaneval-v0",
        source="bundled",
        original_prompt=True,
        roles={"main_0": {"template": write("Mine: {problem}")}},
    )
    env.reset(seed=0)
    assert "instructions:\nMine: " in env.step({"aux_0": "", "main_0": ""})[0]["main_0"]


def test_a_renamed_agent_plays_as_before_and_its_function_keeps_its_name():
    plain = make(None)
    env = make({"aux_0": {"name": "helper_0"}, "main_0": {"name": "solver_7"}})
    assert env.possible_agents == ["helper_0", "solver_7"]
    before, after = plain.reset(seed=3)[0], env.reset(seed=3)[0]
    assert list(after.values()) == list(before.values())
    broken = {"helper_0": answers(env).reference("helper_0"), "solver_7": "def f(:"}
    wrong = {"aux_0": answers(plain).reference("aux_0"), "main_0": "def f(:"}
    assert list(env.step(broken)[0].values()) == list(plain.step(wrong)[0].values())
    assert env.step(answers(env).references)[1] == {"helper_0": 4.0, "solver_7": 4.0}


def test_an_error_in_a_renamed_agents_code_is_told_with_its_line():
    env = make({"main_0": {"name": "solver_0"}})
    env.reset(options={"task_id": "HumanEval/150"})
    failing = "def x_or_y(n, x, y):\n    return 1 / 0"
    prompts = env.step({"aux_0": "def aux(n):\n    return n", "solver_0": failing})[0]
    assert "division by zero (line 2 of your code)" in prompts["solver_0"]


def test_a_renamed_team_with_templates_passes_our_strict_check(write):
    roles = {"aux_1": {"name": "tester_0", "template": write(AUX)}, "main_0": {"name": "boss_0"}}
    check_env(partial(make, roles, num_agents=3))


def test_an_experts_edits_reach_renamed_agents(expert):
    env = llm_decpomdp.make(
        "coophumaneval-v0",
        source="bundled",
        external_mode="expert_edits",
        expert_model="an expert",
        roles={"aux_0": {"name": "helper_0"}},
    )
    env.reset(seed=0)
    assert "Edits for aux_0." in env.step({"helper_0": "", "main_0": ""})[0]["helper_0"]
    assert [list(code) for _, code in expert.asked] == [["aux_0", "main_0"]]


# Refused


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{helper}", r"field 'problem' is missing, write {problem}; all fields: helper, problem"),
        ("{problem}", "field 'helper' is missing"),
        ("{problem} {helper} {entrypoint}", r"'entrypoint'; did you mean 'entry_point'\?"),
        ("{problem} {helper} {}", "unknown field ''"),
        ("{problem} {helper} {0}", "unknown field '0'"),
        ("{problem.text} {helper}", r"unknown field 'problem.text'; did you mean 'problem'"),
        ("{problem:>9} {helper}", "field 'problem' takes no format"),
        ("{problem!r} {helper}", "field 'problem' takes no format"),
        ("{problem} {helper} }", "Single '}' encountered .* write {{ and }} for braces"),
        ("{problem} {helper} {", "write {{ and }} for braces"),
    ],
)
def test_a_bad_template_is_refused_when_the_environment_is_made(write, text, problem):
    path = write(text)
    with pytest.raises(ValueError, match=problem) as error:
        make({"aux_0": {"template": path}})
    assert path in str(error.value)


def test_main_writes_no_helper_so_its_template_names_none(write):
    with pytest.raises(ValueError, match=r"unknown field 'helper'; did you mean 'helpers'\?"):
        make({"main_0": {"template": write("{problem} {helper}")}})


@pytest.mark.parametrize(
    ("roles", "problem"),
    [
        ({"aux_1": {}}, r"unknown agent in roles 'aux_1'; did you mean 'aux_0'\?"),
        (
            {"aux_0": {"nane": "a_0"}},
            r"unknown key in roles\['aux_0'\] 'nane'; did you mean 'name'",
        ),
        ({"aux_0": {"name": "Helper"}}, "an agent's name must look like 'role_0'"),
        ({"aux_0": {"name": 5}}, "an agent's name must look like 'role_0'"),
        ({"aux_0": {"name": "main_0"}}, "the agents need different names, got main_0, main_0"),
        ({"aux_0": "helper_0"}, r"roles\['aux_0'\] must be a mapping"),
        (["aux_0"], "roles must be a mapping"),
        ({"aux_0": {"template": "/nowhere.txt"}}, "path of a text file, got '/nowhere.txt'"),
        ({"aux_0": {"template": None}}, "path of a text file, got None"),
    ],
)
def test_wrong_wishes_are_refused_with_the_nearest_right_one(roles, problem):
    with pytest.raises(ValueError, match=problem):
        make(roles)


def test_wishes_stand_in_the_metadata_as_json(write):
    roles = {"aux_0": {"name": "helper_0", "template": write(AUX)}}
    assert json.loads(json.dumps(make(roles).metadata))["kwargs"]["roles"] == roles
    assert Path(roles["aux_0"]["template"]).is_file()
