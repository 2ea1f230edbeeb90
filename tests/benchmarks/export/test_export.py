from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest

from llm_decpomdp.algorithms.rewards.comparisons import read_comparisons
from llm_decpomdp.algorithms.rollouts.histories import restore_histories
from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Rollout, Start
from llm_decpomdp.algorithms.training.metrics import episode_row
from llm_decpomdp.benchmarks import load_config, train
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.benchmarks.export.contents import PAIRS, TRAJECTORIES
from llm_decpomdp.benchmarks.export.write import FORMATS, export
from llm_decpomdp.policy import Completion
from llm_decpomdp.utils.storage import RunFolder, append_json_line, read_json_lines
from tests.support.commands import call
from tests.support.processes import ROOT

AGENTS = ("aux_0", "main_0")
DATA = {"name": "coophumaneval", "source": "bundled", "split": "test", "stand_in": True}
MANIFEST = {
    "environment": "coophumaneval-v0",
    "seed": 7,
    "data": {"train": {**DATA, "fingerprint": "4d1377645d4d5900"}},
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def group(
    turn: int, rewards: list[float], parent: Parent | None = None, chosen: int | None = 0
) -> Group:
    """Aligned joint samples; completion g of an agent is `<agent> turn.g`, of g + 1 tokens."""
    completions = {
        agent: tuple(
            Completion(f"{agent} {turn}.{g} é", tuple(range(g + 1)), (-0.1,) * (g + 1))
            for g in range(len(rewards))
        )
        for agent in AGENTS
    }
    return Group(
        turn=turn,
        parent=parent,
        prompts={agent: f"{agent}, turn {turn}?" for agent in AGENTS},
        completions=completions,
        joint=tuple((g,) * 2 for g in range(len(rewards))),
        rewards=tuple(rewards),
        infos=tuple(
            {"turn": turn + 1.0, "reward/tests": r, "solved": float(r > 3)} for r in rewards
        ),
        chosen=chosen,
    )


CHAIN = Rollout(
    Start(task_id="HumanEval/3"),
    (group(0, [1.0, 3.0, 2.0], chosen=1), group(1, [4.0, 4.0, 4.0], Parent(0, 1), chosen=2)),
)
PLAYED = Rollout(Start(seed=5), (group(0, [2.0]),))
TREE = Rollout(
    Start(task_id="HumanEval/4"),
    (
        group(0, [1.0, 3.0], chosen=None),
        group(1, [0.0, 4.0], Parent(0, 0), None),
        group(1, [0.0, 1.0], Parent(0, 1), None),
    ),
)
CROSSED = replace(TREE, groups=(replace(TREE.groups[0], joint=((0, 0), (0, 1))),))
"""The second agent alone differs between two joint samples."""


def folder(path: Path, *rollouts: Rollout, with_tokens: bool = False, **config: Any) -> Path:
    """A run that has trained on some rollouts, and played one."""
    run = RunFolder(path)
    overrides = [f"{key.replace('__', '.')}={value}" for key, value in config.items()]
    run.config.write_text(load_config(None, overrides).to_yaml())
    run.write_manifest(MANIFEST)
    for phase, some in (("eval", [PLAYED]), ("train", rollouts)):
        for update, rollout in enumerate(some, phase == "train"):
            append_json_line(run.episodes, episode_row(rollout, update, phase, with_tokens))
    return path


def load(run: Path, **options: Any) -> Any:
    """Export a run, and load its rows by split as a user does."""
    return datasets.load_dataset(str(export(run, "hub-folder", **options).folder))


def test_a_hub_folder_has_its_splits_and_a_card(tmp_path: Path) -> None:
    data = load(folder(tmp_path / "run", CHAIN))
    assert {split: len(data[split]) for split in data} == {"train": 12, "eval": 2}
    front, text = (
        (tmp_path / "run" / "trajectories-hub-folder" / "README.md").read_text().split("---\n")[1:]
    )
    assert "split: train" in front and "data/train.parquet" in front
    assert "| train | coophumaneval | `test` |  | bundled | `4d1377645d4d5900` | mit |" in text
    assert "Problems of llm_decpomdp replace those of coophumaneval." in text
    assert "license: mit" in front
    assert set(re.findall(r"^\| `(.+?)` \|", text, re.MULTILINE)) == set(data["train"].column_names)


def test_other_formats_have_a_card_on_request_that_names_their_files(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", CHAIN)
    assert not (export(run, "jsonl").folder / "README.md").exists()
    made = export(run, "jsonl", tmp_path / "data", card=True).folder
    data = datasets.load_dataset(str(made))
    assert {split: len(data[split]) for split in data} == {"train": 12, "eval": 2}
    assert "path: train.jsonl" in (made / "README.md").read_text()


def test_a_row_is_what_an_agent_saw_said_and_earned(tmp_path: Path) -> None:
    data = load(folder(tmp_path / "run", CHAIN))
    assert data["train"][9] == {
        "run": "run",
        "environment": "coophumaneval-v0",
        "task": "HumanEval/3",
        "phase": "train",
        "update": 1,
        "rollout": 1,
        "group": 1,
        "parent_group": 0,
        "parent_sample": 1,
        "turn": 1,
        "sample": 1,
        "chosen": False,
        "agent": "main_0",
        "completion_index": 1,
        "prompt": "main_0, turn 1?",
        "completion": "main_0 1.1 é",
        "finish_reason": "stop",
        "token_ids": None,
        "log_probs": None,
        "reward": 4.0,
        "return": 4.0,
        "advantage": 0.0,
        "reward/tests": 4.0,
        "solved": 1.0,
    }
    played = data["eval"][0]
    assert (played["task"], played["chosen"], played["advantage"]) == ("seed 5", True, None)


@pytest.mark.parametrize("to", [name for name in FORMATS if name != "inspect"])
def test_all_formats_hold_the_same(tmp_path: Path, to: str) -> None:
    run = folder(tmp_path / "run", CHAIN, TREE, with_tokens=True)
    made = export(run, to, tmp_path / "made")
    file = {"parquet": "train.parquet", "jsonl": "train.jsonl", "hub-folder": "data/train.parquet"}
    kind = "json" if to == "jsonl" else "parquet"
    data = datasets.load_dataset(kind, data_files=str(made.folder / file[to]), split="train")
    assert len(data) == made.rows["train"] == 12 + 12
    assert data["advantage"][:6] == [-1.0, -1.0, 1.0, 1.0, 0.0, 0.0]
    assert (data[3]["completion"], data[3]["token_ids"]) == ("main_0 0.1 é", [0, 1])
    assert data[3]["log_probs"] == pytest.approx([-0.1, -0.1])


def test_returns_and_advantages_of_a_tree_look_ahead(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", TREE, algorithm__plan="tree", env__discount=0.5)
    rows = load(run)["train"]
    first = [row for row in rows if row["turn"] == 0 and row["agent"] == "aux_0"]
    assert [row["return"] for row in first] == [1.0 + 0.5 * 2.0, 3.0 + 0.5 * 0.5]
    assert [row["advantage"] for row in first] == [-0.625, 0.625]
    assert [row["chosen"] for row in first] == [None, None]


def test_an_agent_that_did_not_learn_has_no_advantage(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", CHAIN, policies="{aux_0: {kind: gold}}")
    rows = load(run)["train"]
    assert {row["advantage"] is None for row in rows if row["agent"] == "aux_0"} == {True}
    assert {row["advantage"] is None for row in rows if row["agent"] == "main_0"} == {False}


def test_crossed_joint_samples_name_the_completion_of_each_agent(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", CROSSED)
    rows = load(run)["train"]
    said = [(row["sample"], row["agent"], row["completion"]) for row in rows]
    assert said == [
        (0, "aux_0", "aux_0 0.0 é"),
        (0, "main_0", "main_0 0.0 é"),
        (1, "aux_0", "aux_0 0.0 é"),
        (1, "main_0", "main_0 0.1 é"),
    ]


def test_pairs_set_the_best_joint_sample_against_the_worst(tmp_path: Path) -> None:
    rows = load(folder(tmp_path / "run", CHAIN), as_pairs=True)[
        "train"
    ].to_list()  # turn 1 is a tie
    assert [(row["agent"], row["prompt"], row["chosen"], row["rejected"]) for row in rows] == [
        (agent, f"{agent}, turn 0?", f"{agent} 0.1 é", f"{agent} 0.0 é") for agent in AGENTS
    ]
    worth = [rows[0][key] for key in ("chosen_return", "rejected_return", "margin")]
    assert worth == [3.0, 1.0, 2.0]
    assert {row["others"] for row in rows} == {"{}"}


def test_agents_that_said_the_same_in_both_samples_stand_in_others(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", CROSSED)
    path = export(run, "jsonl", as_pairs=True).folder / "train.jsonl"
    (row,) = read_json_lines(path)
    assert row["agent"] == "main_0"
    assert json.loads(row["others"]) == {"aux_0": ["aux_0, turn 0?", "aux_0 0.0 é"]}
    (pair,) = read_comparisons(path, AGENTS, "coophumaneval-v0")
    assert pair.task == "HumanEval/4"
    assert pair.winner.answers == {"aux_0": "aux_0 0.0 é", "main_0": "main_0 0.1 é"}
    assert pair.loser.answers == {"aux_0": "aux_0 0.0 é", "main_0": "main_0 0.0 é"}
    assert pair.winner.prompts == {agent: f"{agent}, turn 0?" for agent in AGENTS}


def test_a_small_margin_makes_no_pair(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", CHAIN)
    assert export(run, "jsonl", tmp_path / "even", as_pairs=True, min_margin=2).rows["train"] == 2
    with pytest.raises(ConfigError, match="has no pairs"):
        export(run, "jsonl", tmp_path / "more", as_pairs=True, min_margin=2.1)
    assert not (tmp_path / "more").exists()


def test_an_evaluation_exports_without_a_configuration(tmp_path: Path) -> None:
    run = folder(tmp_path / "run")
    (run / "config.yaml").unlink()
    assert export(run, "jsonl").rows == {"eval": 2}


def test_recorded_tokens_are_exported(quick: list[str], tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    config = load_config(
        find_config("demo"), [*quick, "output.report=false", "output.record_tokens=true"]
    )
    train(config, "demo")
    tokenizer = AutoTokenizer.from_pretrained(config.model.name)
    rows = load(tmp_path / "run")["train"]
    assert len(rows) == 2 * 2 * 2 * config.env.num_turns * config.algorithm.train_batch_size
    for row in rows:
        said = tokenizer.decode(row["token_ids"], skip_special_tokens=True)
        assert said == row["completion"]
        assert len(row["log_probs"]) == len(row["token_ids"]) > 0
        assert np.all(np.array(row["log_probs"]) < 0)


def test_the_command_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = folder(tmp_path / "run", CHAIN)
    assert call("export", str(run), "--to", "jsonl", "--pairs", "--min-margin", "0.5") == 0
    assert capsys.readouterr().out == f"train: 2 rows\n{run / 'pairs-jsonl'}\n"
    assert [path.name for path in (run / "pairs-jsonl").iterdir()] == ["train.jsonl"]
    assert not list(run.glob(".unfinished-*"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"to": "parket"}, "did you mean 'parquet'"),
        ({"min_margin": 1.0}, "need --pairs: give that too"),
        ({"min_margin": float("nan"), "as_pairs": True}, "must be at least 0"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        export(folder(tmp_path / "run", CHAIN), **options)


def test_outputs_are_not_replaced(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", CHAIN)
    export(run, "jsonl")
    with pytest.raises(ConfigError, match=r"already exists: choose another .*--output"):
        export(run, "jsonl")
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ConfigError, match=r"has no episodes\.jsonl"):
            export(path)


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", CHAIN)
    output = run / "episodes.jsonl" / "made"
    with pytest.raises(RunError, match=f"^cannot write {output}: (File exists|Not a directory)$"):
        export(run, "jsonl", output)


def test_dialogues_have_a_column_with_the_messages_before_a_prompt(tmp_path: Path) -> None:
    said = restore_histories(CHAIN.groups, ["main_0"])
    chat = replace(CHAIN, groups=said, dialogues=("main_0",))
    plain, run = (folder(tmp_path / name, one) for name, one in (("none", CHAIN), ("run", chat)))
    for as_pairs in (False, True):
        usual, rows = (
            list(read_json_lines(export(of, "jsonl", as_pairs=as_pairs).folder / "train.jsonl"))
            for of in (plain, run)
        )
        assert usual == [
            {key: value for key, value in row.items() if key != "history"} | {"run": "none"}
            for row in rows
        ]
        for row in rows:
            before = json.loads(row["history"])
            if row["agent"] == "aux_0" or row["turn"] == 0:
                assert before == []
            else:
                assert before == [
                    {"role": "user", "content": "main_0, turn 0?"},
                    {"role": "assistant", "content": "main_0 0.1 é"},
                ]
        assert {row["turn"] for row in rows} == ({0} if as_pairs else {0, 1})
    assert "history" in load(run)["train"].column_names


SHARED = {name for name in PAIRS if PAIRS[name] == TRAJECTORIES.get(name)}
"""Columns of pairs that the page describes with those of trajectories."""


def test_the_page_names_every_column() -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    trajectories, pairs = page.partition("### Trajectories")[2].split("### Preference pairs")
    for text, columns in ((trajectories, TRAJECTORIES), (pairs.partition("\n## ")[0], PAIRS)):
        rows = re.findall(r"^\| `(.+?)` \| (.+?) \| (.+) \|$", text, re.MULTILINE)
        told = {name: (kind, meaning) for name, kind, meaning in rows}
        told.pop("reward/<component>", None)
        told.pop("<number>", None)
        new = [name for name in columns if columns is TRAJECTORIES or name not in SHARED]
        assert told == {name: tuple(columns[name]) for name in new}
