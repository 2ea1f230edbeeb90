"""Swapped roles have the values that the rules of a probe give."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from llm_decpomdp.agents.saved_team import save_team
from llm_decpomdp.agents.scripted import Constant, RandomText, Scripted
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.analysis.crossplay import RoleSwap, read_role_swap, swap_roles
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.report.document import report
from llm_decpomdp.envs.probes.env import PAYOFFS
from llm_decpomdp.policy import Team
from llm_decpomdp.registry import make
from llm_decpomdp.utils.storage import read_json_lines
from tests.benchmarks.evaluations import starts_of
from tests.support.commands import call


class Answers(Scripted):
    """Answers each prompt by a table, and others with nothing."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self.table = dict(table)

    def act(self, prompt: str) -> str:
        return self.table.get(prompt, "")


def players(*policies: Scripted) -> Team:
    return {f"player_{place}": policy for place, policy in enumerate(policies)}


def rewards(found: RoleSwap) -> tuple[float, float, float]:
    effect = found.effects["last/reward_mean"]
    return effect.own.value, effect.swapped.value, effect.difference.value


def test_roles_with_different_questions_fail(tmp_path: Path) -> None:
    # The verifier answers `b` in the place of the player, who says nothing to the verifier's prompts but `ab`.
    env = make("probe-verifier-v0")
    team = players(Answers({"ab": "a"}), Answers({"aa": "a", "ab": "b"}))
    found = swap_roles(env, {"team": team}, starts_of(env), folder=tmp_path)
    assert rewards(found) == (1.0, 0.0, -1.0)
    assert found.agents == ("player_0", "player_1")
    assert found.effects["pass@1"].cells["team"]["swapped"].value == 0.0
    assert read_role_swap(tmp_path) == found


def test_a_code_and_its_inverse_can_swap(tmp_path: Path) -> None:
    # A bijection of three letters undoes its inverse in either order.
    code = {"a": "b", "b": "c", "c": "a"}
    team = players(Answers(code), Answers({word: letter for letter, word in code.items()}))
    env = make("probe-relay-turns-v0")
    found = swap_roles(env, {"team": team}, starts_of(env), folder=tmp_path)
    assert rewards(found) == (1.0, 1.0, 0.0)


def test_the_swapped_reward_is_that_of_the_transposed_pair(tmp_path: Path) -> None:
    env = make("probe-climbing-v0")
    teams = {name: players(Constant(name[0]), Constant(name[1])) for name in ("ac", "bc")}
    found = swap_roles(env, teams, starts_of(env), folder=tmp_path)
    cells = found.effects["last/reward_mean"].cells
    for name in teams:
        pair = [sum(PAYOFFS[word]) / 2 for word in (name, name[::-1])]
        assert [cells[name][case].value for case in ("own", "swapped")] == pair
    means = [sum(sum(PAYOFFS[w]) / 2 for w in words) / 2 for words in (("ac", "bc"), ("ca", "cb"))]
    assert rewards(found) == pytest.approx((*means, means[1] - means[0]))


@pytest.mark.parametrize(("agent", "said"), [(None, "zyx"), ("player_1", "yxz")])
def test_two_agents_of_a_larger_team_swap(agent: str | None, said: str, tmp_path: Path) -> None:
    env = make("probe-halves-v0", num_agents=3)
    team = players(*map(Constant, "xyz"))
    swap_roles(env, {"team": team}, starts_of(env)[:1], folder=tmp_path, agent=agent)
    (row,) = read_json_lines(tmp_path / "cells" / "team+swapped" / "episodes.jsonl")
    assert "".join(texts[0] for texts in row["groups"][0]["completions"].values()) == said


def test_final_scores_count_where_rewards_are_increases(tmp_path: Path) -> None:
    env = make("path-v1", split="test[:2]", size=3, wording="bare")
    letters = [task.solution[0] for task in env.tasks.tasks]
    team: Team = {"caller_0": Constant(""), "planner_0": Constant(letters[0])}
    starts = [Start(task_id=task.task_id) for task in env.tasks.tasks[:1]]
    found = swap_roles(env, {"team": team}, starts, folder=tmp_path)
    returns = found.effects["return"]
    # A silent planner earns 0. The sum of the rewards of five moves of the planner is the final score.
    assert returns.swapped.value == 0.0
    assert returns.own.value == pytest.approx(played_alone(letters[0]))


def played_alone(letter: str) -> float:
    env = make("path-v1", split="test[:2]", size=3, wording="bare")
    env.reset(options={"task_id": env.tasks.tasks[0].task_id})
    while env.agents:
        env.step(dict.fromkeys(env.acting, letter))
    return float(env.episode.turns[-1].verdict.details["score"])


def test_bad_input_refused(tmp_path: Path) -> None:
    env = make("probe-rendezvous-v0")
    team, one = players(Constant("a"), Constant("b")), Constant("a")
    for agent, message in (("player_0", "is the first agent"), ("player_7", "did you mean")):
        with pytest.raises(ConfigError, match=message):
            swap_roles(env, {"team": team}, starts_of(env), folder=tmp_path, agent=agent)
    with pytest.raises(ConfigError, match=r"have one policy, .* changes nothing"):
        swap_roles(env, {"team": players(one, one)}, starts_of(env), folder=tmp_path)
    with pytest.raises(ConfigError, match="two agents at least"):
        alone = make("probe-halves-v0", num_agents=1)
        swap_roles(alone, {"team": players(one)}, starts_of(alone), folder=tmp_path)


def test_command_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    team = players(RandomText(seed=0), RandomText(seed=1))
    save_team(team, tmp_path / "noise")
    output = ["--env", "probe-halves-v0", "--output", str(tmp_path / "out")]
    assert call("crossplay", str(tmp_path / "noise"), "--swap-roles", *output) == 0
    assert "swapped minus own" in " ".join(capsys.readouterr().out.split())
    cells = sorted((tmp_path / "out" / "cells").iterdir())
    page = report(cells, tmp_path / "page.html", files=False).read_text(encoding="utf-8")
    assert "player_0 and player_1 exchange their policies" in page
    assert page.count("paired by team and task") == 2
    assert call("crossplay", str(tmp_path / "noise"), *output) == 2
    assert "--swap-roles needs one" in capsys.readouterr().err
