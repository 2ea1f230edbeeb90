"""The report says what it is about, and claims no more than was measured."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.benchmarks.report.page import prose
from llm_decpomdp.envs.coding.reward import COMPONENTS
from llm_decpomdp.interfaces import describe_reward
from llm_decpomdp.registry import make
from llm_decpomdp.utils.storage import RunFolder
from tests.benchmarks.report_runs import DATA, MANIFEST, evaluate, finished, html, train, words

REWARD = describe_reward(make("coophumaneval-v0", source="bundled").reward)
DESCRIPTION = {
    "environment": "Two agents write one program: `aux_0` a helper. Nobody sees <the other>.",
    "algorithm": "MAGRPO (arXiv 2508.04652): what earned more becomes likelier.",
    "reward": REWARD,
}
ABOUT = {**MANIFEST, "description": DESCRIPTION}
FORM = {"syntax": 0.75, "main_defined": 0.25}
WHOLE = {"syntax": 0.5, "tests": 0.5}


def run_of(
    path: Path,
    before: list[float],
    after: list[float],
    shares: dict[str, float],
    manifest: dict[str, Any] = ABOUT,
) -> RunFolder:
    """A run with two evaluations whose rewards are split into components by their shares."""
    run = RunFolder(path)
    run.write_manifest(manifest)
    evaluate(run, 0, before, components=shares)
    train(run, 2, components=shares)
    evaluate(run, 2, after, components=shares)
    return run


def test_the_page_says_what_the_agents_do_and_how_they_learn(tmp_path: Path) -> None:
    run = run_of(tmp_path, [1.0] * 8, [2.0] * 8, FORM)
    text, page = words(run), html(run)
    assert "Two agents write one program: aux_0 a helper. Nobody sees &lt;the other&gt;." in text
    assert "what earned more becomes likelier." in text
    assert (
        '<a href="https://arxiv.org/abs/2508.04652" rel="noreferrer">arXiv 2508.04652</a>' in page
    )
    assert "docs/evaluation.md" in text and "docs/metrics.md" in text


def test_each_component_is_explained_in_the_words_of_its_environment(tmp_path: Path) -> None:
    text = words(run_of(tmp_path / "some", [1.0] * 8, [2.0] * 8, FORM))
    for name in FORM:
        assert f"{name.replace('_', ' ')} {COMPONENTS[name].text}" in text
    silent = RunFolder(tmp_path / "none")
    silent.write_manifest(ABOUT)
    evaluate(silent, 0, [0.0] * 8, components=FORM)
    assert f"syntax {COMPONENTS['syntax'].text}" in words(silent)


def test_teams_with_another_maximum_are_named(tmp_path: Path) -> None:
    alone = {**ABOUT, "description": {**DESCRIPTION, "reward": {**REWARD, "maximum": 2.1}}}
    runs = [
        run_of(tmp_path / f"{i}", [1.0], [1.0], WHOLE, m)
        for i, m in enumerate((ABOUT, ABOUT, alone))
    ]
    assert "of at most 4.0 (2.1 for 2)." in words(*runs)


def test_many_experiments_have_the_whole_width(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / f"{i}", [1.0], [1.0], WHOLE) for i in range(5)]
    many, two, one = html(*runs), html(*runs[:2]), html(runs[0])
    for name in ("tasks", "cooperation"):
        assert f'<section id="{name}" class="wide">' in many
        assert f'<section id="{name}" class="">' in two
    assert '<section id="summary" class="wide">' in two
    assert '<section id="summary" class="">' in one


def test_one_run_that_says_what_it_is_about_is_enough(tmp_path: Path) -> None:
    new = run_of(tmp_path / "new", [1.0], [1.0], WHOLE)
    old = run_of(tmp_path / "old", [1.0], [1.0], WHOLE, MANIFEST)
    assert "Two agents write one program" in words(new, old)
    assert "coophumaneval-v0 : Two agents" not in words(new, old)


def test_the_cards_say_out_of_how_much_and_how_many_were_solved(tmp_path: Path) -> None:
    run = run_of(tmp_path, [1.0] * 8, [4.0, *[2.0] * 7], WHOLE)
    text = words(run)
    assert re.search(
        r"before training 1\.00 of 4\.0 1\.00 to 1\.00 after 2 updates 2\.25 of 4\.0", text
    )
    assert "tasks solved 0 of 8 → 1 of 8" in text


def test_a_gain_in_form_is_called_form(tmp_path: Path) -> None:
    text = words(run_of(tmp_path, [1.0, 0.5] * 4, [2.0] * 8, FORM))
    assert "Only the form improved; no task is solved." in text
    assert "tasks solved 0 of 8 → 0 of 8" in text
    assert re.search(r"\+1\.25 of the change is form \(syntax, main defined\)", text)


def test_a_gain_beyond_form_is_told_apart(tmp_path: Path) -> None:
    text = words(run_of(tmp_path, [1.0, 0.5] * 4, [2.0] * 8, WHOLE))
    assert "The reward increased; no task is solved." in text
    assert re.search(
        r"\+0\.62 of the change is form \(syntax\), .*; \+0\.62 .* is the rest \(tests\)", text
    )


@pytest.mark.parametrize(
    ("before", "after", "headline"),
    [
        ([1.0, 2.0] * 4, [2.0, 1.0] * 4, "Training did not change the reward significantly."),
        ([1.0, 1.0], [2.0, 2.5], "Training did not change the reward significantly."),
        ([2.0] * 8, [1.0] * 8, "The reward is lower than before training."),
        ([1.0] * 8, [4.0] * 8, "tasks solved: 0 of 8 before training, 8 of 8 after training."),
    ],
)
def test_the_headline_claims_what_was_measured(
    before: list[float], after: list[float], headline: str, tmp_path: Path
) -> None:
    assert headline in words(run_of(tmp_path, before, after, WHOLE))


def test_seeds_are_counted_by_episodes(tmp_path: Path) -> None:
    runs = [
        run_of(tmp_path / f"{s}", [1.0] * 8, [4.0] * 8, WHOLE, {**ABOUT, "seed": s}) for s in (0, 1)
    ]
    for seed, run in enumerate(runs):
        run.config.write_text(f"seed: {seed}\n", encoding="utf-8")
    assert "episodes solved 0 of 16 → 16 of 16" in words(*runs)


def test_an_evaluation_has_cards_too(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_manifest({**ABOUT, "kind": "evaluation"})
    evaluate(run, 0, [4.0, 2.0], components=WHOLE)
    assert re.search(r"mean team reward 3\.00 of 4\.0 .* tasks solved 1 of 2 ", words(run))


def test_a_manifest_without_descriptions_has_a_report(tmp_path: Path) -> None:
    text = words(finished(RunFolder(tmp_path / "old")))
    assert "before training 0.75 " in text and " of 4.0" not in text
    assert "of the change" not in text


def test_empty_lists_of_the_data_are_called_none(tmp_path: Path) -> None:
    issues = {"known_issues": {"HumanEval/47": "the <example> is wrong"}, "excluded": {}}
    run = run_of(tmp_path, [1.0], [1.0], FORM, {**ABOUT, "data": {"eval": {**DATA, **issues}}})
    text = words(run)
    assert "excluded none" in text and "known issues 1, listed below" in text
    assert "HumanEval/47 the &lt;example&gt; is wrong" in text
    assert "{}" not in text


def test_prose_is_escaped_before_it_is_marked() -> None:
    assert prose("`<b>` & arXiv 1234.56789") == (
        '<p><code>&lt;b&gt;</code> &amp; <a href="https://arxiv.org/abs/1234.56789" '
        'rel="noreferrer">arXiv 1234.56789</a></p>'
    )


def test_a_page_with_descriptions_links_to_papers_alone(tmp_path: Path) -> None:
    page = html(run_of(tmp_path, [1.0] * 8, [2.0] * 8, FORM))
    addresses = set(re.findall(r"https?://[^\"<]*", page))
    assert addresses == {"https://arxiv.org/abs/2508.04652"}
    assert "default-src 'none'" in page
