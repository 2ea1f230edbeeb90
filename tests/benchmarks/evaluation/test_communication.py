"""The value of communication: from exact bounds and an estimated score, in evaluations and reports."""

from __future__ import annotations

import json

import pytest

from llm_decpomdp import make
from llm_decpomdp.agents.scripted import Constant, Gold
from llm_decpomdp.benchmarks import evaluate, write_report
from llm_decpomdp.benchmarks.evaluation.folder import overall
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, value_of_communication
from llm_decpomdp.envs.worlds.strategies import exact_numbers
from llm_decpomdp.utils.storage import RunFolder
from tests.benchmarks.evaluations import starts_of


def test_the_value_is_0_at_the_silent_score_and_1_at_the_optimum() -> None:
    numbers = {"optimum": 0.9, "silent": 0.4}
    found = value_of_communication(Estimate(0.65, 0.4, 0.9, 7), numbers)
    assert found is not None and found.units == 7
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.0, 1.0))
    worse = value_of_communication(Estimate(0.15, None, None, 1), numbers)
    assert worse is not None and worse.value == pytest.approx(-0.5) and worse.low is None


@pytest.mark.parametrize(
    "numbers", [{}, {"optimum": 1.0}, {"silent": 0.0}, {"optimum": 0.5, "silent": 0.5}]
)
def test_without_both_bounds_there_is_no_value(numbers) -> None:
    assert value_of_communication(Estimate(0.5, 0.4, 0.6, 3), numbers) is None


def test_exact_numbers_are_those_of_a_family_with_messages() -> None:
    assert exact_numbers(make("gather-v0")) == pytest.approx(
        {"optimum": 1.0, "alone": 8 / 61, "silent": 16 / 61}
    )
    assert set(exact_numbers(make("pooled-v0", channel={"bandwidth": 9}))) == {
        "optimum",
        "alone",
        "silent",
        "random",
    }
    assert exact_numbers(make("coophumaneval-v0", source="bundled")) == {}
    # With three agents, a team without messages that earns more is not excluded.
    assert exact_numbers(make("build-word-v0", num_agents=3)) == {}


class Halting(Gold):
    """The reference of the first agent alone, and nothing of the other."""

    def generate_with_envs(self, envs, agents, num_samples=1):
        texts = super().generate_with_envs(envs, agents, num_samples)
        return [
            [Constant("").generate([""])[0][0]] * num_samples if agent == "gatherer_1" else found
            for agent, found in zip(agents, texts, strict=True)
        ]


@pytest.fixture(params=[Gold, Halting])
def evaluation(request, tmp_path):
    env = make("gather-v0", facts=0, split="test[:6]")
    team = dict.fromkeys(env.possible_agents, request.param())
    return evaluate(env, team, starts_of(env), samples=2, folder=tmp_path / "e", progress=False)


def test_an_evaluation_has_the_return_and_the_value(evaluation) -> None:
    estimates = overall(evaluation)
    score = 1.0 if "last/solved" in estimates and estimates["last/solved"].value else 0.5
    assert estimates["return"].value == pytest.approx(score)
    value = (score - 16 / 61) / (1 - 16 / 61)
    assert estimates["value_of_communication"].value == pytest.approx(value)
    stored = json.loads((evaluation.folder / "summary.json").read_text())["overall"]
    assert stored["value_of_communication"]["value"] == pytest.approx(value)


def test_a_report_has_the_value(evaluation, tmp_path) -> None:
    page = write_report(RunFolder(evaluation.folder), output=tmp_path / "r.html")
    text = page.read_text(encoding="utf-8")
    assert "value of communication" in text and "best without messages" in text


def test_other_environments_have_neither(tmp_path) -> None:
    env = make("probe-halves-v0")
    team = dict.fromkeys(env.possible_agents, Gold())
    found = evaluate(env, team, starts_of(env), folder=tmp_path / "e", progress=False)
    assert not {"return", "value_of_communication"} & overall(found).keys()
    assert "numbers" not in found.manifest["description"]
