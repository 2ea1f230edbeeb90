"""Exchanged partners: which agents play which case, and what the report tells of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llm_decpomdp.agents import Constant, Gold, save_team
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks import evaluate, load_config, train
from llm_decpomdp.benchmarks.analysis import partners
from llm_decpomdp.benchmarks.analysis.partners import (
    exchange_in_turn,
    exchange_partners,
    helper_call_share,
    read_partners,
    solved_share,
    table,
)
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate
from llm_decpomdp.benchmarks.report import analysis as story_panel
from llm_decpomdp.registry import make
from llm_decpomdp.utils.storage import RunFolder
from tests.benchmarks.report_runs import html
from tests.support.commands import call

OPTIONS = [
    "env={id: compose-v0, options: {convention: name, types: numbers}}",
    "dataset={source: bundled, train_split: 'train[:4]', eval_split: 'test[:2]'}",
    "model={name: tiny-random, max_new_tokens: 2}",
    "algorithm={num_generations: 2, max_updates: 1}",
    "output={report: false, name: run, save_final_model: true}",
]


ORDER = ["env.order=[aux_0,main_0]", "algorithm.rollout.mode=episodes"]


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    options = [*OPTIONS, *getattr(request, "param", ()), f"output.base_dir={tmp_path}"]
    return train(load_config(None, options), "run").folder.path


def write_teams(run: Path, other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the trained pair agree on one name, the other on another, and the untrained say nothing."""
    env = make("compose-v0", convention="name", types="numbers", split="test[:2]")
    task = env.tasks.tasks[0]
    texts = {role.agent: str(role.reference(task)) for role in env.roles}
    name = texts["aux_0"].split("(")[0].removeprefix("def ")
    apart = next(n for n in ("alpha", "beta") if n != name)
    for folder, called_ in ((run / "final_model", name), (other, apart)):
        save_team(
            {agent: Constant(text.replace(name, called_)) for agent, text in texts.items()}, folder
        )
    silent = {agent: Constant("") for agent in texts}
    monkeypatch.setattr(partners, "load_policies", lambda config, envs: silent)


@pytest.mark.parametrize("run", [(), ORDER], indirect=True)
def test_partners_are_exchanged(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(run / "final_model")
    write_teams(run, tmp_path / "other", monkeypatch)
    found = exchange_partners(run, tmp_path / "other")
    assert list(found) == ["before", "after", "untrained", "another"]
    assert [solved_share(found[case]).value for case in found] == [0.0, 0.5, 0.0, 0.0]
    shares = [helper_call_share(found[case]) for case in found]
    assert [share.value for share in shares if share] == [0.0, 1.0, 0.0, 0.0]
    about = {case: found[case].manifest["identity"]["about"] for case in found}
    assert about["another"]["main_0"] == about["after"]["main_0"] != about["another"]["aux_0"]
    page = html(RunFolder(run))
    story = page.partition('id="together"')[2].partition("</section>")[0]
    assert "solves 50% of the held-out tasks (0% before training)" in story
    assert "of the gain is lost" not in story  # two tasks tell no gain from none
    assert "is the first held-out task that only the trained team solves" in story
    assert "Before training: 0 of 6 tests pass" in story and "6 of 6 tests pass" in story
    assert page.index('id="together"') < page.index('id="summary"')


def test_what_is_solved_counts_at_the_end_of_an_episode(tmp_path: Path) -> None:
    env = make("compose-v0", types="numbers", split="test[:1]", channel={"bandwidth": 5})
    gold = {agent: Gold() for agent in env.possible_agents}
    found = evaluate(
        env, gold, [Start(task_id="compose/5")], samples=1, folder=tmp_path / "gold", seed=0
    )
    assert solved_share(found).value == 1.0  # though nothing is in the turn of messages


def test_three_runs_exchange_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for name in ("first", "second", "third"):
        options = [*OPTIONS, f"output.base_dir={tmp_path}", f"output.name={name}"]
        runs.append(train(load_config(None, options), name).folder.path)
        shutil.rmtree(runs[-1] / "final_model")
    for run in runs:
        write_teams(run, tmp_path / f"other-{run.name}", monkeypatch)
    stranger = runs[2] / "final_model"
    shutil.rmtree(stranger)
    shutil.copytree(tmp_path / "other-third", stranger)
    found = exchange_in_turn(runs)
    assert [solved_share(e).value for e in found["after"]] == [0.5, 0.5, 0.5]
    assert [solved_share(e).value for e in found["another"]] == [0.5, 0.0, 0.0]
    assert solved_share(*found["another"]).value == pytest.approx(1 / 6)
    assert solved_share(*found["after"]).units == 3
    cells = [list(column.cells) for column in table(found).columns]
    assert cells[0][4:] == list(partners.DIFFERENCES)
    assert [str(cell).split()[0] for cell in cells[1][4:]] == ["0.500", "0.500", "0.333"]


@pytest.mark.parametrize("change", ["dataset.eval_split=test[2:4]", "env.options.types=lists"])
def test_runs_with_other_problems_have_no_table(run: Path, tmp_path: Path, change: str) -> None:
    options = [*OPTIONS, change, f"output.base_dir={tmp_path / 'apart'}"]
    apart = train(load_config(None, options), "run").folder.path
    with pytest.raises(ConfigError, match="other held-out problems"):
        exchange_in_turn([run, shutil.copytree(run, tmp_path / "copy"), apart])
    assert not (run / "partners").exists()
    with pytest.raises(ConfigError, match="named twice"):
        exchange_in_turn([run, run])


def drawn_story(monkeypatch: pytest.MonkeyPatch, **run: Any) -> str:
    """Draw the panel of a team that gains 0.5, and loses 0.6 with one stranger and nothing with another."""
    values = {"before": 0.2, "after": 0.7, "untrained": 0.1, "another": 0.8}
    evaluations = {
        case: SimpleNamespace(
            manifest={"identity": {"team": ["aux_0", "main_0"]}}, tasks=range(32), of=value
        )
        for case, value in values.items()
    }
    estimate = lambda e: Estimate(e.of, e.of - 0.05, e.of + 0.05, 32)  # noqa: E731
    monkeypatch.setattr(story_panel, "solved_share", estimate)
    monkeypatch.setattr(story_panel, "helper_call_share", lambda evaluation: None)
    monkeypatch.setattr(story_panel, "_example", lambda *of: iter(()))
    scores = {0: [], **run.pop("scores", {})}
    at = lambda kind, update: scores[update]  # noqa: E731
    results = SimpleNamespace(**{"lessons": (), "config_text": "", "select_scores": at, **run})
    return "".join(story_panel._partner_blocks(results, evaluations))  # type: ignore[arg-type]


def test_no_more_than_the_gain_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    page = drawn_story(monkeypatch)
    assert (
        "100% of the gain is lost with an untrained partner; 0% of the gain is lost with a" in page
    )
    assert "alone" not in page


@pytest.mark.parametrize(
    ("source", "words"),
    [("gold", "references"), ("passes", "passing samples"), ("l.jsonl", "a file")],
)
def test_row_of_a_warm_start(monkeypatch: pytest.MonkeyPatch, source: str, words: str) -> None:
    run = {"lessons": ({"step": 7},), "config_text": f"warm_start: {{source: {source}}}"}
    score = lambda solved_share: SimpleNamespace(solved=solved_share, earned={"names_aux": 0.5})  # noqa: E731
    scores = [score(1.0)] * 8 + [score(0.0)] * 24
    page = drawn_story(monkeypatch, scores={0: scores}, **run)
    assert f"after the warm start (7 steps on {words})<" in page and "<td>0.25 (" in page
    assert "<td>0.50<" in page and "(20% before training, 25% after the warm start)" in page
    assert "The row of the warm start" in page
    for other in ({0: scores[:16]}, {12: scores}, {0: [score(None)] * 32}):
        page = drawn_story(monkeypatch, scores=other, **run)
        assert "warm start" not in page


def test_a_report_of_a_run_without_them_has_no_story(run: Path) -> None:
    assert 'id="together"' not in html(RunFolder(run))


def test_command_evaluates_and_reports(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("partners", str(run), "--tasks", "1") == 0
    told = capsys.readouterr().out
    assert "after training, together" in told and "another run" not in told
    assert (run / "report.html").is_file() and (run / "partners" / "untrained").is_dir()


def test_the_demo_trains_two_pairs_and_exchanges_the_partners_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    quick = ["algorithm.max_updates=1", "evaluation.num_tasks=2", "dataset.eval_split=test[:2]"]
    tiny = ["model.name=tiny-random", "model.system_prompt=null", "warm_start.share=0.001"]
    output = ["output.name=pair", "output.save_path=team", "output.keep_best=true"]
    assert call("demo", "--override", *quick, *tiny, *output) == 0
    told = capsys.readouterr().out
    assert "lost with a partner of" in told and told.count("report: ") == 1
    other = Path("runs/pair-other-seed")
    seeds = [load_config(run / "config.yaml").seed for run in (other, Path("runs/pair"))]
    assert seeds[0] == seeds[1] + 1
    assert 'id="together"' in Path("runs/pair/report.html").read_text(encoding="utf-8")
    assert not (other / "report.html").exists() and Path("team").is_dir()
    about = read_partners(Path("runs/pair"))["another"].manifest["identity"]["about"]
    assert about["main_0"]["team"].endswith("team")
    assert about["aux_0"]["team"].endswith("pair-other-seed/final_model")


def test_what_is_no_run_of_a_team_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no training run: it has no config"):
        exchange_partners(tmp_path)
