"""docs/metrics.md against the rows of real runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.critics.readers import reading_team
from tests.algorithms.preferences.teams import lexical, recurrent
from tests.algorithms.rewards.reward_models import write_reward_model
from tests.algorithms.runs import ROOT, build, make_team, recording_team

PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
PLACEHOLDERS = {
    "<agent>": "[xy]",
    "<policy>": r"[xy](\+[xy])*",
    "<k>": r"\d+",
    "<component>": r"\w+",
}


def documented(section: str) -> set[str]:
    """The keys of a section's table, with placeholders."""
    text = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (found,) = [part for part in text if part.startswith(section)]
    return set(re.findall(r"^\| `([^`]+)` \|", found, flags=re.MULTILINE))


def pattern(key: str) -> re.Pattern[str]:
    escaped = re.escape(key)
    for placeholder, meaning in PLACEHOLDERS.items():
        escaped = escaped.replace(re.escape(placeholder), meaning)
    return re.compile(escaped)


class TaggedEnv(EchoEnv):
    """Tells of answers without tags, as environments of centralized teams do, and gives agents own points."""

    def step(self, actions: dict[str, str]) -> Any:
        *values, infos = super().step(actions)
        return *values, {
            agent: {**info, "untagged": 1, "own/part": 0.5} for agent, info in infos.items()
        }


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Rows of a chain with policies of their own, and of a tree with a shared one."""
    found: list[dict[str, Any]] = []
    shared = make_team()["x"]
    for options in (
        {
            "env": TaggedEnv(2),
            "early_termination_threshold": 3.0,
            "refill": 1,
            "curriculum": "pass_rate",
            "learner": {"updates_per_batch": 2, "normalize_advantages": "role"},
        },
        {
            "plan": "tree",
            "joint_mode": "cross",
            "group_size": 2,
            "team": {"x": shared, "y": shared},
        },
        {"learner": {"critic": "own"}, "team": reading_team()},
        {"lag": 1, "learner": {"correction": "truncate"}, "team": recording_team()},
        {"algorithm": "coma", "team": reading_team()},
        {"algorithm": "madpo", "team": {"x": recurrent(1), "y": recurrent(2)}},
        {
            "algorithm": "madpo",
            "team": {"x": lexical(1), "y": lexical(2)},
            "comparator": {"x": lexical(3), "y": lexical(4)},
            "learner": {"comparator": "there"},
        },
        {
            "team": reading_team(),
            "reward_model": str(write_reward_model(tmp_path_factory.mktemp("judge"))),
            "reward_model_every": 2,
            "group_size": 8,
        },
    ):
        trainer = build(tmp_path_factory.mktemp("run"), **options)
        trainer.run_updates()
        found += read_json_lines(trainer.folder.metrics)
    return found


@pytest.mark.parametrize(
    ("kind", "section"), [("train", "Rows of updates"), ("eval", "Rows of eval")]
)
def test_every_key_of_a_row_is_documented_and_every_documented_key_occurs(
    metrics: list[dict[str, Any]], kind: str, section: str
) -> None:
    keys = {key for row in metrics if row["kind"] == kind for key in row}
    known = documented("Every row") | documented(section)
    patterns = {key: pattern(key) for key in known}
    assert {k for k in keys if not any(p.fullmatch(k) for p in patterns.values())} == set()
    assert {key for key, p in patterns.items() if not any(p.fullmatch(k) for k in keys)} == set()


def test_the_files_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`(\w+\.py)`", PAGE))
    assert named and named <= {path.name for path in (ROOT / "algorithms").rglob("*.py")}


def test_every_documented_key_has_a_unit_and_a_file() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(lines) == len(set(lines)) > 25
    for line in lines:
        _, _, unit, text, _ = (part.strip() for part in line.split("|"))
        assert unit and re.search(r"`\w+\.py`$", text), line


def test_numbers_of_a_row_agree_with_its_episodes(
    metrics: list[dict[str, Any]], tmp_path: Path
) -> None:
    trainer = build(tmp_path)
    trainer.run_updates()
    row = next(r for r in read_json_lines(trainer.folder.metrics) if r["kind"] == "train")
    episodes = [e for e in read_json_lines(trainer.folder.episodes) if e["phase"] == "train"]
    episodes = [episode for episode in episodes if episode["update"] == row["update"]]
    means = [
        sum(sum(g["rewards"]) / len(g["rewards"]) for g in e["groups"]) / len(e["groups"])
        for e in episodes
    ]
    assert row["reward_mean"] == pytest.approx(sum(means) / len(means))
    assert row["groups"] == sum(len(episode["groups"]) for episode in episodes)
    spent = sum(row[f"{activity}_seconds"] for activity in ("sampling", "stepping", "learning"))
    assert 0 < spent <= row["tokens"] / row["tokens_per_second"]
