"""The critic in the learner: on chains of the two-agent environment that rewards the letter `a`."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.critics.critic import Critic
from llm_decpomdp.algorithms.critics.options import CriticOptions
from llm_decpomdp.algorithms.critics.states import Exchange, critic_text, history
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, View
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.training.trainer_options import TrainerOptions, check_credit
from studies.hypotheses.training import Noise
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.critics.readers import HashedParts, reading_team
from tests.algorithms.runs import BATCHES, Run, build, make_team, require_equal

STARTS = [Start(seed=n) for n in range(8)]


class StateEnv(EchoEnv):
    """The same, with a state that nobody is told."""

    def state(self) -> str:
        return f"secret of turn {self.turn}"


def chains(env: Any = None, *, turns: int = 2, seed: int = 0, **options: Any) -> list[Rollout]:
    rng = np.random.default_rng(seed)
    settings = {"group_size": 4, "rng": rng, "views": True, **options}
    return collect_rollouts(env or StateEnv(turns), make_team(), STARTS, **settings)


def learner(features: Any = None, **options: Any) -> Learner:
    settings = {"learning_rate": 0.05, **options}
    return Learner(make_team(), ALGORITHMS["magrpo"], LearnerOptions(**settings), features)


def weights(one: Learner) -> list[torch.Tensor]:
    return [p.detach() for policy in one.policies.values() for p in policy.parameters()]


def equal(one: Learner, other: Learner) -> bool:
    return all(map(torch.equal, weights(one), weights(other)))


@pytest.mark.parametrize("gate", [True, False])
def test_over_one_turn_the_critic_changes_no_bit(gate: bool) -> None:
    plain, with_critic = learner(), learner(HashedParts(), critic="joint", critic_gate=gate)
    for seed in range(3):
        rollouts = chains(turns=1, seed=seed)
        plain.update(rollouts)
        metrics = with_critic.update(rollouts)
    assert equal(plain, with_critic)
    assert metrics["critic/cut_parts"] == 0 and "critic/loss" not in metrics


def test_views_take_no_random_numbers_and_change_no_rollout() -> None:
    plain, viewed = chains(views=False), chains()
    assert all(group.view is None and not group.views for one in plain for group in one.groups)
    bare = [
        replace(one, groups=tuple(replace(g, view=None, views=()) for g in one.groups))
        for one in viewed
    ]
    assert bare == plain


def test_a_random_critic_leaves_the_gate_closed_and_does_no_harm() -> None:
    plain, random = learner(), learner(Noise(0), critic="joint", critic_learning_rate=0.1)
    closed = 0
    for seed in range(12):
        rollouts = chains(seed=seed)
        plain.update(rollouts)
        before = weights(random)
        shut = copy.deepcopy(random)
        metrics = random.update(rollouts)
        if metrics["critic/gate"] == 0:
            closed += 1
            shut.critic = None  # one that never had a critic takes the same step, bit for bit
            shut.update(rollouts)
            assert equal(shut, random) and before
    assert closed >= 10


def test_a_critic_that_explains_the_future_adds_it_to_the_returns() -> None:
    features = HashedParts()
    options = CriticOptions(critic="joint", critic_learning_rate=0.02, critic_input="history")
    critic = Critic(options, {"team": features}, ["x", "y"], discount=0.5)
    for seed in range(30):
        outlooks, metrics = critic.assess(chains(seed=seed))
        critic.learn()
    assert metrics["critic/gate"] == 1 and metrics["turn_2/explained_variance"] > 0
    rollouts = chains(seed=99)
    outlooks, _ = critic.assess(rollouts)
    for outlook, rollout in zip(outlooks, rollouts, strict=True):
        for group, returns in zip(rollout.groups, outlook["x"], strict=True):
            future = returns - np.array(group.rewards)
            over = [view is None for view in group.views]
            assert all(future[over] == 0)
            assert all(future[np.logical_not(over)] != 0)
            assert group.turn == 0 or all(over)


def test_a_group_that_stopped_early_has_no_future_and_one_that_was_cut_off_has() -> None:
    stopped = chains(options=RolloutOptions(early_termination_threshold=-1.0))
    assert all(view is None for one in stopped for view in one.groups[0].views)

    class Limited(StateEnv):
        def step(self, actions: dict[str, str]) -> Any:
            prompts, rewards, _, _, infos = super().step(actions)
            every = dict.fromkeys
            return prompts, rewards, every(actions, False), every(actions, not self.agents), infos

    cut = chains(Limited(1))
    assert all(view is not None for one in cut for view in one.groups[0].views)
    assert all(len(one.groups) == 1 for one in cut)


def test_critics_read_the_state_and_all_histories_and_agents_neither() -> None:
    env, team, features = StateEnv(2), make_team(), HashedParts()
    rollouts = collect_rollouts(
        env, team, STARTS, group_size=4, rng=np.random.default_rng(0), views=True
    )
    learner(features, critic="joint").update(rollouts)
    assert all("secret of turn 1" in text for text in features.texts)
    assert any("[x answered in turn 1]" in t and "[y sees]" in t for t in features.texts)
    prompts = [p for policy in team.values() for batch in policy.batches for p in batch]
    assert prompts and not any("secret" in prompt for prompt in prompts)
    assert not any("secret" in str(group.prompts) for one in rollouts for group in one.groups)


def test_an_own_critic_reads_what_its_agent_read_and_wrote() -> None:
    features = HashedParts()
    learner(features, critic="own", critic_input="history").update(chains())
    assert any("[x " in text for text in features.texts)
    assert not any("[x " in text and "[y " in text for text in features.texts)


def test_each_part_of_a_text_is_cut_by_itself_and_counted() -> None:
    (rollout, *_) = chains()
    group = rollout.groups[0]
    view = group.views[0]
    assert view is not None
    view = view._replace(prompts={"x": "a" * 50, "y": "b" * 10})
    past = history(rollout, 0, 0)
    text, cut = critic_text("history", view, past, ["x", "y"], 25)
    assert cut == 1
    assert "a" * 10 + "\n...\n" + "a" * 10 + "\n\n[y sees]\n" + "b" * 10 in text
    only, _ = critic_text("prompts", view, past, ["x", "y"], 100)
    assert only == f"[x sees]\n{'a' * 50}\n\n[y sees]\n{'b' * 10}"
    # The state alone holds all other parts, and may be as long as they together: 1 + 4 + 2.
    long = view._replace(state="s" * 140)
    assert critic_text("state", long, past, ["x", "y"], 20).text == f"[state]\n{long.state}"
    assert critic_text("state", long, past, ["x", "y"], 18).cut_parts == 1


def test_what_a_state_has_word_for_word_is_not_read_twice_unless_it_may_be_chance() -> None:
    seen, written = "x reads this. " * 10, "y writes that. " * 10
    view = View(f"task 7\n{seen}\n{written}\nyes", {"x": seen, "y": "yes"})
    past = [Exchange({"x": seen, "y": "unknown " * 20}, {"x": "yes", "y": written})]
    text, _ = critic_text("history+state", view, past, ["x", "y"], 4000, {"x": written})
    assert text.count(seen) == 1
    for part in ("[y saw in turn 1]\nunknown", "[x answered in turn 1]\nyes", "[y sees]\nyes"):
        assert part in text
    assert text.count(written) == 2 and text.endswith(f"[x answers]\n{written}")
    # What the state lacks, as it was cut, is read.
    assert "[x sees]\nx reads" in critic_text("history+state", view, past, ["x", "y"], 145).text


def test_an_environment_without_a_state_is_told_and_one_without_texts_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        learner(HashedParts(), critic="joint").update(chains(EchoEnv(2)))
    assert "histories alone" in caplog.text
    with pytest.raises(ValueError, match="critic_input=state, and the environment has none"):
        learner(HashedParts(), critic="joint", critic_input="state").update(chains(EchoEnv(2)))

    class Numbers(EchoEnv):
        def state(self) -> Any:
            return np.zeros(3)

    with pytest.raises(TypeError, match=r"state\(\) of Numbers returned a ndarray"):
        chains(Numbers(2))


def test_a_learner_with_a_critic_goes_on_exactly(tmp_path: Path) -> None:
    settings = {"critic": "joint", "critic_learning_rate": 0.05, "critic_gate": False}
    batches = [chains(seed=seed) for seed in range(8)]
    straight, first = learner(HashedParts(), **settings), learner(HashedParts(), **settings)
    plain = learner()
    for batch in batches:
        metrics = straight.update(batch)
        plain.update(batch)
    for batch in batches[:4]:
        first.update(batch)
    state = {
        "learner": first.state_dict(),
        "team": {n: p.state_dict() for n, p in first.policies.items()},
    }
    torch.save(state, tmp_path / "state.pt")
    stored = torch.load(tmp_path / "state.pt", weights_only=True)
    again = learner(HashedParts(), **settings)
    for name, policy in again.policies.items():
        policy.load_state_dict(stored["team"][name])
    again.load_state_dict(stored["learner"])
    for batch in batches[4:]:
        resumed = again.update(batch)
    assert equal(straight, again) and not equal(straight, plain)
    assert resumed == metrics and metrics["turn_2/explained_variance"] != 0


def test_processes_with_shares_of_a_batch_have_equal_critics() -> None:
    def critic(gather: Any) -> Critic:
        options = CriticOptions(critic="joint", critic_learning_rate=0.05)
        return Critic(options, {"team": HashedParts()}, ["x", "y"], discount=1.0, gather=gather)

    shares: list[Any] = []

    def collect(items: Sequence[Any]) -> list[Any]:
        shares.append(list(items))
        return list(items)

    whole, alone = critic(list), critic(collect)
    for seed in range(3):
        rollouts = chains(seed=seed)
        whole.assess(rollouts)
        alone.assess(rollouts[:4])
        first = shares[-2]
        alone.assess(rollouts[4:])
        second = shares[-2]
        given = iter([first + second, [0]])
        alone._gather = lambda _, given=given: next(given)
        alone.assess(rollouts[4:])
        alone._gather = collect
        whole.learn()
        alone.learn()
    one, other = (c.state_dict()["heads"][0]["state"]["weight"] for c in (whole, alone))
    assert torch.equal(one, other) and one.any()


@pytest.mark.parametrize("plan", ["tree", "episodes"])
def test_plans_whose_returns_need_no_critic_refuse_one(plan: str) -> None:
    with pytest.raises(ValueError, match=f"critic=joint means nothing with plan={plan}"):
        check_credit(TrainerOptions(plan=plan), LearnerOptions(critic="joint"))


@pytest.mark.parametrize(
    "options", [{"critic_lambda": 0.5}, {"critic_gate": False}, {"critic_input": "prompts"}]
)
def test_options_of_a_critic_mean_nothing_without_one(options: dict[str, Any]) -> None:
    message = f"{next(iter(options))}=.* means nothing with critic=none"
    with pytest.raises(ValueError, match=message):
        learner(**options)
    with pytest.raises(ValueError, match=message):
        LearnerOptions(critic="none", **options)


def test_policies_without_features_are_refused_before_anything_is_sampled() -> None:
    with pytest.raises(TypeError, match=r"TinyPolicy has no features\(\)"):
        learner(critic="joint")


def test_the_trainer_records_views_only_for_a_critic() -> None:
    options = TrainerOptions()
    settings: dict[str, Any] = {"group_size": 2, "rng": np.random.default_rng(0)}
    (plain, *_) = collect_rollouts(StateEnv(2), make_team(), STARTS, options, **settings)
    (viewed, *_) = collect_rollouts(
        StateEnv(2), make_team(), STARTS, options, views=True, **settings
    )
    assert plain.groups[0].view is None and viewed.groups[0].view is not None


def test_a_run_with_a_critic_that_was_stopped_equals_one_that_was_not(tmp_path: Path) -> None:
    def trainer(folder: str, batches: Any) -> Run:
        return build(
            tmp_path / folder,
            batches,
            checkpoint_every=2,
            team=reading_team(),
            learner={"critic": "joint", "critic_gate": False},
        )

    straight = trainer("straight", BATCHES)
    straight.run_updates()
    trainer("parts", BATCHES[:2]).run_updates()
    again = trainer("parts", BATCHES)
    assert again.resume() == 2
    again.run_updates()
    require_equal(straight, again)
