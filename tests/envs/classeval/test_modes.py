"""What agents that complete a class are asked and told."""

from __future__ import annotations

from functools import partial

import pytest

import llm_decpomdp
from llm_decpomdp import check_env, make
from llm_decpomdp.envs.datasets.classeval import case_id

MODES = ("code_feedback", "level_feedback", "level_passed", "passed", "plain", "expert_edits")
TASK = {"task_id": "OurClasses/0"}


def build(mode="code_feedback", num_agents=2, **settings):
    extra = {"expert_model": "an expert"} if mode == "expert_edits" else {}
    settings |= {"num_agents": num_agents, "external_mode": mode}
    return llm_decpomdp.make("classeval-v0", source="bundled", **extra, **settings)


def second(env, answers=None):
    """The prompts of the second turn after `answers`, by default the solutions with one method wrong."""
    env.reset(options=TASK)
    if answers is None:
        answers = dict(llm_decpomdp.answers(env).references)
        answers["coder_0"] = answers["coder_0"].replace("return ", "return 1 or ", 1)
    observations, rewards, *_ = env.step({**dict.fromkeys(env.agents, ""), **answers})
    return observations, rewards["coder_0"], answers


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("by", ["balanced", "parameters", "dependency"])
@pytest.mark.parametrize("num_agents", [1, 2, 3, 5])
def test_the_strict_check_passes_whatever_the_team_and_the_division(mode, num_agents, by, expert):
    settings = {"num_turns": 3, "stop_when_solved": False, "sandbox_slice": -2}
    check_env(partial(build, mode, num_agents=num_agents, by=by, **settings))


def test_the_first_prompt_names_the_own_methods_and_shows_the_skeleton():
    env = build(num_agents=3)
    prompts, _ = env.reset(options=TASK)
    shares = [role.methods(env.task) for role in env.roles]
    for role, share in zip(env.roles, shares, strict=True):
        asked = prompts[role.agent].partition("Rules:")[0]
        assert all(f"- `{name}`" in asked for name in share)
        assert not any(
            f"`{name}`" in asked for other in shares if other is not share for name in other
        )
        assert env.task.prompt.strip() in prompts[role.agent]


def test_prompts_may_end_with_the_beginning_of_the_answer_which_references_have():
    plain, env = build(), build(answer_begins=True)
    for task in env.tasks.tasks[:4]:
        observations, _ = env.reset(options={"task_id": task.task_id})
        before, _ = plain.reset(options={"task_id": task.task_id})
        references = llm_decpomdp.answers(env).references
        for agent, role in zip(env.agents, env.roles, strict=True):
            prompt, _, begin = observations[agent].rpartition("\n\nYour answer begins with:\n")
            assert prompt == before[agent] and f"def {role.methods(task)[0]}(" in begin
            assert begin.endswith(":\n") and references[agent].startswith(f"{begin}    ")
        assert env.step(references)[1]["coder_0"] == pytest.approx(6.0)


def test_an_idle_agent_is_told_so_and_shown_nothing():
    env = build(num_agents=9)
    prompts, _ = env.reset(options=TASK)
    assert "empty text" in prompts["coder_8"] and "class TicketQueue" not in prompts["coder_8"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sandbox_slice", [1, -2])
def test_no_prompt_shows_a_test_that_may_not_be_shown(mode, sandbox_slice, expert):
    env = build(mode, sandbox_slice=sandbox_slice)
    first, _ = env.reset(options=TASK)
    later, _, _ = second(env)
    cases = env.task.tests.cases
    tests = cases[:1] if sandbox_slice == 1 else cases[-2:]
    shown = tests if mode == "level_feedback" else ()
    hidden = [case.partition("\n")[2] for case in cases if case not in shown]
    for prompt in [*first.values(), *later.values()]:
        assert not any(body in prompt for body in hidden)


def test_code_feedback_reaches_the_agents_on_turn_two():
    env = build()
    later, reward, _ = second(env)
    assert reward < 6.0
    details = env.episode.turns[0].verdict.details
    passed, total = details["tests_passed"], details["tests_total"]
    failing = [case_id(test["case"]) for test in details["tests"] if not test["passed"]]
    for prompt in later.values():
        assert f"Hidden tests passed: {passed}/{total}" in prompt
        assert f"Failing: {', '.join(failing[:5])}" in prompt
        assert env.task.prompt.strip() in prompt


def test_more_than_five_failing_tests_are_counted():
    env = build()
    later, _, _ = second(env, {"coder_0": "def order(self):\n    return 7"})
    details = env.episode.turns[0].verdict.details
    failing = details["tests_total"] - details["tests_passed"]
    assert f", +{failing - 5} more" in later["coder_1"]


@pytest.mark.parametrize("mode", MODES)
def test_each_agent_sees_its_own_methods_again_and_nobody_elses(mode, expert):
    env = build(mode)
    later, _, answers = second(env)
    for role in env.roles:
        for other in env.roles:
            own = other.read(env.task, answers[other.agent]).own
            present = [piece.code in later[role.agent] for piece in own]
            assert all(present) if other is role else not any(present)


def test_methods_of_others_are_no_part_of_the_own_history():
    env = build("plain", by="parameters")
    code = "def order(self):\n    return 1\n\ndef position(self, ticket):\n    return 2"
    later, _, _ = second(env, {"coder_0": code})
    assert "return 1" in later["coder_0"] and "return 2" not in later["coder_0"]


def test_history_can_be_left_out_and_the_first_prompt_repeated():
    env = build("plain", previous_response=False, original_prompt=True)
    first, _ = env.reset(options=TASK)
    later, _, _ = second(env)
    assert first["coder_0"] in later["coder_0"] and "Your previous" not in later["coder_0"]


def test_level_feedback_tells_of_each_own_method():
    env = build("level_feedback", by="parameters")
    broken = "def order(self):\n    return ((\n\ndef position(self, ticket):\n    return 1"
    later, _, _ = second(
        env, {"coder_0": broken, "coder_1": "def position(self, ticket):\n    return 1"}
    )
    prompt = later["coder_0"]
    assert "- `order`: SyntaxError at line 2" in prompt and "- `serve`: MISSING" in prompt
    assert "- Not yours to write: `position`" in prompt and "- Overlap: 1 methods" in prompt
    assert "- Syntax: ERROR (not in your methods)" in later["coder_1"]
    assert "- `position`: FOUND" in later["coder_1"]
    assert "order" not in later["coder_1"].partition("Failed")[0]


def test_signals_say_what_is_there():
    env = build("passed", stop_when_solved=False)
    env.reset(options=TASK)
    gold = llm_decpomdp.answers(env).references
    later, _, _ = second(env, gold)
    assert "Signal: All levels passed" in later["coder_0"]
    later, _, _ = second(env, {"coder_0": gold["coder_0"]})
    assert "Signal: Not all levels passed" in later["coder_0"]
    later, _, _ = second(build("level_passed", sandbox_slice=0), {"coder_0": gold["coder_0"]})
    assert "All your methods found" in later["coder_0"]
    assert "Not all your methods found" in later["coder_1"]


def test_the_expert_sees_the_skeleton_and_each_agent_its_own_edits(expert):
    env = build("expert_edits")
    later, _, answers = second(env)
    prompt, code = expert.asked[0]
    assert prompt == env.task.prompt and set(code) == set(answers)
    assert "Edits for coder_0" in later["coder_0"] and "Edits for coder_1" not in later["coder_0"]


def test_a_snapshot_restores_and_a_fork_goes_on_alone():
    env = build()
    _, _, answers = second(env)
    twin = build()
    twin.restore(env.snapshot())
    fork = env.fork()
    steps = [one.step(answers) for one in (env, twin, fork)]
    assert steps[0] == steps[1] == steps[2]
    assert env.state() == twin.state() == fork.state()


@pytest.mark.parametrize(
    "settings",
    [
        *({"external_mode": "code"}, {"by": "size"}, {"num_agents": 0}, {"split": "train"}),
        {"exclude_known_issues": 1},
    ],
)
def test_wrong_arguments_are_refused_when_the_environment_is_made(settings):
    with pytest.raises(ValueError):
        make("classeval-v0", **settings)
