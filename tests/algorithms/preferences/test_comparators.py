"""Pairs with another team's samples: the same team before, or one that plays beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms.preferences import pairs
from llm_decpomdp.algorithms.preferences.pairs import History
from llm_decpomdp.algorithms.rollouts.checks import Cost, cost
from llm_decpomdp.algorithms.rollouts.collection import align
from llm_decpomdp.algorithms.rollouts.rollout import Parent, Rollout, Start, Timer
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.training.rollout_source import UpdateRequest
from llm_decpomdp.policy import SKIPPED
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.preferences.teams import (
    START,
    group_of,
    learner_of,
    pairs_of,
    recurrent,
    rollout_of,
    unigram,
)
from tests.algorithms.runs import Run, build, require_equal

A, B, END = 1, 2, 0
JOINT = align(2, 2).joint
OWN = {"x": [[A], [B]], "y": [[A], [B]]}
THEIRS = {"x": [[A, A], [B, B]], "y": [[A, A], [B, B]]}


def versus(own: list[float], theirs: list[float], rows: Any = THEIRS) -> Rollout:
    return replace(rollout_of(OWN, JOINT, own), opponent=rollout_of(rows, JOINT, theirs))


def test_each_pair_has_a_side_of_either_team_and_the_better_one_teaches() -> None:
    (found,) = pairs_of(versus([0.0, 3.0], [1.0, 2.0]))
    told = {(p.winner["x"].text, p.loser["x"].text, p.gap, p.opponent) for p in found}
    assert told == {("b", "aa", 2.0, "loser"), ("bb", "a", 2.0, "winner")}
    assert {pair.start for pair in found} == {START}
    (own,) = pairs_of(rollout_of(OWN, JOINT, [0.0, 3.0]))
    assert [pair.opponent for pair in own] == [None]


def test_the_least_gap_is_one_of_all_samples_of_both_teams() -> None:
    spread = float(np.std([0.0, 0.0, 10.0, 1.0]))
    for gap, number in ((0.9, 2), (1.1, 1), (10.1, 0)):
        (found,) = pairs_of(versus([0.0, 0.0], [10.0, 1.0]), pair_min_gap=gap / spread)
        assert len(found) == number


def test_equal_returns_and_equal_answers_make_no_pair() -> None:
    assert pairs_of(versus([1.0, 1.0], [1.0, 1.0])) == [[]]
    same = versus([1.0, 1.0], [0.0, 0.0], {"x": [[A], [A]], "y": [[A], [A]]})
    assert {(p.winner["x"].text, p.loser["x"].text) for p in pairs_of(same)[0]} == {("b", "a")}


def test_other_prompts_and_prompts_that_were_skipped_are_not_compared() -> None:
    asked = versus([0.0, 3.0], [1.0, 2.0])
    assert asked.opponent is not None
    (first,) = asked.opponent.groups
    for other in (
        replace(first, prompts={"x": "b", "y": "a"}),
        replace(first, completions={**first.completions, "x": (SKIPPED, SKIPPED)}),
    ):
        (found,) = pairs_of(replace(asked, opponent=Rollout(START, (other,))))
        assert [pair.opponent for pair in found] == [None]


def test_later_turns_make_pairs_of_their_own_samples() -> None:
    both = versus([0.0, 3.0], [1.0, 2.0])
    later = replace(group_of(OWN, JOINT, [0.0, 1.0]), turn=1, parent=Parent(0, 1))
    first, second = pairs_of(replace(both, groups=(*both.groups, later)))
    assert len(first) == 2 and [pair.opponent for pair in second] == [None]


def test_the_returns_of_a_tree_are_those_of_the_team_that_played_it() -> None:
    own, other = (
        Rollout(START, (replace(group_of(rows, JOINT, [0.0, 0.0]), chosen=None),))
        for rows in (OWN, THEIRS)
    )
    later = replace(group_of(OWN, JOINT, [4.0, 4.0]), turn=1, parent=Parent(0, 1), chosen=None)
    found = pairs_of(
        replace(own, opponent=replace(other, groups=(*other.groups, later))), discount=0.5
    )
    assert {(p.winner["x"].text, p.gap, p.opponent) for p in found[0]} == {("bb", 2.0, "winner")}


def test_a_history_has_its_visit_and_forgets_older_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = [rollout_of(OWN, JOINT, [float(n), 0.0]) for n in range(4)]
    expected = {1: [0, 1, 2, 3], 2: [0, 0, 1, 2], None: [0, 0, 0, 0]}
    for age, rewards in expected.items():
        history = History(age)
        assert history.visit(START) is None
        for visit, reward in zip(visits, rewards, strict=True):
            history.add([visit], 1.0)
            found = history.visit(START)
            assert found is not None and found.groups[0].rewards[0] == reward
    monkeypatch.setattr(pairs, "MOST_STARTS", 2)
    history = History(1)
    history.add([replace(visits[0], start=Start(seed=n)) for n in (1, 2, 1, 3)], 1.0)
    assert [history.visit(Start(seed=n)) is None for n in (1, 2, 3)] == [False, True, False]


def test_a_history_survives_a_checkpoint_as_it_is(tmp_path: Path) -> None:
    history, again = History(2), History(2)
    history.add([rollout_of(OWN, JOINT, [float(n), 0.5]) for n in range(3)], 1.0)
    torch.save(history.state_dict(), tmp_path / "state.pt")
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert again.visit(START) == history.visit(START) is not None
    assert again.state_dict() == history.state_dict()


def test_a_learner_compares_with_what_it_has_learned_from_and_not_with_what_failed() -> None:
    learner = learner_of({"x": unigram(), "y": unigram()}, opponent="history")
    first, second = rollout_of(OWN, JOINT, [0.0, 3.0]), rollout_of(THEIRS, JOINT, [1.0, 2.0])
    learner.accumulate([first])
    assert [pair.opponent for pair in learner.pairs(second)[0]] == [None]  # no step was taken
    metrics = learner.update([first])
    assert "compared_pairs" not in metrics and metrics["pairs"] == 1
    metrics = learner.update([second])
    assert (metrics["pairs"], metrics["compared_pairs"], metrics["comparator_wins"]) == (2, 2, 0.5)
    assert learner.has_learning_signal(first)


def test_rollouts_without_the_team_that_an_option_names_are_refused() -> None:
    learner = learner_of({"x": unigram(), "y": unigram()}, opponent="runs/other")
    with pytest.raises(ValueError, match=r"runs/other has played nothing .* add_wrappers\(source"):
        learner.accumulate([rollout_of(OWN, JOINT, [0.0, 3.0])])


def test_without_a_comparator_nothing_is_kept() -> None:
    learner = learner_of({"x": unigram(), "y": unigram()})
    learner.update([rollout_of(OWN, JOINT, [0.0, 3.0])])
    assert set(learner.state_dict()) == {"updates", "optimizers"}


def test_a_run_with_a_history_goes_on_where_it_stopped(tmp_path: Path) -> None:
    def run(name: str, updates: int = 4, **options: Any) -> Run:
        return build(
            tmp_path / name,
            [[Start(seed=0), Start(seed=1)]] * updates,
            algorithm="madpo",
            team={"x": recurrent(1), "y": recurrent(2)},
            learner={"opponent": "history", "opponent_lag": 2, "learning_rate": 0.05},
            **options,
        )

    straight = run("straight")
    straight.run_updates()
    run("parts", 2, checkpoint_every=2).run_updates()
    parts = run("parts", checkpoint_every=2)
    assert parts.resume() == 2
    parts.run_updates()
    require_equal(straight, parts)
    train = [r for r in read_json_lines(straight.folder.metrics) if r["kind"] == "train"]
    compared = ["compared_pairs" in row for row in train]
    assert not compared[0] and any(compared[1:])


def tiny(seed: int, alphabet: str = "ab") -> Any:
    return tiny_causal_lm(alphabet, Sampling(max_new_tokens=3), width=8, layers=1, seed=seed)


def compared_run(folder: Path, rival: Any = None, **options: Any) -> Run:
    """A run beside another team, which always says the same unless one is given."""
    team = {"x": tiny(1), "y": tiny(2)}
    return build(
        folder,
        [[Start(seed=0), Start(seed=1)]] * 3,
        algorithm="madpo",
        team=team,
        learner={"opponent": "there", "learning_rate": 0.01},
        opponent=rival or {"x": tiny(3), "y": tiny(4)},
        **options,
    )


@pytest.mark.parametrize("plan", ["chain", "tree"])
def test_another_team_plays_beside_and_stays_as_it_is(tmp_path: Path, plan: str) -> None:
    rival = {"x": tiny(3), "y": tiny(4)}
    before = [weight.detach().clone() for p in rival.values() for weight in p.parameters()]
    trainer = compared_run(tmp_path, rival, mode=plan)
    trainer.run_updates()
    after = [weight for policy in rival.values() for weight in policy.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    train = [r for r in read_json_lines(trainer.folder.metrics) if r["kind"] == "train"]
    assert all(row["comparator_tokens"] > 0 for row in train)
    assert any(row.get("compared_pairs") for row in train)
    episodes = [e for e in read_json_lines(trainer.folder.episodes) if e["phase"] == "train"]
    assert len(episodes) == 6  # the team's own


def test_a_run_beside_another_team_goes_on_where_it_stopped(tmp_path: Path) -> None:
    straight = compared_run(tmp_path / "straight")
    straight.run_updates()
    parts = compared_run(tmp_path / "parts", checkpoint_every=1)
    parts._run_update(), parts.save()
    again = compared_run(tmp_path / "parts", checkpoint_every=1)
    assert again.resume() == 1
    again.run_updates()
    for one, other in zip(straight.learner.policies, again.learner.policies, strict=True):
        pair = straight.learner.policies[one], again.learner.policies[other]
        states = [policy.state_dict()["weights"] for policy in pair]
        assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_other_tokens_are_tokenised_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer = compared_run(tmp_path, {"x": tiny(3, "ba"), "y": tiny(4)})
    assert "tokenized again for x:" in caplog.text
    source: Any = trainer.source
    asked = replace(rollout_of(OWN, JOINT, [0.0, 1.0]), start=Start(seed=0))
    request = UpdateRequest(1, (asked.start,))
    (rollout,) = source.add_opponents(request, (0, (asked.start,)), [asked], Timer())
    assert rollout.opponent is not None
    (group,) = rollout.opponent.groups  # the first turn alone
    for completion in group.completions["x"]:
        expected = [{"a": 1, "b": 2}[letter] for letter in completion.text]
        assert [token for token in completion.tokens if token in (1, 2)] == expected
        assert completion.log_probs == ()
    assert all(completion.log_probs for completion in group.completions["y"])


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    team = {"x": recurrent(1), "y": recurrent(2)}
    for options, opponent, message in (
        ({"opponent": "there"}, None, "need each other"),
        ({}, team, "need each other"),
    ):
        with pytest.raises(ValueError, match=message):
            build(tmp_path, algorithm="madpo", team=team, learner=options, opponent=opponent)
    with pytest.raises(ValueError, match="every start needs a seed or a task"):
        history = {"opponent": "history"}
        build(tmp_path, [[Start()]], algorithm="madpo", team=team, learner=history)
    for options, message in (
        ({"opponent_lag": 2}, "opponent_lag=2 means nothing with opponent=current"),
        ({"opponent": "history", "pair_kind": "single"}, "pair_kind=single needs equal partners"),
    ):
        with pytest.raises(ValueError, match=message):
            build(tmp_path, algorithm="madpo", team=team, learner=options)
    refitted = {"reward_model": {"path": "judge.pt", "update_interval": 1}}
    with pytest.raises(ValueError, match="scores them on different scales"):
        build(tmp_path, algorithm="madpo", team=team, learner=history, **refitted)


def test_a_prompt_that_is_never_played_may_be_too_long_for_the_comparator(tmp_path: Path) -> None:
    rival = {"x": tiny(3), "y": tiny(4)}
    rival["x"].overflow = lambda prompt: (2, 1) if len(prompt) > 1 else None
    problems = [Start(seed=0), Start(seed=1), Start(task_id="aa")]
    compared_run(tmp_path / "whole", rival, problems=problems).run_updates()
    with pytest.raises(ValueError, match="too long"):
        compared_run(tmp_path / "refilled", rival, problems=problems, max_resample_rounds=1)


def test_the_cost_of_a_comparator_is_a_first_turn_or_a_tree() -> None:
    chain, tree = RolloutOptions(), RolloutOptions(mode="tree")
    assert cost(chain, 3, 2, 4, opponent=True) == Cost(4 + 1, 12 + 3, 12 + 3)
    alone = cost(tree, 3, 2, 2)
    assert cost(tree, 3, 2, 2, opponent=True) == alone + alone
