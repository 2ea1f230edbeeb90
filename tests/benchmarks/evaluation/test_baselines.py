from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp import Completion, DecPOMDPEnv
from llm_decpomdp.agents.saved_team import save_team
from llm_decpomdp.agents.scripted import Constant, Gold, Scripted
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks import evaluate, load_config, train
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.baselines import BASELINES, EvalConfig, find_baseline
from llm_decpomdp.wrappers.turn_order import set_order
from tests.benchmarks.evaluations import rows_of, starts_of
from tests.support.commands import call

Make = Callable[..., DecPOMDPEnv]


class Numbered(Scripted):
    """Says its name and how often it was asked; each answer has two tokens."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[str] = []

    def act(self, prompt: str) -> str:
        self.asked.append(prompt)
        return f"<{self.name} says {len(self.asked)}>"

    def generate(self, prompts: Any, num_samples: int = 1) -> list[list[Completion]]:
        return [[Completion(self.act(prompt), tokens=(1, 2))] for prompt in prompts]


@pytest.fixture
def setting(quick: list[str]) -> EvalConfig:
    """Two tasks of CoopHumanEval for two tiny models that sample four tokens."""
    config = load_config(overrides=[*quick, "env.num_turns=1", "output.report=false"])
    return replace(
        EvalConfig.from_config(config),
        env_options={**EvalConfig.from_config(config).env_options, "split": "test[:2]"},
    )


def test_pipeline_shows_earlier_answers(make_word_env: Make, tmp_path: Path) -> None:
    env = set_order(make_word_env(num_turns=2), ["left_0", "right_0"])
    team = {"left_0": Numbered("left"), "right_0": Numbered("right")}
    starts = [Start(task_id="word/0"), Start(task_id="word/1")]
    evaluate(env, team, starts, folder=tmp_path)
    first, second = (row["groups"] for row in rows_of(tmp_path))
    plain, _ = make_word_env().reset(options={"task_id": "word/0"})
    assert [list(group["prompts"]) for group in first] == 2 * [["left_0"], ["right_0"]]
    assert first[0]["prompts"]["left_0"].endswith(plain["left_0"])
    seen = first[1]["prompts"]["right_0"]
    assert plain["right_0"] in seen
    assert seen.endswith("left_0:\n<left says 1>")
    assert "<left says 2>" in second[1]["prompts"]["right_0"]
    assert "<left says 1>" not in second[1]["prompts"]["right_0"]
    assert "<left says 3>" in first[3]["prompts"]["right_0"]  # on every turn
    judged = rows_of(tmp_path)[0]["final"]["turns"][0]["completions"]
    assert judged == {"left_0": "<left says 1>", "right_0": "<right says 1>"}


def test_discussion_plays_second_answers(make_word_env: Make, tmp_path: Path) -> None:
    team = {"left_0": Numbered("left"), "right_0": Numbered("right")}
    start, agents = Start(task_id="word/0"), ["left_0", "right_0"]
    env = set_order(make_word_env(num_turns=1), [agents, agents])
    found = evaluate(env, team, [start], folder=tmp_path)
    (row,) = rows_of(tmp_path)
    _, group = row["groups"]
    assert group["completions"] == {"left_0": ["<left says 2>"], "right_0": ["<right says 2>"]}
    assert row["final"]["turns"][0]["completions"]["left_0"] == "<left says 2>"
    draft, final = team["left_0"].asked
    assert final == group["prompts"]["left_0"]
    assert final.startswith(draft)
    assert "Your earlier answer:\n<left says 1>" in final and "right_0:\n<right says 1>" in final
    assert row["tokens"] == 2 * [{"left_0": 2, "right_0": 2}]
    assert found.means("tokens") == {"word/0": 8.0}


def test_gold_earns_full_marks_and_random_text_none(setting: EvalConfig, tmp_path: Path) -> None:
    rewards = {}
    for name in ("gold", "random"):
        one = find_baseline(name, setting).load()
        found = evaluate(
            one.env, one.team, starts_of(one.env), folder=tmp_path / name, about=one.about
        )
        rewards[name] = list(found.means("last/reward_mean").values())
    assert rewards == {"gold": [4.0, 4.0], "random": [0.0, 0.0]}


@pytest.mark.parametrize(
    "name",
    [n for n in BASELINES if n not in ("expert_edits", "gold", "random", "self_consistency")],
)
def test_baselines_use_the_model(name: str, setting: EvalConfig, tmp_path: Path) -> None:
    one = find_baseline(name, setting).load()
    alone = name.startswith("single")
    assert one.env.possible_agents == (["main_0"] if alone else ["aux_0", "main_0"])
    limit = 8 if name == "single_agent_matched" else 4
    assert {policy.sampling.max_new_tokens for policy in one.team.values()} == {limit}  # type: ignore[attr-defined]
    assert one.about["baseline"] == name and one.about["model"]["max_new_tokens"] == limit
    start = Start(task_id=one.env.tasks.tasks[0].task_id)
    found = evaluate(one.env, one.team, [start], folder=tmp_path / "e", act=one.act)
    spent = sum(found.means(f"tokens/{agent}")[start.task_id] for agent in one.team)  # type: ignore[index]
    answers = 2 if name == "one_round_discussion" else 1
    assert 0 < spent <= limit * len(one.team) * answers


def test_a_matched_agent_has_the_tokens_of_a_team_of_any_size(setting: EvalConfig) -> None:
    three = replace(setting, env_options={**setting.env_options, "num_agents": 3})
    one = find_baseline("single_agent_matched", three).load()
    assert one.about["model"]["max_new_tokens"] == 12


def test_a_matched_agent_has_the_tokens_of_messages_too(setting: EvalConfig) -> None:
    talking = replace(setting, env_options={**setting.env_options, "channel": {"bandwidth": 8}})
    assert BASELINES["single_agent_matched"](talking).limits == {"main_0": 2 * 2 * 4}
    assert BASELINES["single_agent"](talking).limits == {"main_0": 4}


def test_self_consistency_has_the_answers_and_tokens_of_the_team(setting: EvalConfig) -> None:
    for attempts in (1, 3):
        options = {"source": "bundled", "attempts": attempts}
        team = EvalConfig(setting.config, "verified-v0", options)
        one = find_baseline("self_consistency", team)
        assert one.env.spec_kwargs["votes"] == one.env.num_turns == 2 * attempts
        assert one.limits == {"solver_0": 4} and one.env.possible_agents == ["solver_0"]


def test_baselines_that_sample_in_another_way_are_others(setting: EvalConfig) -> None:
    warmer = replace(setting.config, model=replace(setting.config.model, temperature=0.5))
    one, two = (
        find_baseline("naive_concatenation", replace(setting, config=config)).load().about
        for config in (setting.config, warmer)
    )
    assert one["model"].pop("temperature") != two["model"].pop("temperature") == 0.5
    assert one == two


def test_expert_edits_need_two_turns(setting: EvalConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    asked = {**setting.env_options, "expert_model": "gpt-x", "num_turns": 1}
    one = find_baseline("expert_edits", replace(setting, env_options=asked)).load()
    assert one.env.num_turns == 2
    assert one.env.spec_kwargs["external_mode"] == "expert_edits"


def test_a_baseline_that_makes_no_sense_is_one_clear_error(setting: EvalConfig) -> None:
    alone = replace(setting, env_options={**setting.env_options, "num_agents": 1})
    probe = EvalConfig(setting.config, "probe-rendezvous-v0", {})
    larger = replace(setting, env_options={**setting.env_options, "num_agents": 3})
    for name, where, message in (
        ("sequential_pipeline", alone, "there is one agent"),
        ("single_agent_matched", alone, "there is one agent"),
        ("single_agent", probe, "unknown argument 'num_agents'"),
        ("expert_edits", probe, "unknown argument 'external_mode'"),
        ("expert_edits", setting, "needs expert_model"),
        ("self_consistency", setting, "whose answers can be compared, such as verified-v0"),
        ("gold", larger, "no reference for it"),
        ("glod", setting, "did you mean 'gold'"),
    ):
        with pytest.raises(ConfigError, match=message):
            find_baseline(name, where)


def test_refused_before_loading_data(quick: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--env-option", "num_agents=1", "--env-option", "source=missing.jsonl"]
    line = ["eval", "--baseline", "naive_concatenation", "--env", "humaneval-v0", *options]
    assert call(*line, "--override", *quick) == 2
    assert "naive_concatenation needs a team" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("single_agent", {"main_0": 7}),
        ("single_agent_matched", {"main_0": 14}),
        ("naive_concatenation", {"aux_0": 7, "main_0": 7}),
        ("one_round_discussion", {"aux_0": 7, "main_0": 7}),
        ("gold", {}),
    ],
)
def test_limits_before_loading(setting: EvalConfig, name: str, limits: dict[str, int]) -> None:
    model = replace(setting.config.model, name="no such model", max_new_tokens=7)
    setting = replace(setting, config=replace(setting.config, model=model))
    assert BASELINES[name](setting).limits == limits


def test_every_baseline_is_described() -> None:
    import llm_decpomdp.benchmarks.evaluation.baselines as module

    assert module.__doc__ is not None
    assert [name for name in BASELINES if f"`{name}`" not in module.__doc__] == []


def summary(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return content


def test_command_with_a_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        "eval --baseline gold --env coophumaneval-v0 --env-option source=bundled --split test[:2]"
    )
    options = ["--samples", "2", "--k", "2", "--output", str(tmp_path / "e")]
    assert call(*line.split(), *options) == 0
    shown = capsys.readouterr().out
    assert "coophumaneval-v0: 2 tasks, 2 samples of each" in shown
    assert "last/reward_mean" in shown and "4.000" in shown and "pass@2" in shown
    assert f"evaluation: {tmp_path / 'e'}" in shown
    assert summary(tmp_path / "e")["overall"]["last/reward_mean"]["value"] == 4.0


def test_the_command_evaluates_a_configuration_and_goes_on(
    quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["eval", "--config", "demo", "--tasks", "2", "--seed", "1", "--override", *quick]
    assert call(*line) == 0
    folder = tmp_path / "eval-demo-coophumaneval-v0"
    rows = (folder / "episodes.jsonl").read_bytes()
    assert call(*line) == 0
    assert (folder / "episodes.jsonl").read_bytes() == rows
    assert {"tokens/aux_0", "tokens/main_0"} <= set(summary(folder)["overall"])
    assert call(*line, "--env-option", "num_turns=2") == 2
    assert "holds another evaluation" in capsys.readouterr().err


def test_the_command_evaluates_what_a_run_has_left(
    quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ["output.save_final_model=true", "output.keep_best=true", "output.report=false"]
    train(load_config(overrides=[*quick, *wanted, "output.checkpoint_every=1"]), "run")
    learn_something(tmp_path / "run" / "checkpoints" / "update-000002")
    base, texts = ["eval", "--team", str(tmp_path / "run"), "--tasks", "2", "--output"], {}
    for seed, name in enumerate(("final", "best", "last")):  # seeds that change nothing
        folder = tmp_path / name
        options = ["--checkpoint", name, "--greedy", "--seed", str(seed)]
        assert call(*base, str(folder), *options) == 0
        texts[name] = [row["groups"][0]["completions"] for row in rows_of(folder)]
    assert texts["final"] == texts["best"]  # keep_best makes the best team the final one
    assert texts["last"] != texts["best"]
    assert call(*base, str(tmp_path / "any")) == 0
    identity = json.loads((tmp_path / "any" / "manifest.json").read_text())["identity"]
    assert identity["about"]["team"] == str(tmp_path / "run" / "final_model")
    assert identity["about"]["greedy"] is False
    assert call(*base, str(tmp_path / "no"), "--env-option", "num_agents=1") == 2
    assert "plays aux_0, main_0, and coophumaneval-v0 has main_0" in capsys.readouterr().err
    for key in ("agent_model.temperature", "model.temperature"):  # the first is an older spelling
        changed = ["--override", "model.device=cpu", f"{key}=0.1"]
        assert call(*base, str(tmp_path / "no"), *changed) == 2
        assert f"'{key}=0.1' changes nothing: the saved team in" in capsys.readouterr().err
    options = ["--checkpoint", "last", "--greedy", "--seed", "2", *changed]
    assert call(*base, str(tmp_path / "last"), *options) == 2  # there it changes something
    assert "holds another evaluation" in capsys.readouterr().err


def test_team_saved_again_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "eval --env coophumaneval-v0 --env-option source=bundled --split test[:1]".split()
    line += ["--team", str(tmp_path / "team"), "--output", str(tmp_path / "e")]
    save_team({"aux_0": Gold(), "main_0": Gold()}, tmp_path / "team")
    assert call(*line) == call(*line) == 0
    save_team({"aux_0": Gold(), "main_0": Constant("nothing")}, tmp_path / "team")
    assert call(*line) == 2
    assert "holds another evaluation" in capsys.readouterr().err


def learn_something(checkpoint: Path) -> None:
    """Change the weights in a checkpoint: what earns nothing teaches nothing."""
    import torch

    state = torch.load(checkpoint / "state.pt", weights_only=True)
    for policy in state["policies"].values():
        for weight in policy["weights"].values():
            weight.neg_()
    torch.save(state, checkpoint / "state.pt")


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("--baseline gold --team x", 2, "exclude each other"),
        ("--baseline godl", 2, "did you mean 'gold'"),
        ("--checkpoint best", 2, "name the run with --team"),
        ("--team nowhere", 2, "nowhere does not exist"),
        ("--baseline gold --greedy --samples 2", 2, "all equal"),
        ("--baseline random --greedy", 2, "leave out --greedy"),
        ("--baseline gold --k 3", 2, "pass@3 needs"),
        ("--baseline gold --env coophuman-v0", 2, "did you mean 'coophumaneval-v0'"),
        ("--baseline gold --env-option num_turn=2", 2, "did you mean 'num_turns'"),
        ("--baseline gold --env-option source=x.jsonl", 1, "x.jsonl"),
        ("--baseline gold --env-option foo", 2, "must look like KEY=VALUE, got 'foo'"),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(
    line: str, code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundled = ["--override", "dataset.source=bundled"]
    assert call("eval", *bundled, "--output", str(tmp_path / "e"), *line.split()) == code
    told = capsys.readouterr().err.strip()
    assert told.startswith("error: ") and "\n" not in told
    assert message in told
