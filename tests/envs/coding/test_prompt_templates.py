"""Agents that a user renames, and prompts that a user words."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

import llm_decpomdp
from llm_decpomdp import check_env
from llm_decpomdp.oracle import answers

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
    team = {agent: answers(env).reference(agent) for agent in env.agents}
    assert env.step(team)[1] == {"helper_0": 4.0, "solver_7": 4.0}


def test_an_error_in_a_renamed_agents_code_is_told_with_its_line():
    env = make({"main_0": {"name": "solver_0"}})
    env.reset(options={"task_id": "HumanEval/150"})
    failing = "def x_or_y(n, x, y):\n    return 1 / 0"
    prompts = env.step({"aux_0": "def aux(n):\n    return n", "solver_0": failing})[0]
    assert "division by zero (line 2 of your code)" in prompts["solver_0"]


def test_a_renamed_team_with_templates_passes_our_strict_check(write):
    roles = {"aux_1": {"name": "tester_0", "template": write(AUX)}, "main_0": {"name": "boss_0"}}
    check_env(partial(make, roles, num_agents=3))


def test_an_experts_edits_reach_renamed_agents(monkeypatch):
    asked = []

    class Expert:
        def edits(self, task_prompt, completions):
            asked.append(list(completions))
            return {agent: f"Edits for {agent}." for agent in completions}

    monkeypatch.setattr(
        "llm_decpomdp.envs.feedback.code_mode.RemoteExpert", lambda model, base_url: Expert()
    )
    env = llm_decpomdp.make(
        "coophumaneval-v0",
        source="bundled",
        external_mode="expert_edits",
        expert_model="an expert",
        roles={"aux_0": {"name": "helper_0"}},
    )
    env.reset(seed=0)
    assert "Edits for aux_0." in env.step({"helper_0": "", "main_0": ""})[0]["helper_0"]
    assert asked == [["aux_0", "main_0"]]


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
