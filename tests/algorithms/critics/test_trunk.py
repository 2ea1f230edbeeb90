"""Critics whose trunk is trained with them."""

from __future__ import annotations

import string
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.agents import CausalLM, tiny_causal_lm
from llm_decpomdp.agents.adapters import adapter_policies
from llm_decpomdp.agents.inference.options import ModelOptions
from llm_decpomdp.algorithms import ALGORITHMS, Learner, LearnerOptions
from llm_decpomdp.algorithms.critics.head import TrunkHead, TrunkOptimizer, ValueHead
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.critics.readers import HashedParts, reading_team
from tests.algorithms.runs import BATCHES, Run, build, make_team, require_equal

LORA = {"critic": {"scope": "joint", "trunk": "lora", "learning_rate": 0.01}}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    tiny_causal_lm(string.printable, width=16, layers=1).save(folder)
    return folder


def team(base: Path) -> dict[str, CausalLM]:
    """Two policies with adapters on one model."""
    options = ModelOptions(device="cpu", max_new_tokens=3)
    shape = {"r": 2, "target_modules": ["q_proj", "v_proj", "down_proj"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return adapter_policies(
            base, dict.fromkeys("xy", shape), dict.fromkeys("xy", options), {"x": 0, "y": 1}
        )


def trunk_of(policy: CausalLM, rate: float = 0.01) -> TrunkOptimizer:
    trunk = policy.new_trunk(0)
    assert trunk is not None
    return TrunkOptimizer(trunk, rate)


TEXTS = ["ab" * n + last for n in range(1, 9) for last in ("a", "b", "aa", "bb")]
PAIRS = torch.tensor([[0.0, float(text.endswith("aa"))] for text in TEXTS])


def error(head: ValueHead, features: Any) -> float:
    return float((head.predict(features(TEXTS).cpu()) - PAIRS[:, 1]).square().mean())


def test_a_trunk_learns_what_its_heads_alone_do_not(base: Path) -> None:
    policy = team(base)["x"]
    trunk = trunk_of(policy)
    width = policy.features(TEXTS).shape[1]
    frozen, trained = ValueHead(width, 0.01), TrunkHead(width, 0.01, trunk)
    for _ in range(15):
        frozen.learn(policy.features(TEXTS), PAIRS, 2)
        trained.learn(trunk(TEXTS), PAIRS, 2, TEXTS)
    assert error(trained, trunk) < 0.5 * error(frozen, policy.features)


def test_a_trunk_that_does_not_move_is_a_frozen_one(base: Path) -> None:
    policy = team(base)["x"]
    trunk = trunk_of(policy, rate=0.0)
    width = policy.features(TEXTS).shape[1]
    frozen, still = ValueHead(width, 0.01), TrunkHead(width, 0.01, trunk)
    for first in range(0, 24, 8):  # a few at a time, so that older ones are read again
        batch = slice(first, first + 8)
        frozen.learn(policy.features(TEXTS[batch]), PAIRS[batch], 2)
        still.learn(trunk(TEXTS[batch]), PAIRS[batch], 2, TEXTS[batch])
    assert error(still, trunk) == pytest.approx(error(frozen, policy.features), rel=1e-4)


def run(folder: Path, base: Path, updates: int = 4, **options: Any) -> Run:
    learner = {**LORA, "learning_rate": 0.01, **options.pop("learner", {})}
    batches = [BATCHES[0] * 3] * updates
    return build(folder, batches, team=team(base), learner=learner, eval_starts=[], **options)


@pytest.mark.parametrize("algorithm", ["iac", pytest.param("magrpo", marks=pytest.mark.slow)])
def test_a_run_goes_on_where_it_stopped(tmp_path: Path, base: Path, algorithm: str) -> None:
    own: dict[str, Any] = {"algorithm": algorithm}
    if algorithm != "magrpo":
        own["learner"] = {"critic": {"trunk": "lora", "learning_rate": 0.01}}
    straight = run(tmp_path / "straight", base, **own)
    straight.run_updates()
    run(tmp_path / "parts", base, 2, checkpoint_every=2, **own).run_updates()
    parts = run(tmp_path / "parts", base, checkpoint_every=2, **own)
    assert parts.resume() == 2
    parts.run_updates()
    require_equal(straight, parts)
    trunks = [trainer.learner.state_dict()["critic"]["trunks"] for trainer in (straight, parts)]
    assert set(trunks[0]) == ({"x", "y"} if algorithm == "iac" else {"team"})
    for name in trunks[0]:
        weights = [of[name]["weights"] for of in trunks]
        assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))
        assert any(weight.abs().sum() > 0 for weight in weights[0][1::2])  # those that begin at 0
    rows = [r for r in read_json_lines(straight.folder.metrics) if r["kind"] == "train"]
    assert all("critic/loss" in row for row in rows)


def test_frozen_critics_keep_no_texts_and_no_trunk(tmp_path: Path) -> None:
    trainer = build(tmp_path, team=reading_team(), learner={"critic": "joint"})
    trainer.run_updates()
    state = trainer.learner.state_dict()["critic"]
    assert set(state) == {"heads"} and "texts" not in state["heads"][0]["state"]


def test_what_has_no_trunk_to_train_is_refused(base: Path) -> None:
    def learner(players: Any, algorithm: str = "magrpo", features: Any = None, **more: Any) -> Any:
        return Learner(players, ALGORITHMS[algorithm], LearnerOptions(**{**LORA, **more}), features)

    for players in (make_team(), {"x": tiny_causal_lm("ab"), "y": tiny_causal_lm("ab")}):
        with pytest.raises(ValueError, match="full weights would change what the critic reads"):
            learner(players)
    with pytest.raises(ValueError, match=r"and features are given: set critic.trunk=frozen"):
        learner(team(base), features=HashedParts())
    with pytest.raises(ValueError, match=r"coma learns .* set critic.trunk=frozen, got lora"):
        learner(team(base), "coma", critic={"trunk": "lora"})
    with pytest.raises(ValueError, match="critic: trunk=lora means nothing with scope=none"):
        learner(team(base), critic={"scope": "none", "trunk": "lora"})
    mixed = {"x": tiny_causal_lm("ab"), "y": team(base)["y"]}
    assert learner(mixed).critic is not None  # the one that stays as it is reads
    with pytest.raises(ValueError, match="no policy has such a model"):
        learner(mixed, critic={"scope": "own", "trunk": "lora"})
