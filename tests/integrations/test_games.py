"""Helpers of the adapters, and their examples, without any other library."""

from __future__ import annotations

import pytest

from llm_decpomdp.integrations.games import Games, shared_env, task_ids
from llm_decpomdp.policy import Completion, turns_before
from llm_decpomdp.utils import extras
from tests.foreign_envs import Rendezvous
from tests.support.commands import call
from tests.support.processes import ROOT, python

FOREIGN = ("trl", "openenv", "verifiers", "inspect_ai", "reasoning_gym", "textarena", "pyspiel")


def test_equal_options_share_an_environment():
    first = shared_env("probe-turns-v0", {"discount": 0.5, "offset": 1.0})
    assert shared_env("probe-turns-v0", {"offset": 1.0, "discount": 0.5}) is first
    assert shared_env("probe-turns-v0", {"offset": 1.0, "discount": 0.9}) is not first
    assert task_ids(first) == [task.task_id for task in first.tasks.tasks]


def test_an_environment_without_tasks_has_no_ids():
    with pytest.raises(TypeError, match="Rendezvous has no tasks"):
        task_ids(Rendezvous())


def test_no_other_library_is_imported_before_it_is_used():
    code = "import sys, llm_decpomdp.integrations.trl, llm_decpomdp.integrations.openenv\n"
    code += f"print(sorted(set({FOREIGN!r}) & set(sys.modules)))"
    assert python("-c", code).stdout == "[]\n"


@pytest.mark.parametrize(
    "name",
    [
        *("trl_lockstep.py", "openenv_client.py", "verifiers_team.toml", "inspect_roles.py"),
        *("reasoning_gym_sums.py", "textarena_guess.py", "openspiel_tiny_hanabi.py"),
    ],
)
def test_an_example_of_an_adapter_is_at_most_forty_lines(name):
    assert len((ROOT / "examples" / name).read_text(encoding="utf-8").splitlines()) <= 40


# The command `serve`, before OpenEnv is needed


def test_serve_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "installed", lambda package: None)
    assert call("serve", "probe-turns-v0") != 0
    assert "needs openenv" in (text := capsys.readouterr().err)
    assert "pip install 'openenv>=" in text.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--seat", "a_0", "--partner", "b_0"), "must look like AGENT=gold, got 'b_0'"),
        (("--seat", "a_0", *(("--partner", "b_0=gold") * 2)), "names 'b_0' twice"),
        (("--partner", "b_0=no/such-model"), "play beside a seat: name it with --seat"),
    ],
)
def test_partners_are_checked_before_anything_is_loaded(
    arguments: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("serve", "probe-turns-v0", *arguments) == 2
    assert text in capsys.readouterr().err.replace("\n", " ")


def test_partners_of_concurrent_episodes_read_their_own_histories():
    class Partner:
        history = "chat"

        def __init__(self):
            self.asked = []

        def generate(self, prompts, num_samples=1):
            self.asked.append([(str(p), [t.answer.text for t in turns_before(p)]) for p in prompts])
            return [[Completion("ab"[number])] for number in range(len(prompts))]

        def act(self, prompt):
            return "a"

    env, partner = shared_env("probe-memory-v0", {}), Partner()
    games = Games(env, task_ids(env)[:2], {"player_0": partner})
    for _ in range(3):
        games.step({0: {}, 1: {}})
    assert partner.asked[2] == [("abc", ["a", "a"]), ("abc", ["b", "b"])]
