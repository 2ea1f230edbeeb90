"""Supervised learning before reinforcement: its loss, its lessons, and runs that go on in it."""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp import Completion, make
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.training.sft import SupervisedTraining
from llm_decpomdp.algorithms.training.sft_data import (
    SFTExample,
    draw_share,
    read_demonstrations,
    reference_demonstrations,
)
from llm_decpomdp.algorithms.training.warm_start import WarmStartOptions
from tests.algorithms.conftest import END, EchoEnv, Recurrent, TinyPolicy
from tests.algorithms.runs import BATCHES, Run, build, require_resumed, stop, weights
from tests.algorithms.training.test_metrics import documented, pattern

LESSONS = [
    (SFTExample("x", "a", "ab"), SFTExample("y", "a", "b")),
    (SFTExample("x", "b", ""), SFTExample("y", "b", "bb")),
    (SFTExample("x", "ab", "b"),),
]


class Pupil(TinyPolicy):
    """A tiny policy that encodes texts."""

    def encode_completion(self, text: str, prompt: str = "") -> Completion:
        return self.completion([*self.encode(text).int().tolist(), END][: self.max_tokens])


def pupils() -> dict[str, Pupil]:
    return {
        agent: Pupil(Recurrent(3, 8, seed=seed), "ab", 3) for agent, seed in (("x", 1), ("y", 2))
    }


def options(**values: Any) -> WarmStartOptions:
    return WarmStartOptions(**{"source": "gold", "learning_rate": 0.02, **values})


def test_the_loss_is_the_mean_over_all_tokens_and_ends() -> None:
    team = pupils()
    by_hand: dict[str, list[torch.Tensor]] = {"x": [], "y": []}
    for lesson in LESSONS:
        for agent, prompt, text in ((e.agent, e.prompt, e.completion) for e in lesson):
            tokens = [*(1 + "ab".index(letter) for letter in text), END]
            logits = team[agent].model(team[agent].encode(prompt), torch.tensor([tokens]))
            by_hand[agent] += list(logits.log_softmax(-1)[0, range(len(tokens)), tokens])
    expected = {agent: -torch.stack(terms).mean() for agent, terms in by_hand.items()}
    gradients = torch.autograd.grad(expected["x"], list(team["x"].parameters()))
    warm_start = SupervisedTraining(team, LESSONS, options(batch_size=3))
    row = warm_start.accumulate()
    assert row["nll/x"] == pytest.approx(expected["x"].item()) and len(by_hand["x"]) == 6
    assert row["nll/y"] == pytest.approx(expected["y"].item())
    assert (row["step"], row["lessons"], row["completion_tokens"]) == (1, 3, 11)
    for weight, gradient in zip(team["x"].parameters(), gradients, strict=True):
        assert weight.grad is not None and torch.allclose(weight.grad, gradient, atol=1e-6)


def test_the_team_imitates_its_lessons_and_stops_where_they_do() -> None:
    team = pupils()
    warm_start = SupervisedTraining(
        team, LESSONS, options(epochs=120, batch_size=2, learning_rate=0.05)
    )
    assert warm_start.total == 240
    while not warm_start.done:
        warm_start.accumulate()
        warm_start.step()
    for example in (example for lesson in LESSONS for example in lesson):
        texts = [one.text for one in team[example.agent].generate([example.prompt], 50)[0]]
        assert texts.count(example.completion) > 45, example


def test_agents_that_share_a_policy_teach_it_both() -> None:
    shared = pupils()["x"]
    warm_start = SupervisedTraining({"x": shared, "y": shared}, LESSONS, options(batch_size=3))
    row = warm_start.accumulate()
    assert {key for key in row if key.startswith("grad_norm/")} == {"grad_norm/x+y"}
    both = [(row["nll/x"], 6), (row["nll/y"], 5)]
    mean = sum(loss * tokens for loss, tokens in both) / 11
    losses = [
        -(log_probs * mask).sum()
        for example in (example for lesson in LESSONS for example in lesson)
        for log_probs, mask in [
            shared.log_probs(example.prompt, [shared.encode_completion(example.completion)])
        ]
    ]
    assert mean == pytest.approx(torch.stack(losses).sum().item() / 11)


def test_what_is_unwritable_or_of_others_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    team = pupils()
    long = (SFTExample("x", "a", "abab"),)
    assert SupervisedTraining(team, [*LESSONS, long], options(batch_size=1)).total == 3
    assert "1 of 6 examples of the warm start are left out" in caplog.text
    for weight in team["y"].parameters():
        weight.requires_grad_(False)
    assert (
        SupervisedTraining(team, LESSONS, options(batch_size=3)).accumulate()["completion_tokens"]
        == 6
    )
    with pytest.raises(ValueError, match=r"each is too long: raise max_new_tokens"):
        SupervisedTraining(team, [long], options())
    with pytest.raises(TypeError, match="TinyPolicy of 'x' a method encode_completion"):
        SupervisedTraining({"x": TinyPolicy(Recurrent(3, 8, 1), "ab", 3)}, LESSONS, options())


def test_a_loss_that_is_not_finite_stops_the_run_and_changes_nothing() -> None:
    team = pupils()
    with torch.no_grad():
        next(team["x"].parameters()).fill_(torch.nan)
    before = [weight.clone() for weight in team["y"].parameters()]
    with pytest.raises(FloatingPointError, match="step 1 of the warm start"):
        SupervisedTraining(team, LESSONS, options()).accumulate()
    assert all(torch.equal(a, b) for a, b in zip(before, team["y"].parameters(), strict=True))


# ------------------------------------------------------------------------------------------ lessons


def test_references_are_those_of_the_agents_that_learn() -> None:
    env = make("probe-halves-v0")
    starts = [Start(task_id=f"halves/{key}") for key in range(3)]
    lessons = reference_demonstrations(env, starts, ["player_1"])
    assert lessons == [(SFTExample("player_1", p, c),) for p, c in ("bc", "ca", "ab")]
    assert len(reference_demonstrations(env, starts, ["player_0", "player_1"])[0]) == 2
    with pytest.raises(ValueError, match=r"none for 'x' in 2 of 2 problems: name a JSONL file"):
        reference_demonstrations(EchoEnv(), [Start(seed=0), Start(seed=1)], ["x"])


def test_an_agent_that_waits_learns_from_its_prompt_after_the_references_before_it() -> None:
    env = make("probe-relay-turns-v0")
    lessons = reference_demonstrations(env, [Start(task_id="relay-turns/b")], env.possible_agents)
    assert [(e.agent, e.prompt, e.completion) for e in lessons[0]] == [
        ("player_0", "b", "b"),
        ("player_1", "b", "b"),
    ]
    alone = reference_demonstrations(env, [Start(task_id="relay-turns/c")], ["player_1"])
    assert [(e.agent, e.prompt) for e in alone[0]] == [("player_1", "c")]


def test_references_that_depend_on_the_turns_are_imitated_in_all_turns() -> None:
    env = make("gather-v0", size=3, amount=1, steps=1, num_turns=2, wording="bare", split="all")
    starts = [Start(task_id=env.tasks.tasks[0].task_id)]
    (lessons,) = reference_demonstrations(env, starts, env.possible_agents)
    (own,), (other,) = env.tasks.tasks[0].places
    letters = {cell: "abcdefghi"[3 * cell[1] + cell[0]] for cell in (own, other)}
    assert [(e.agent, e.prompt, e.completion) for e in lessons] == [
        ("gatherer_0", f"e{letters[other]}.", letters[other]),
        ("gatherer_1", f"e{letters[own]}.", letters[own]),
        ("gatherer_0", f"e.{letters[own]}", "." + letters[own]),
        ("gatherer_1", f"e.{letters[other]}", "." + letters[other]),
    ]


def test_with_a_channel_references_are_answers_and_no_messages() -> None:
    env = make("probe-halves-v0", channel={"bandwidth": 8})
    starts = [Start(task_id="halves/0")]
    (lesson,) = reference_demonstrations(env, starts, ["player_0", "player_1"])
    plain = reference_demonstrations(make("probe-halves-v0"), starts, ["player_0", "player_1"])[0]
    assert [example.completion for example in lesson] == [example.completion for example in plain]
    env.reset(options={"task_id": "halves/0"})
    prompts, *_ = env.step({"player_0": "", "player_1": ""})
    assert {example.agent: example.prompt for example in lesson} == prompts


def test_a_larger_share_contains_a_smaller_one() -> None:
    shares = [set(draw_share(range(10), share, seed=3)) for share in (0.01, 0.2, 0.3, 0.5, 1)]
    assert [len(share) for share in shares] == [1, 2, 3, 5, 10]
    assert all(small < large for small, large in pairwise(shares))
    assert draw_share(range(10), 0.5, seed=3) != draw_share(range(10), 0.5, seed=4)


def test_lines_of_a_file_are_texts_or_messages(tmp_path: Path) -> None:
    messages = {
        "agent": "y",
        "prompt": [{"role": "user", "content": "b"}],
        "completion": [{"role": "assistant", "content": "bb"}],
    }
    text = {"agent": "x", "prompt": "a", "completion": "ab", "reward": 1.0}
    path = tmp_path / "lessons.jsonl"
    path.write_text(f"{json.dumps(text)}\n\n{json.dumps(messages)}\n")
    expected = [(SFTExample("x", "a", "ab"),), (SFTExample("y", "b", "bb"),)]
    assert read_demonstrations(path, ["x", "y"]) == expected
    del text["agent"]
    path.write_text(json.dumps(text))
    assert read_demonstrations(path, ["x"]) == expected[:1]
    broken = {
        '{"prompt": "a", "completion": "b"}': "line 1: no agent: add one of x, y",
        '{"agent": "z", "prompt": "a", "completion": "b"}': "line 1: unknown agent 'z'",
        '{"agent": "x", "prompt": "a"}': "completion must be a text or a list",
        json.dumps({**messages, "prompt": [{"role": "system", "content": "b"}]}): "system_prompt",
        "[]": "line 1: a line must be an object",
        '{"agent': "line 1: ",
        " \n": "holds no demonstrations",
    }
    for line, reason in broken.items():
        path.write_text(line)
        with pytest.raises(ValueError, match=reason):
            read_demonstrations(path, ["x", "y"])
    with pytest.raises(ValueError, match="cannot read demonstrations"):
        read_demonstrations(tmp_path / "none.jsonl", ["x"])


def test_options_without_a_source_are_refused() -> None:
    for values in ({"epochs": 2}, {"share": 0.5}, {"learning_rate": 1e-3}, {"batch_size": 1}):
        with pytest.raises(ValueError, match="means nothing with source=None"):
            WarmStartOptions(**values)


# --------------------------------------------------------------------------------------------- runs


def warm(folder: Path, lessons: Any = LESSONS, **more: Any) -> Run:
    team = pupils()
    warm_start = SupervisedTraining(team, lessons, options(epochs=2, batch_size=2), seed=5)
    defaults = {"checkpoint_every": 1, "eval_starts": [Start(seed=0), Start(seed=1)]}
    return build(folder, team=team, warm_start=warm_start, **{**defaults, **more})


def test_its_rows_come_first_and_between_two_evaluations(tmp_path: Path) -> None:
    trainer = warm(tmp_path, keep_best=True)
    summary = trainer.run_updates()
    kinds = [json.loads(line)["kind"] for line in trainer.folder.metrics.open()]
    assert kinds == ["untrained", *["warm_start"] * 4, "eval", *["train"] * 4, "eval"]
    assert (summary["last_warm_start"]["step"], summary["first_untrained"]["n"]) == (4, 2)
    phases = {json.loads(line)["phase"] for line in trainer.folder.episodes.open()}
    assert phases == {"train", "eval"}


def test_every_key_of_its_rows_is_documented_and_documented_keys_occur(tmp_path: Path) -> None:
    trainer = warm(tmp_path)
    trainer.run_updates()
    rows = [json.loads(line) for line in trainer.folder.metrics.open()]
    keys = {key for row in rows if row["kind"] == "warm_start" for key in row}
    patterns = [pattern(key) for key in documented("Rows of a warm start") | {"update", "kind"}]
    assert all(any(p.fullmatch(key) for p in patterns) for key in keys)
    assert all(any(p.fullmatch(key) for key in keys) for p in patterns)


@pytest.mark.parametrize("step", [0, 1, 3])
def test_a_run_stopped_in_it_goes_on_as_if_it_had_not(tmp_path: Path, step: int) -> None:
    straight = warm(tmp_path / "straight")
    straight.run_updates()
    stopped = warm(tmp_path / "stopped")
    stop(stopped, stopped.warm_start, "accumulate", step)
    require_resumed(straight, warm(tmp_path / "stopped"), 0)


def test_a_run_stopped_after_it_needs_no_lessons(tmp_path: Path) -> None:
    straight = warm(tmp_path / "straight")
    straight.run_updates()
    warm(tmp_path / "parts", batches=BATCHES[:2]).run_updates()
    again = warm(tmp_path / "parts", lessons=[])
    assert again.resume() == 2
    again.run_updates()
    assert all(map(torch.equal, weights(straight), weights(again)))


def test_other_lessons_and_runs_without_any_are_refused_on_resuming(tmp_path: Path) -> None:
    stopped = warm(tmp_path)
    stop(stopped, stopped.warm_start, "accumulate", 1)
    with pytest.raises(
        ValueError, match="stopped after 1 of 4 steps, and its demonstrations are others"
    ):
        warm(tmp_path, lessons=LESSONS[:2]).resume()
    with pytest.raises(ValueError, match=r"warm_start was .*, not None"):
        build(tmp_path, team=pupils(), checkpoint_every=1).resume()


def test_a_state_goes_on_whatever_reinforcement_will_leave_out() -> None:
    """As states of versions do that had no option `disjoint`, whose fingerprint this is."""
    fields = {k: v for k, v in asdict(options()).items() if k != "disjoint"}
    earlier = sha256(repr([LESSONS, fields, 0]).encode()).hexdigest()
    for values in ({}, {"share": 0.5, "disjoint": True}):
        state = SupervisedTraining(pupils(), LESSONS, options(**values)).state_dict()
        SupervisedTraining(
            pupils(), LESSONS, options(**{**values, "disjoint": False})
        ).load_state_dict(state)
        assert (state["fingerprint"] == earlier) == (not values)
