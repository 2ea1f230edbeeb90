"""A centralized team: one agent that writes the parts of all."""

from __future__ import annotations

import json
import pickle
import time
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium_env

from llm_decpomdp import DecPOMDPEnv, answers, check_env, make, merge_agents
from llm_decpomdp.wrappers.centralized import (
    TEAM,
    centralize,
    join_parts,
    join_prompts,
    read_parts,
    read_prompts,
)
from tests.foreign_envs import Rendezvous
from tests.wrapper_cases import Paying

AGENTS = ("aux_0", "main_0")


def coding(**arguments: Any) -> DecPOMDPEnv:
    return make("coophumaneval-v0", centralized=True, source="bundled", split="test", **arguments)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<aux_0>a</aux_0><main_0>b</main_0>", ("a", "b")),
        ("So: < AUX_0 >\n  a\n</ Aux_0 > and <main_0\t>\nb b\n< /MAIN_0>.", ("a", "b b")),
        ("<main_0>b</main_0> then <aux_0>a</aux_0>", ("a", "b")),
        ("<aux_0>1</aux_0><aux_0>2</aux_0><main_0></main_0>", ("1", "")),
        ("<aux_0>1<aux_0>2</aux_0></aux_0>", ("2", None)),
        ("In <aux_0> and <main_0> tags:\n<aux_0>a</aux_0><main_0>b</main_0>", ("a", "b")),
        ("<think><aux_0>1</aux_0>?</think>\n<aux_0>a</aux_0><main_0>b</main_0>", ("a", "b")),
        ("<aux_0>cut off", (None, None)),
        ("</aux_0><aux_0>", (None, None)),
        ("<aux_0>a <main_0>b</main_0></aux_0>", ("a <main_0>b</main_0>", "b")),
        ("<aux_01>a</aux_01> <xaux_0>a</xaux_0> aux_0 <>", (None, None)),
        ("", (None, None)),
    ],
)
def test_completions_are_split_by_tags(text: str, parts: tuple[str | None, str | None]) -> None:
    assert tuple(read_parts(text, AGENTS).values()) == parts


def test_many_tags_cost_no_more_than_their_length() -> None:
    begin = time.process_time()
    for text in (
        "<aux_0>" * 14_000,
        "<" * 100_000,
        "< " * 50_000,
        "<" + " " * 100_000,
        "<aux_0>" + "</" * 50_000,
    ):
        read_parts(text, AGENTS)
    assert time.process_time() - begin < 5


def test_joined_parts_and_prompts_are_read_back() -> None:
    texts = {"aux_0": "x = 1\n\ny", "main_0": "<b>"}
    assert read_parts(join_parts(texts), AGENTS) == texts
    hostile = join_prompts({"aux_0": "\n===== main_0 =====\n", "main_0": "= ====== "})
    for first in ("", "one\n", "\n===== main_0 =====\ntwo", "==", hostile):
        prompts = {"aux_0": first, "main_0": f"{first}\n\nand more"}
        joint = join_prompts(prompts)
        assert read_prompts(joint, AGENTS) == prompts
        assert all(prompt in joint for prompt in prompts.values())


def test_gold_completions_of_every_bundled_problem_earn_full_marks() -> None:
    env = coding(num_turns=1)
    most = env.metadata["reward"]["maximum"]
    for task in env.tasks.tasks:
        env.reset(options={"task_id": task.task_id})
        _, rewards, _, _, infos = env.step({TEAM: answers(env).reference(TEAM)})
        assert rewards == {TEAM: pytest.approx(most)}, task.task_id
        assert infos[TEAM]["solved"] and not infos[TEAM]["untagged"]


def test_rewards_and_prompts_are_those_of_the_team() -> None:
    env, team = coding(), make("coophumaneval-v0", source="bundled", split="test")
    assert env.possible_agents == [TEAM] and list(env.authors) == team.possible_agents
    first, _ = env.reset(seed=3)
    prompts, _ = team.reset(seed=3)
    assert read_prompts(first[TEAM], team.possible_agents) == prompts
    parts = {
        "aux_0": "def aux(x):\n    return x",
        "main_0": answers(team).reference("main_0").strip(),
    }
    joint, reward, _, _, infos = env.step({TEAM: join_parts(parts)})
    prompts, rewards, _, _, of_team = team.step(parts)
    assert read_prompts(joint[TEAM], team.possible_agents) == prompts
    assert reward[TEAM] == rewards["main_0"]
    assert infos[TEAM] == of_team["main_0"] | {"untagged": 0, "missing_parts": 0}


def test_texts_without_tags_are_empty_parts_and_counted() -> None:
    env, team = coding(num_turns=1), make("coophumaneval-v0", source="bundled", split="test")
    team.reset(seed=0)
    silent = team.step({"aux_0": "", "main_0": ""})[1]["main_0"]
    main = answers(team).reference("main_0")
    for text, counts in ((main, (1, 2)), (f"<main_0>{main}</main_0>", (0, 1)), ("", (1, 2))):
        env.reset(seed=0)
        _, rewards, _, _, infos = env.step({TEAM: text})
        assert (infos[TEAM]["untagged"], infos[TEAM]["missing_parts"]) == counts
        assert (rewards[TEAM] == silent) == (counts == (1, 2))
        assert f"parts without tags: {counts[1]} of 2" in env.state()


def test_the_contract_holds() -> None:
    tagged = [join_parts({"aux_0": "def aux(x):\n    return x", "main_0": "pass"}), "<main_0>x"]
    check_env("probe-relay-v0", centralized=True, completions=[join_parts({"player_0": "a"})])
    check_env(coding, num_turns=2, completions=tagged)


def test_snapshots_forks_and_pickles_go_on_alike() -> None:
    env = coding(num_turns=3)
    env.reset(seed=1)
    text = join_parts({"aux_0": "def aux(x):\n    return x", "main_0": "def f(): pass"})
    env.step({TEAM: text})
    other = coding(num_turns=3)
    other.restore(json.loads(json.dumps(env.snapshot())))
    copies = [env.fork(), pickle.loads(pickle.dumps(env)), other]
    expected = env.step({TEAM: text})
    assert all(copy.step({TEAM: text}) == expected for copy in copies)
    plain = make("coophumaneval-v0", source="bundled", split="test")
    with pytest.raises(ValueError, match="cannot restore"):
        plain.restore(env.snapshot())


def test_it_is_named_in_the_metadata_and_done_once() -> None:
    env = coding()
    assert env.metadata["kwargs"]["centralized"] is True
    assert "parts of all agents: aux_0, main_0" in env.metadata["description"]
    again = make(env.spec_id, **env.spec_kwargs)
    assert again.metadata == env.metadata
    former = {"centralized": False, "centralised": True}  # the former spelling
    assert make(env.spec_id, **env.spec_kwargs | former).metadata == env.metadata
    with pytest.raises(ValueError, match="centralized already"):
        centralize(env)
    with pytest.raises(ValueError, match="centralized must be True or False"):
        make("coophumaneval-v0", centralized="no")


# One player for all agents: the same as the centralized team, for environments of any class


@pytest.mark.parametrize("env_id", ["probe-turns-v0", "probe-halves-v0", "probe-relay-v0"])
def test_a_joint_view_is_the_centralised_team(env_id):
    team, view = make(env_id, centralized=True), merge_agents(make(env_id))
    agents = make(env_id).possible_agents
    texts = (join_parts(dict.fromkeys(agents, "a")), "a", join_parts({agents[0]: "b"}))
    for seed in range(50):
        prompts, infos = team.reset(seed=seed)
        assert view.reset(seed=seed) == (prompts[TEAM], infos[TEAM])
        while team.agents:
            text = texts[seed % 3]
            played = team.step({TEAM: text})
            assert view.step(text) == tuple(values[TEAM] for values in played)


def test_a_wrapped_or_foreign_team_has_a_joint_view():
    view = merge_agents(Paying(Rendezvous()))
    prompt, _ = view.reset(seed=0)
    word = prompt.rpartition("Write ")[2].rstrip(".")
    parts = join_parts({"left_0": word, "right_0": word})
    twin = view.fork()
    _, reward, *_, info = view.step(parts)
    assert reward == 1.125 and info["missing_parts"] == 0
    _, reward, *_, info = twin.step(f"<left_0>{word}</left_0>")
    assert reward == 0.625 and (info["missing_parts"], info["untagged"]) == (1, 0)
    check_gymnasium_env(view, skip_render_check=True)


def test_players_with_rewards_of_their_own_have_no_joint_view():
    class Rivals(Rendezvous):
        def result(self, actions, found, over):
            prompts, _, *rest = super().result(actions, found, over)
            return prompts, {"left_0": 1.0, "right_0": 0.0}, *rest

    view = merge_agents(Rivals())
    view.reset(seed=0)
    with pytest.raises(ValueError, match=r"one reward for all, got .*'right_0': 0.0"):
        view.step("")
    with pytest.raises(TypeError, match=r"of a pettingzoo.ParallelEnv, got a Env"):
        merge_agents(gymnasium.Env())
