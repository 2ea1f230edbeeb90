"""The report of run folders that are written by the trainer's own functions, without a model."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.evaluation.experiments import experiments, mean_gain
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate
from llm_decpomdp.benchmarks.report.summary import is_significant
from llm_decpomdp.benchmarks.runs.results import pairs, read_results
from llm_decpomdp.utils.storage import RunFolder, append_json_line
from tests.benchmarks.report_runs import (
    DATA,
    MANIFEST,
    chain,
    evaluate,
    finished,
    html,
    train,
    tree,
    words,
    write,
)

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return finished(RunFolder(tmp_path / "run"))


def gain_of(folder: RunFolder) -> tuple[Estimate, int]:
    """The gain of a run, and the number of its runs."""
    (experiment,) = experiments([read_results(folder)])
    return mean_gain(experiment), len(experiment.runs)


class Tags(HTMLParser):
    """Counts elements and refuses those that are closed in the wrong order."""

    VOID = ("meta", "br", "path", "use", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open, self.open

    def values(self, name: str) -> list[str]:
        """All values of an attribute."""
        return [of[name] or "" for _, of in self.seen if name in of]

    def count(self, name: str) -> int:
        return sum(tag == name for tag, _ in self.seen)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag, (tag, self.getpos())


def test_the_page_is_well_formed_and_its_ids_are_unique(folder: RunFolder) -> None:
    tags = Tags(html(folder))
    assert tags.count("svg") == 4  # two charts, each for wide and narrow screens
    ids = tags.values("id")
    assert len(ids) == len(set(ids))


def test_every_part_of_the_navigation_is_there(folder: RunFolder) -> None:
    tags = Tags(html(folder))
    anchors = [link[1:] for link in tags.values("href") if re.fullmatch("#[a-z]+", link)]
    assert {"summary", "learning", "tasks", "cooperation", "costs", "transcripts"} <= set(anchors)
    assert set(anchors) <= set(tags.values("id"))


def test_the_page_fetches_nothing_and_runs_its_own_script_alone(folder: RunFolder) -> None:
    text = html(folder)
    tags = Tags(text)
    assert not {"link", "img", "iframe", "object"} & {tag for tag, _ in tags.seen}
    assert all(
        address.startswith("#") for name in ("href", "xlink:href") for address in tags.values(name)
    )
    assert not tags.values("src")
    assert not re.search(r"https?:|@import|url\((?!#)", text)
    scripts = [of for tag, of in tags.seen if tag == "script" and of.get("type") != "text/plain"]
    assert scripts == [{}]
    script = text[text.index("<script>") + len("<script>") : text.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text


def test_what_data_and_configurations_say_is_escaped(folder: RunFolder) -> None:
    task = f"eval/{HOSTILE}"
    write(folder, 7, "eval", [chain(task, [[1.0]])])
    folder.config.write_text(f"note: '{HOSTILE}'\n", encoding="utf-8")
    folder.write_manifest({**MANIFEST, "model": HOSTILE})
    text = html(folder)
    assert text.count("&lt;img src=x onerror=alert(1)&gt;") >= 4
    assert HOSTILE not in text
    assert "task=eval%2F%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E&amp;phase=eval" in text


def test_the_same_folder_gives_the_same_page(folder: RunFolder) -> None:
    assert html(folder) == html(folder)


def test_the_result_is_said_with_intervals(folder: RunFolder) -> None:
    text = words(folder)
    pattern = (
        r"rose from 0\.75 \(0\.5\d to 0\.9\d\) to 2\.02 \(1\.\d\d to 2\.\d\d\) over 8 episodes on held-out "
        r"tasks, none of which was trained on\. The difference is \+1\.27 \(\+1\.0\d to \+1\.\d\d\)"
    )
    assert re.search(pattern, text), text[:2000]
    assert "95 % intervals over tasks. " in text
    assert is_significant(*gain_of(folder))


def test_a_change_within_its_interval_is_called_possible_chance(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    evaluate(run, 0, [1.0, 2.0, 1.0, 2.0, 1.0, 2.0])
    train(run, 2)
    evaluate(run, 2, [2.0, 1.0, 2.0, 1.0, 2.0, 1.5])
    gain, runs = gain_of(run)
    assert not gain.excludes(0.0) and not is_significant(gain, runs)
    assert "may be chance" in words(run)


def test_a_gain_on_few_tasks_is_called_possible_chance(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    evaluate(run, 0, [1.0, 1.0])
    train(run, 2)
    evaluate(run, 2, [2.0, 2.5])
    gain, runs = gain_of(run)
    assert gain.excludes(0.0) and not is_significant(gain, runs)
    assert "may be chance: 2 tasks" in words(run)


def test_tasks_that_were_trained_on_are_not_called_held_out(folder: RunFolder) -> None:
    write(folder, 6, "train", [chain("eval/3", [[1.0, 2.0]])])
    text = words(folder)
    assert "1 of 8" in text and "held-out tasks" not in text


def test_tasks_are_shown_by_falling_gain_and_lead_to_their_transcripts(folder: RunFolder) -> None:
    assert pairs(read_results(folder))[0].task == "eval/5"
    text, page = words(folder), html(folder)
    assert "8 rose, 0 fell, 0 did not change" in text
    assert "eval/5 0.50 3.50 +3.00 eval/4" in text
    assert 'href="#task=eval%2F5&amp;phase=eval&amp;update=6">3.50</a>' in page
    assert '<a href="#task=eval%2F5&amp;phase=eval&amp;compare=1">eval/5</a>' in page


def test_the_cooperation_panel_counts_how_often_components_were_earned(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    evaluate(run, 0, [0.0, 0.0, 0.0, 1.0], components={"uses_aux": 1.0})
    train(run, 1, components={"uses_aux": 1.0})
    evaluate(run, 1, [0.0, 1.0, 2.0, 1.0], components={"uses_aux": 1.0})
    assert "uses aux 25% 75%" in words(run)


def test_a_tree_counts_its_turns_equally(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    write(run, 1, "train", [tree("t", [1.0, 3.0], [[0.0, 0.0], [8.0, 8.0]])])
    (score,) = read_results(run).scores
    assert score.turns == (2.0, 4.0)
    assert score.reward == pytest.approx(3.0)
    assert "gain from turn 1 to 2 +2.00" in words(run)


def test_stand_in_data_gets_a_banner_and_real_data_none(folder: RunFolder) -> None:
    header = re.compile(r"<header>.*?</header>", re.DOTALL)
    assert "banner" not in header.findall(html(folder))[0]
    stand_in = {"train": DATA, "eval": {**DATA, "stand_in": True}}
    folder.write_manifest({**MANIFEST, "data": stand_in})
    (banner,) = re.findall(r'<p class="banner">(.*?)</p>', header.findall(html(folder))[0])
    assert "coophumaneval" in banner


def test_costs_configuration_and_origin_are_shown(folder: RunFolder) -> None:
    text = words(folder)
    title = "MAGRPO on coophumaneval-v0 smollm2-135m-instruct · seed 7 · 2026-03-01 12:00:00 UTC"
    assert title in text
    for cost in (" 6.00 s per update, 60% ", " 1 min 0 s ", " 1,234 "):
        assert cost in text
    assert "algorithm: name: magrpo" in text
    assert "git checkout 7977d54 llm-decpomdp train --config config.yaml" in text


def test_components_carry_the_names_of_the_data(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    shares = {"style_$x$": 0.6, "length": 0.4, "never": 0.0}
    evaluate(run, 0, [1.0, 2.0], components=shares)
    train(run, 3, components=shares)
    assert ">style $x$</text>" in html(run)
    assert ">never</text>" not in html(run) and ": never." in words(run)


def test_environments_without_components_have_a_report(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    train(run, 2, components={})
    assert 'id="components"' not in html(run)


def test_a_run_without_evaluation_has_a_report(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    train(run, 8, agents=("solo_0",))
    text = words(run)
    assert re.search(r"\b0\.35 over the first 3 updates .*\b0\.60 .*\bof 8\b", text)
    assert 'id="tasks"' not in html(run)


@pytest.mark.parametrize("kind", ["train", "eval"])
def test_an_unfinished_run_of_one_row_has_a_report(tmp_path: Path, kind: str) -> None:
    run = RunFolder(tmp_path)
    if kind == "train":
        train(run, 1)
        assert re.search(r"mean team reward of \d\.\d\d", words(run))
    else:
        evaluate(run, 0, [1.0])
        assert "mean team reward 1.00 over 1 episode." in words(run)


def test_a_run_that_kept_no_episodes_has_a_report(folder: RunFolder) -> None:
    folder.episodes.unlink()
    text = words(folder)
    assert "rose from 0.75 to 2.02" in text
    assert "do not tell how much of the difference is chance" in text
    assert "Transcripts" not in text


def test_environments_that_record_no_episode_have_a_report(folder: RunFolder) -> None:
    rows = [json.loads(line) for line in folder.episodes.read_text("utf-8").splitlines()]
    folder.episodes.unlink()
    for row in rows:
        append_json_line(folder.episodes, {**row, "final": None})
    assert "largest: eval/5" in words(folder)
