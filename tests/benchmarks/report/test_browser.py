"""The page in a real browser, where there is one: no errors, and filters that filter.

A browser takes seconds to start, so all views of the page stand in the frames of one document.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.report import write_report
from llm_decpomdp.utils.storage import RunFolder
from tests.benchmarks.report_runs import HOSTILE, chain, finished, tree, write

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

FILTERS = {
    "solved=1": ["hard"],
    "task=eval%2F5": ["eval/5", "eval/5"],
    "phase=train&update=5&sort=old": ["train/5", "hard", "grown"],
    "phase=eval&min=2.05&sort=high": ["eval/5", "eval/4"],
    "turn=2&max=0.35&sort=low&phase=train": ["train/1", "train/2"],
    "min=100": [],
}
VIEWS = ["", "task=hard", "task=grown", "task=eval%2F5&compare=1", *FILTERS]
PHONE = 390

HARNESS = """<script>
onload = () => setTimeout(() => {
  const found = [...document.querySelectorAll("iframe")].map(({ contentDocument }) => [
    contentDocument.documentElement.outerHTML.replace(/<script[^]*?<\\/script>/g, ""),
    contentDocument.documentElement.scrollWidth,
  ]);
  const pre = document.createElement("pre");
  pre.textContent = JSON.stringify(found);
  document.body.replaceChildren(pre);
}, 3000);
</script>"""


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """For each view of a run of 24 episodes the document after its script has run.

    One episode was solved, and one is a tree.
    """
    run = finished(RunFolder(tmp_path_factory.mktemp("run")))
    write(run, 5, "train", [chain("hard", [[0.5, 4.0], [1.0, 2.0]])])
    write(run, 5, "train", [tree("grown", [1.0, 3.0], [[0.0, 0.5], [3.5, 3.75]])])
    name = write_report(run).name
    found = show(run.path, [f"{name}#{view}" for view in VIEWS])
    assert {width for _, width in found} == {PHONE}, "a view is wider than the screen"
    return {view: document for view, (document, _) in zip(VIEWS, found, strict=True)}


def show(folder: Path, addresses: Sequence[str]) -> list[tuple[str, int]]:
    """The documents of pages after their scripts have run, and their widths on a phone."""
    frames = "".join(f'<iframe src="{address}" width="{PHONE}"></iframe>' for address in addresses)
    page = folder / "frames.html"
    page.write_text(f"<!doctype html><body>{frames}{HARNESS}", encoding="utf-8")
    command = [
        *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--enable-logging=stderr", "--allow-file-access-from-files", "--dump-dom"),
        *("--disable-dev-shm-usage", "--virtual-time-budget=20000"),
        *(f"--user-data-dir={folder / 'profile'}", page.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    found = unescape(done.stdout.partition("<pre>")[2].partition("</pre>")[0])
    return [(document, width) for document, width in json.loads(found)]


def listed(document: str) -> list[str]:
    """The tasks in the list of episodes."""
    return re.findall(r'<span class="task">([^<]*)</span>', document)


def test_the_page_lists_all_episodes_without_errors(documents: Mapping[str, str]) -> None:
    document = documents[""]
    assert "24 of 24 episodes" in document
    assert len(listed(document)) == 24
    assert listed(document)[0] == "eval/0"  # the newest come first, evaluations before training
    assert document.count("Save as CSV") >= 4


@pytest.mark.parametrize("view", FILTERS)
def test_filters_of_the_address(documents: Mapping[str, str], view: str) -> None:
    assert listed(documents[view]) == FILTERS[view]


def test_filters_that_nothing_passes_say_so(documents: Mapping[str, str]) -> None:
    assert "0 of 24 episodes" in documents["min=100"]
    assert "No episode matches these filters." in documents["min=100"]


def test_view_of_an_episode(documents: Mapping[str, str]) -> None:
    document = documents["task=hard"]
    assert "2 joint samples of one state; → continued" in document
    assert document.count("<article>") == 1
    assert len(re.findall('class="sample( on)?"', document)) == 4
    assert document.count(">continued<") == 1, "of turn 2 no sample goes on"
    assert "hard, turn 2" in document and "prompt of aux_0" in document
    assert "1 of 2 tests pass" in document
    assert "error: NameError: x (line 2 of main_0)" in document
    assert re.search(r">tests</th><td>3.00</td>.*?>reward</th><td>4.00</td>", document)
    assert '<span class="k">def</span> <span class="d">main_0</span>' in document


def test_what_models_and_tests_say_stays_text(documents: Mapping[str, str]) -> None:
    document = documents["task=hard"]
    assert HOSTILE not in document
    assert "# &lt;script&gt;alert('x')&lt;/script&gt; &amp; &lt;img" in document
    assert "assert f('&lt;i&gt;') == 3" in document


def test_the_best_branch_of_a_tree_is_followed(documents: Mapping[str, str]) -> None:
    document = documents["task=grown"]
    assert document.count('class="turn"') == 2
    assert "sample of 3.75" in document and "sample of 0.5" not in document


def test_two_episodes_stand_side_by_side(documents: Mapping[str, str]) -> None:
    before, after = documents["task=eval%2F5&compare=1"].split("<article>")[1:]
    assert "evaluation before training · mean reward 0.50" in before
    assert "evaluation after update 6 · mean reward 3.50" in after
