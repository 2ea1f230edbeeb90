"""Expert iteration: which episodes are lessons, what they teach, and runs that go on in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Start, Timer
from llm_decpomdp.algorithms.training.expert_iteration import EPISODES, ExpertIteration, passes
from llm_decpomdp.algorithms.training.warm_start import WarmStartOptions
from llm_decpomdp.policy import Completion
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.conftest import EchoEnv, Recurrent
from tests.algorithms.runs import Run, build, require_equal, require_resumed, rows, stop, weights
from tests.algorithms.training.test_metrics import documented, pattern
from tests.algorithms.training.test_sft import Pupil, pupils

PROBLEMS = [Start(task_id="a"), Start(task_id="b")]


def options(**values: Any) -> WarmStartOptions:
    defaults = {"source": "passes", "learning_rate": 0.02, "samples": 6, "min_reward": 2.0}
    return WarmStartOptions(**{**defaults, **values})


def iteration(team: dict[str, Pupil], **values: Any) -> ExpertIteration:
    return ExpertIteration(EchoEnv(2), team, PROBLEMS, options(**values), seed=3)


def test_all_turns_of_passing_episodes_are_lessons_by_their_sampled_tokens() -> None:
    rollouts = collect_rollouts(EchoEnv(2), pupils(), PROBLEMS, EPISODES, group_size=60)
    found = passes(rollouts, ["x", "y"], min_reward=2.0)
    expected = {}
    total = 0
    for rollout in rollouts:
        parents = {group.parent for group in rollout.groups}
        for index, group in enumerate(rollout.groups):
            for j, joint in enumerate(group.joint):
                if (index, j) in parents or group.rewards[j] < 2.0:
                    continue
                total += 1
                said = [(group, joint)]
                if group.parent:
                    before = rollout.groups[group.parent.group]
                    said.append((before, before.joint[group.parent.sample]))
                lesson = [
                    (a, g.prompts[a], g.completions[a][i])
                    for g, indices in said
                    for a, i in zip("xy", indices, strict=True)
                ]
                key = (rollout.start.task_id, *((a, p, c.text) for a, p, c in lesson))
                expected.setdefault(key, lesson)
    assert [
        [(e.agent, e.prompt, e.completion) for e in one] for one in found.demonstrations
    ] == list(expected.values())
    assert found.passed == total > len(found.demonstrations) > 3 and found.episodes == 120
    completion = found.demonstrations[0][0].completion
    assert isinstance(completion, Completion) and completion.tokens
    alone = passes(rollouts, ["y"], min_reward=2.0)
    assert {example.agent for lesson in alone.demonstrations for example in lesson} == {"y"}


def test_solved_decides_where_no_reward_is_named_and_the_environment_tells_it() -> None:
    rollouts = collect_rollouts(EchoEnv(2), pupils(), PROBLEMS, EPISODES, group_size=30)
    ends = passes(rollouts, ["x", "y"])  # EchoEnv is solved where both say nothing
    last = [[one.completion.text for one in lesson[:2]] for lesson in ends.demonstrations]  # type: ignore[union-attr]
    assert last and all(texts == ["", ""] for texts in last)
    for info in (info for r in rollouts for group in r.groups for info in group.infos):
        del info["solved"]
    with pytest.raises(ValueError, match=r"no `solved` in its infos.*min_reward"):
        passes(rollouts, ["x", "y"])


def test_rounds_make_passes_likelier() -> None:
    team = {agent: Pupil(Recurrent(3, 8, seed=1), "ab", 8) for agent in "xy"}
    expert = iteration(team, samples=24, rounds=3, epochs=6, min_reward=3.0, batch_size=8)
    steps = []
    while not expert.done:
        expert.prepare(Timer())
        steps.append(expert.accumulate())
        expert.step()
    rate = [next(r["pass_rate"] for r in steps if r["round"] == n) for n in (1, 2, 3)]
    assert rate[2] > 1.5 * rate[0] > 0
    assert [row["step"] for row in steps] == list(range(1, len(steps) + 1))


def test_a_truncated_completion_is_no_lesson_and_a_sampled_one_keeps_its_tokens() -> None:
    team = pupils()
    expert = iteration(team, samples=40)
    expert.prepare(Timer())
    learned = [e.completion for lesson in expert._encoded for e in lesson]
    sampled = [e.completion for lesson in expert._passes.demonstrations for e in lesson]
    kept = [one for one in sampled if isinstance(one, Completion) and not one.truncated]
    assert learned == kept and len(kept) < len(sampled)
    assert all(one.tokens[-1] == 0 for one in learned)  # the end


def test_without_a_pass_the_error_says_what_to_do() -> None:
    expert = iteration(pupils(), min_reward=100.0)
    reason = r"round 1 .*none of 12 episodes of 2 problems passed, .* raise warm_start.samples, lower min_reward"
    with pytest.raises(ValueError, match=reason):
        expert.prepare(Timer())


def test_options_of_passes_are_refused_with_other_sources() -> None:
    for values in ({"samples": 2}, {"rounds": 2}, {"min_reward": 0.0}):
        with pytest.raises(
            ValueError, match="means nothing with source=gold: set source to passes"
        ):
            WarmStartOptions(source="gold", **values)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="means nothing with source=None"):
            WarmStartOptions(**values)  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------- runs


def expert_run(folder: Path, **more: Any) -> Run:
    team = pupils()
    expert = iteration(team, samples=8, rounds=2, batch_size=3)
    defaults = {"checkpoint_every": 1, "eval_starts": [Start(seed=0)]}
    return build(folder, team=team, warm_start=expert, **{**defaults, **more})


def test_its_rows_are_documented_and_every_documented_key_occurs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    trainer = expert_run(tmp_path)
    summary = trainer.run_updates()
    assert "at most 64 completions of each agent and 64 joint samples" in caplog.text
    own = {key for row in trainer_rows(trainer) for key in row}
    patterns = [
        pattern(key)
        for key in documented("Rows of a warm start")
        | {"update", "kind"}
        | documented("Rows of rejection sampling")
    ]
    assert all(any(p.fullmatch(key) for p in patterns) for key in own)
    assert all(any(p.fullmatch(key) for key in own) for p in patterns)
    assert summary["last_warm_start"]["round"] == 2 and summary["first_untrained"]["n"] == 1


def trainer_rows(trainer: Run) -> list[dict[str, Any]]:
    return [row for row in read_json_lines(trainer.folder.metrics) if row["kind"] == "warm_start"]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Run:
    trainer = expert_run(tmp_path_factory.mktemp("straight"))
    trainer.run_updates()
    return trainer


@pytest.mark.parametrize("moment", ["first", "within", "second round", "sampling", "beginning"])
def test_a_run_stopped_in_it_goes_on_as_if_it_had_not(
    tmp_path: Path, straight: Run, moment: str
) -> None:
    steps = [row["round"] for row in trainer_rows(straight)]
    second = steps.index(2)
    stopped = expert_run(tmp_path)
    expert = stopped.warm_start
    assert isinstance(expert, ExpertIteration) and second > 1
    call = {"first": 0, "within": 1, "second round": second, "sampling": 1, "beginning": 1}[moment]
    methods = {"sampling": "_sample", "beginning": "encode"}
    stop(stopped, expert, methods.get(moment, "accumulate"), call)
    require_resumed(straight, expert_run(tmp_path), 0)


def test_a_run_that_is_stopped_again_and_again_loses_no_step(tmp_path: Path, straight: Run) -> None:
    done = []
    for _ in range(2):
        stopped = expert_run(tmp_path)
        if done:
            stopped.resume()
        expert = stopped.warm_start
        assert isinstance(expert, ExpertIteration)
        done.append(expert.steps)
        stop(stopped, expert, "accumulate", 1)
    again = expert_run(tmp_path)
    again.resume()
    assert again.warm_start is not None and [*done, again.warm_start.steps] == [0, 1, 2]
    again.run_updates()
    require_equal(again, straight)


def test_a_run_stopped_after_it_samples_nothing_again(tmp_path: Path, straight: Run) -> None:
    expert_run(tmp_path, batches=straight.batches[:2]).run_updates()
    again = expert_run(tmp_path)
    assert again.resume() == 2
    assert again.warm_start is not None and again.warm_start.done
    again.run_updates()
    assert rows(again.folder.metrics)[-1] == rows(straight.folder.metrics)[-1]
    assert all(map(torch.equal, weights(straight), weights(again)))
