"""Runs that learn by a reward model: what the learner is given, what is written down, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms import RolloutOptions, Start, TrainerOptions, collect_rollouts
from llm_decpomdp.algorithms.rewards import scorer
from llm_decpomdp.algorithms.rewards.comparisons import RewardModelOptions, use_scores_as_rewards
from llm_decpomdp.algorithms.rewards.reward_model import fit_reward_model
from llm_decpomdp.algorithms.rewards.scorer import (
    RewardModelScorer,
    RewardModelUpdater,
    load_scorer,
    make_comparisons,
    score_metrics,
)
from llm_decpomdp.algorithms.rollouts.rollout_options import RewardScoreOptions
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.critics.readers import HashedParts, reading_team
from tests.algorithms.rewards.reward_models import (
    AGENTS,
    comparisons,
    letters_of,
    write_reward_model,
)
from tests.algorithms.runs import BATCHES, Run, build, require_resumed, rows, weights
from tests.algorithms.training.test_curriculum import AnySource


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_reward_model(tmp_path_factory.mktemp("judge")))


def judged_run(folder: Path, judge: str, update_interval: int = 0, **more: Any) -> Run:
    scores = RewardScoreOptions(judge, update_interval)
    return build(folder, team=reading_team(), reward_model=scores, **more)


def test_scores_stand_beside_rewards_and_the_learner_is_given_them(judge: str) -> None:
    rng = np.random.default_rng(0)
    starts, crossed = [Start(seed=0)], RolloutOptions(joint_mode="cross")
    rollouts = collect_rollouts(EchoEnv(2), reading_team(), starts, crossed, group_size=4, rng=rng)
    reader = load_scorer(Path(judge), reading_team(), AGENTS)
    (found,) = reader.add_scores(rollouts)
    for before, group in zip(rollouts[0].groups, found.groups, strict=True):
        assert group.rewards == before.rewards and len(group.scores) == 16
        for joint, score in zip(group.joint, group.scores, strict=True):
            said = {a: group.completions[a][g].text for a, g in zip(AGENTS, joint, strict=True)}
            sees = "\n\n".join(f"[{a} sees]\n{group.prompts[a]}" for a in AGENTS)
            text = sees + "".join(f"\n\n[{a} answers]\n{said[a]}" for a in AGENTS)
            expected = reader.model.scores(HashedParts(size=64)([text]))
            assert score == pytest.approx(expected.item(), abs=1e-5)
    assert [group.rewards for group in use_scores_as_rewards(found).groups] == [
        g.scores for g in found.groups
    ]
    rivals = [replace(rollouts[0], opponent=rollout) for rollout in rollouts] + rollouts
    beside, alone = (use_scores_as_rewards(rollout) for rollout in reader.add_scores(rivals))
    assert beside.opponent == use_scores_as_rewards(found) and alone == use_scores_as_rewards(found)


def test_numbers_compare_scores_with_rewards(make_policy: Any, make_chain: Any) -> None:
    chain = make_chain(make_policy(), [((0.0, 1.0, 3.0), {"x": [(1,), (2,), (0,)]})])

    def scored(*scores: float) -> dict[str, float]:
        group = replace(chain.groups[0], scores=scores)
        return score_metrics([replace(chain, groups=(group,))])

    right = scored(-1.0, 0.0, 2.0)
    assert right["reward_model/mean"] == pytest.approx(1 / 3)
    assert right["reward_model/correlation"] == pytest.approx(1.0)
    assert right["reward_model/agreement"] == 1.0
    assert scored(2.0, 1.0, 0.0)["reward_model/agreement"] == 0.0
    assert scored(1.0, 1.0, 2.0)["reward_model/agreement"] == pytest.approx(2.5 / 3)
    flat = scored(1.0, 1.0, 1.0)
    assert (flat["reward_model/correlation"], flat["reward_model/agreement"]) == (0.0, 0.5)


def test_a_run_learns_by_scores_and_is_evaluated_by_the_task(tmp_path: Path, judge: str) -> None:
    trainer = judged_run(tmp_path / "run", judge, batches=BATCHES * 8, group_size=6)
    trainer.run_updates()
    lines = rows(trainer.folder.metrics)
    train = [row for row in lines if row["kind"] == "train"]
    evaluations = [row for row in lines if row["kind"] == "eval"]
    assert not any(key.startswith("reward_model") for row in evaluations for key in row)
    first, last = (
        np.mean([row["reward_model/mean"] for row in part]) for part in (train[:4], train[-4:])
    )
    assert last > first and evaluations[-1]["reward_mean"] > evaluations[0]["reward_mean"]
    for episode in rows(trainer.folder.episodes):
        for group in episode["groups"]:
            said = zip(*(group["completions"][a] for a in AGENTS), strict=True)
            assert group["rewards"] == [float("".join(texts).count("a")) for texts in said]
            assert ("scores" in group) == (episode["phase"] == "train")
    task = build(tmp_path / "task", team=reading_team(), batches=BATCHES * 8, group_size=6)
    task.run_updates()
    pairs = zip(weights(task), weights(trainer), strict=True)
    assert not all(torch.equal(a, b) for a, b in pairs)


def test_a_judged_run_resumes_exactly_and_refills_by_scores(tmp_path: Path, judge: str) -> None:
    more = {"checkpoint_every": 2, "max_resample_rounds": 1, "group_size": 2}
    straight = judged_run(tmp_path / "straight", judge, **more)
    straight.run_updates()
    judged_run(tmp_path / "parts", judge, batches=BATCHES[:2], eval_every=4, **more).run_updates()
    require_resumed(straight, judged_run(tmp_path / "parts", judge, **more), 2)
    other = write_reward_model(tmp_path, penalty=1.0)
    copy = Path(judge).rename(tmp_path / "kept.pt")
    other.rename(judge)
    with pytest.raises(ValueError, match="reward_model_is was"):
        judged_run(tmp_path / "parts", judge, **more).resume()
    copy.rename(judge)
    with pytest.raises(ValueError, match=r"reward_model\.path was .*, not None"):
        build(tmp_path / "parts", team=reading_team(), **more).resume()


def test_what_goes_by_the_reward_of_the_task_is_refused() -> None:
    for values in ({"branch_selection": "best"}, {"early_termination_threshold": 1.0}):
        with pytest.raises(ValueError, match="goes by the task's reward"):
            TrainerOptions(reward_model="judge.pt", **values)  # type: ignore[arg-type]


def test_best_samples_are_compared_with_the_worst(make_policy: Any, make_chain: Any) -> None:
    rows = {"x": [(1,), (2,), (0,), (1, 1), (2, 2)]}
    chain = make_chain(make_policy(), [((1.0, 3.0, 0.0, 1.0, 1.0), rows)])
    (pair,) = make_comparisons("task", chain.groups[0])
    said = [c.text for c in chain.groups[0].completions["x"]]
    assert (pair.winner.answers["x"], pair.loser.answers["x"]) == (said[1], said[2])
    assert pair.winner.prompts == pair.loser.prompts == chain.groups[0].prompts


def test_a_model_that_is_fitted_anew_learns_what_the_first_one_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upside_down = comparisons(80, lambda sample: -letters_of(sample))
    wrong = fit_reward_model(upside_down, AGENTS, HashedParts(size=64), RewardModelOptions())
    wrong.save(tmp_path / "wrong.pt")
    monkeypatch.setattr(scorer, "MOST", 40)
    options = {"batches": BATCHES * 3, "group_size": 6, "update_interval": 4}
    trainer = judged_run(tmp_path / "run", str(tmp_path / "wrong.pt"), **options)
    trainer.run_updates()
    train = [row for row in rows(trainer.folder.metrics) if row["kind"] == "train"]
    fits = [row["update"] for row in train if "reward_model/pairs" in row]
    assert fits == [4, 8, 12]
    assert all(2 <= row["reward_model/pairs"] <= 40 for row in train if row["update"] in fits)
    first, last = (
        np.mean([row["reward_model/agreement"] for row in part]) for part in (train[:4], train[4:])
    )
    assert first < 0.3 and last > 0.7


def test_a_model_stays_as_it_is_while_there_are_few_pairs() -> None:
    pairs = comparisons(80, letters_of)
    features = HashedParts(size=64)
    model = fit_reward_model(pairs, AGENTS, features, RewardModelOptions())
    source = RewardModelUpdater(AnySource(), RewardModelScorer(model, features), 1, seed=0)
    source.comparisons = pairs[: scorer.LEAST - 1]
    assert source.observe(1, []) == {} and source.scorer.model is model
    source.comparisons = pairs[: scorer.LEAST]
    assert source.observe(2, [])["reward_model/pairs"] == scorer.LEAST
    assert source.scorer.model is not model


def test_a_model_that_is_fitted_anew_resumes_exactly(
    tmp_path: Path, judge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorer, "LEAST", 4)
    more = {"update_interval": 3, "checkpoint_every": 2, "batches": BATCHES * 2}
    straight = judged_run(tmp_path / "straight", judge, **more)
    straight.run_updates()
    for updates in (2, 4):  # before a fit, and after one
        folder = tmp_path / f"parts {updates}"
        short = {**more, "batches": [*BATCHES * 2][:updates], "eval_every": 8}
        judged_run(folder, judge, **short).run_updates()
        require_resumed(straight, judged_run(folder, judge, **more), updates)
    with pytest.raises(
        ValueError, match="reward_model: update_interval=2 means nothing with path=None"
    ):
        TrainerOptions(reward_model={"update_interval": 2})
