from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp import DecPOMDPEnv, answers, make
from llm_decpomdp.agents.scripted import Gold
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks import Replayed, evaluate, open_episodes, replay
from llm_decpomdp.benchmarks.analysis.replay import Difference, regrade
from llm_decpomdp.benchmarks.config.errors import ConfigError
from tests.benchmarks.cli.test_commands import call
from tests.benchmarks.evaluations import starts_of
from tests.benchmarks.stored_runs import Counted, Mixed, change, played, run_of

Make = Callable[..., DecPOMDPEnv]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose training rows are crossed trees: 4 + 4 * 4 joint samples each, less what was solved."""
    return run_of(tmp_path_factory.mktemp("tree"), "tree", joint_mode="cross").path


@pytest.fixture
def run(tree: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be changed."""
    for name in ("config.yaml", "manifest.json", "episodes.jsonl"):
        (tmp_path / name).write_text((tree / name).read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


def row_of(folder: Path, line: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (folder / "episodes.jsonl").read_text().splitlines()[line - 1]
    )
    return found


def test_trees_and_evaluations_of_a_run_agree(tree: Path) -> None:
    found = regrade(tree)
    rows = [row_of(tree, line) for line in (1, 2, 3, 4)]
    assert max(len(row["groups"]) for row in rows) > 2, "there is no tree"
    assert found.samples == sum(len(group["rewards"]) for row in rows for group in row["groups"])
    assert (found.episodes, found.differences, found.data) == (4, (), ())
    assert len({reward for row in rows for g in row["groups"] for reward in g["rewards"]}) > 2


def test_an_evaluation_agrees_from_tasks_and_from_seeds(tmp_path: Path) -> None:
    env = make("coophumaneval-v0", split="test[:2]", source="bundled", num_turns=2)
    team = {"aux_0": Mixed(None, ""), "main_0": Mixed(None)}
    starts = [Start(seed=3), Start(task_id=env.tasks.tasks[0].task_id)]
    evaluate(env, team, starts, samples=2, folder=tmp_path)
    assert (regrade(tmp_path).episodes, regrade(tmp_path).differences) == (4, ())


def test_an_evaluation_with_a_channel_agrees(tmp_path: Path) -> None:
    env = make("compose-v0", split="test[:2]", types="text", channel={"bandwidth": 9, "price": 0.1})
    team = {agent: Mixed(None, "hello") for agent in env.possible_agents}
    evaluate(env, team, starts_of(env), folder=tmp_path)
    assert (regrade(tmp_path).samples, regrade(tmp_path).differences) == (4, ())


def test_every_joint_sample_is_stepped_once(make_word_env: Make) -> None:
    env = make_word_env(num_turns=3)
    rows = list(enumerate(played(env, "tree"), 1))
    counted = Counted(env.reward)
    env.reward = counted
    found = list(replay({"train": env}, rows))
    samples = sum(len(group["rewards"]) for _, row in rows for group in row["groups"])
    assert len(counted.calls) == samples > 6 * (2 + 2)
    reached = [one for one in found if isinstance(one, Replayed)]
    assert sum(len(one.outcomes) for one in reached) == samples
    assert max(one.place.group.turn for one in reached) == 2
    for one in reached:
        assert tuple(outcome.reward for outcome in one.outcomes) == one.place.group.rewards
        assert one.prompts == one.place.group.prompts


def set_value(*keys: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    """An edit of a row that sets the value at some keys."""

    def edit(row: Any) -> None:
        for key in keys[:-1]:
            row = row[key]
        row[keys[-1]] = to

    return edit


reward = set_value("groups", 1, "rewards", 2, to=9.0)


def test_early_verdicts_are_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def without_details(row: dict[str, Any]) -> None:
        verdict = row["final"]["turns"][0]["verdict"]
        verdict |= {"tests": verdict.pop("details")}

    lines = sum(1 for _ in (run / "episodes.jsonl").open())
    change(run, lines, without_details)
    for command in ("rescore", "credit", "export", "report"):
        assert call(command, str(run)) == 2, command
        assert f"line {lines} has verdicts without details, as of an early version" in (
            capsys.readouterr().err
        )


@pytest.mark.parametrize(
    ("edit", "what", "turn", "group", "sample"),
    [
        (reward, "reward", 2, 2, 3),
        (set_value("groups", 0, "infos", 1, "reward/syntax", to=7.0), "reward/syntax", 1, 1, 2),
        (lambda row: row["groups"][0]["infos"][0].pop("solved"), "solved", 1, 1, 1),
        (set_value("groups", 0, "prompts", "main_0", to="Hi"), "the prompt of main_0", 1, 1, None),
        (set_value("groups", 2, "prompts", "aux_0", to="Hi"), "the prompt of aux_0", 2, 3, None),
    ],
)
def test_difference_is_found_at_its_place(
    run: Path, edit: Any, what: str, turn: int, group: int, sample: int | None
) -> None:
    change(run, 2, edit)
    (found,) = regrade(run).differences
    place = (found.line, found.turn, found.group, found.sample, found.what)
    assert place == (2, turn, group, sample, what)


def test_numbers_that_differ_by_rounding_agree(run: Path) -> None:
    def round_off(row: dict[str, Any]) -> None:
        row["groups"][0]["rewards"][0] += 1e-12

    change(run, 1, round_off)
    assert regrade(run).differences == ()


def test_a_changed_completion_changes_what_came_of_it(run: Path) -> None:
    change(run, 1, set_value("groups", 0, "completions", "aux_0", to=["", ""]))
    found = regrade(run).differences
    assert {one.line for one in found} == {1}
    assert {"reward", "reward/aux_defined"} <= {one.what for one in found if one.turn == 1}


def test_the_tests_of_an_episode_are_compared_one_by_one(run: Path) -> None:
    place = ("final", "turns", 0, "verdict", "details", "tests", 1, "status")
    change(run, 3, set_value(*place, to="timeout"))
    (found,) = regrade(run).differences
    assert (found.line, found.what, found.was) == (3, "test 2", "timeout")
    assert found.now in ("passed", "failed", "not_run", "error")


def test_unreached_states_are_listed_by_group(make_word_env: Make, tmp_path: Path) -> None:
    run = run_of(tmp_path).path
    line = next(n for n in (1, 2) if len(row_of(run, n)["groups"]) > 1)

    def solve(row: dict[str, Any]) -> None:
        group = row["groups"][0]
        env = open_episodes(run).envs["train"]
        env.reset(options={"task_id": row["start"]["task_id"]})
        for agent, texts in group["completions"].items():
            group["completions"][agent] = [answers(env).reference(agent)] * len(texts)

    change(run, line, solve)
    found = [one for one in regrade(run).differences if one.turn == 2]
    assert [(one.what, one.now) for one in found] == [
        ("the state", "the episode has already ended")
    ]


def test_tasks_that_are_gone_and_other_data_are_told_and_the_data_first(run: Path) -> None:
    text = (run / "config.yaml").read_text(encoding="utf-8")
    (run / "config.yaml").write_text(text.replace("test[2:4]", "test[3:4]"), encoding="utf-8")
    found = regrade(run)
    lines = found.lines()
    assert lines[0].startswith("the train data differ: ")
    assert "3 episodes" in lines[1]  # the fourth cannot be played
    gone = [one for one in found.differences if one.turn == 1]
    assert [(one.line, one.what) for one in gone] == [(1, "the state")]
    assert gone[0].task in str(gone[0].now)


def test_without_a_manifest_it_is_said_that_the_data_are_not_known(run: Path) -> None:
    (run / "manifest.json").unlink()
    assert "not known" in regrade(run).lines()[0]
    assert regrade(run).differences == ()


def test_a_folder_without_episodes_has_nothing_to_agree_on(run: Path) -> None:
    (run / "episodes.jsonl").write_text("")
    with pytest.raises(ConfigError, match="is empty, so there is nothing to grade"):
        regrade(run)


def test_an_episode_without_a_start_is_refused(run: Path) -> None:
    change(run, 1, lambda row: row["start"].update(task_id=None))
    with pytest.raises(ConfigError, match="line 1: the episode has neither a task nor a seed"):
        regrade(run)


def test_what_an_outside_model_wrote_is_not_asked_for_again(tmp_path: Path) -> None:
    run = run_of(tmp_path).path
    text = (run / "config.yaml").read_text(encoding="utf-8")
    text = text.replace("mode: level_feedback", "mode: expert_edits")
    text = text.replace("expert_model: null", "expert_model: gpt-x")
    (run / "config.yaml").write_text(text, encoding="utf-8")
    line = next(n for n in (1, 2) if len(row_of(run, n)["groups"]) > 1)
    change(run, line, lambda row: row["groups"][1]["prompts"].update(aux_0="The expert says: no."))
    change(run, line, lambda row: row["groups"][0]["infos"][0].update(expert_replies=1.0))
    assert regrade(run).differences == ()
    change(run, line, set_value("groups", 1, "rewards", 0, to=-9.0))
    assert [one.what for one in regrade(run).differences] == ["reward"]


def test_nor_is_it_asked_for_an_evaluation(tmp_path: Path) -> None:
    env = make("coophumaneval-v0", split="test[:1]", source="bundled", num_turns=2)
    team = {"aux_0": Mixed(""), "main_0": Mixed(None)}
    evaluate(env, team, starts_of(env), folder=tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    asking = {"external_mode": "expert_edits", "expert_model": "x", "on_expert_failure": "continue"}
    manifest["identity"]["environment"] |= asking
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    change(tmp_path, 1, lambda row: row["groups"][1]["prompts"].update(aux_0="The expert: no."))
    assert regrade(tmp_path).differences == ()


def extend_prompt(row: dict[str, Any]) -> None:
    row["groups"][0]["prompts"]["aux_0"] += "\n\nMore."


def test_baselines_of_earlier_versions_may_extend_prompts(tmp_path: Path) -> None:
    env = make("coophumaneval-v0", split="test[:1]", source="bundled", num_turns=1)
    team = dict.fromkeys(env.possible_agents, Gold())
    about: Mapping[str, str] = {"baseline": "one_round_discussion"}
    for name, identity in (("told", about), ("not", {})):
        evaluate(env, team, starts_of(env), folder=tmp_path / name, about=identity)
        change(tmp_path / name, 1, extend_prompt)
    assert regrade(tmp_path / "told").differences == ()
    assert {one.what for one in regrade(tmp_path / "not").differences} == {"the prompt of aux_0"}


def test_baselines_with_an_order_are_regraded_with_their_prompts(tmp_path: Path) -> None:
    order = ["aux_0", "main_0"]
    env = make("coophumaneval-v0", split="test[:1]", source="bundled", num_turns=1, order=order)
    team = dict.fromkeys(env.possible_agents, Gold())
    about = {"baseline": "sequential_pipeline"}
    evaluate(env, team, starts_of(env), folder=tmp_path, about=about)
    assert regrade(tmp_path).differences == ()
    change(tmp_path, 1, lambda row: row["groups"][1]["prompts"].update(main_0="More."))
    assert {one.what for one in regrade(tmp_path).differences} == {"the prompt of main_0"}


def test_command_fails_on_differences(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("rescore", str(run)) == 0
    assert "all agree" in capsys.readouterr().out
    change(run, 2, reward)
    file = run / "differences.jsonl"
    assert call("rescore", str(run), "--output", str(file)) == 1
    (told,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("line 2 "))
    (row,) = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    difference = Difference(**row)
    assert told == str(difference)
    assert difference.was == 9.0 != difference.now
    file = run / "nowhere" / "differences.jsonl"
    assert call("rescore", str(run), "--output", str(file)) == 1
    assert json.loads(file.read_text(encoding="utf-8")) == row


def test_an_incomplete_last_line_is_told_and_is_a_failure(
    run: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path = run / "episodes.jsonl"
    path.write_bytes(path.read_bytes()[:-100])
    assert call("rescore", str(run)) == 1
    told = capsys.readouterr().out
    assert "line 4 is incomplete and was not graded\nall others agree" in told
    assert f"{path}, line 4: the last line is incomplete" in caplog.text


@pytest.mark.parametrize("command", ["rescore", "credit", "report", "export"])
def test_every_command_names_a_damaged_line(
    run: Path, command: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path = run / "episodes.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][:40] + b"\n"
    path.write_bytes(b"".join(lines))
    more = ["--to", "jsonl"] if command == "export" else []
    assert call(command, str(run), *more) in (1, 2)
    assert f"error: {path}, line 2 is damaged" in capsys.readouterr().err
    path.write_bytes(b"".join([lines[0], lines[2], lines[3][:60]]))
    call(command, str(run), *more)
    assert f"{path}, line 3: the last line is incomplete" in caplog.text


def test_two_long_texts_are_told_from_where_they_part() -> None:
    told = str(Difference(1, "t", 1, 1, None, "the prompt", "a" * 500 + "x", "a" * 500 + "y"))
    assert told.endswith("was 'aaaaaaaaaaaaaaaaaaaax', is 'aaaaaaaaaaaaaaaaaaaay'")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no episodes.jsonl"),
        ({"episodes.jsonl": ""}, "neither a run's config.yaml nor an evaluation's manifest.json"),
        (
            {
                "episodes.jsonl": "",
                "manifest.json": '{"kind": "evaluation", "environment": "word_v0", '
                '"identity": {"environment": {"id": ""}, "about": {}}}',
            },
            "no registered id names",
        ),
    ],
)
def test_incomplete_folders_refused(files: dict[str, str], message: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        regrade(tmp_path)
