from __future__ import annotations

import re
from dataclasses import dataclass
from types import NoneType

import pytest

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.benchmarks.config.legacy import GONE, OTHER_NAMES, ROOT_KEYS, SECTION_KEYS
from llm_decpomdp.benchmarks.config.load import shipped
from llm_decpomdp.benchmarks.config.schema import FIELDS, KEYS, OWNERS
from llm_decpomdp.options import option_of, types_of
from tests.support.processes import ROOT
from tools.quality.config_docs import COMMAND, document, find_anchors, page

FILE = ROOT / "docs" / "configuration.md"


@pytest.fixture(scope="module")
def text() -> str:
    return page()


def test_the_page_is_up_to_date(text: str) -> None:
    assert FILE.read_text(encoding="utf-8") == text, f"make it again: {COMMAND}"


def test_every_key_spelling_and_name_stands_on_the_page(text: str) -> None:
    older = [f"A.{key}" for key in SECTION_KEYS]
    for name in (*KEYS, *older, *ROOT_KEYS, *GONE, *shipped(), *OTHER_NAMES):
        assert f"`{name}`" in text, name


def test_every_key_has_a_heading_that_links_find(text: str) -> None:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", heading).replace(" ", "-").lower() for heading in headings]
    assert len(anchors) == len(set(anchors))
    assert {f"#{anchor}" for anchor in anchors} >= set(find_anchors().values())


def test_every_row_of_a_table_has_as_many_cells_as_its_head(text: str) -> None:
    width = 0
    for line in text.splitlines():
        cells = line.replace("\\|", "").count("|") if line.startswith("|") else 0
        if cells and width:
            assert cells == width, line
        width = cells


def test_all_values_of_a_key_stand_beside_it(text: str) -> None:
    everyday = text.partition("## `env`")[0]
    for key, field in FIELDS.items():
        (about,) = re.findall(f"^#### `{re.escape(key)}`\n\n(.*?); default", text, re.MULTILINE)
        types = types_of(*OWNERS[key])
        named = [f"`{choice}`" for choice in field.metadata.get("choices", ())]
        named += ["rue or false"] * (bool in types) + ["or null"] * (NoneType in types)
        assert all(value in about for value in named), key
    algorithm, mode = (
        re.findall(rf"^\| \[`{key}`\].*", everyday, re.MULTILINE)[0]
        for key in ("algorithm.name", "algorithm.rollout.mode")
    )
    assert all(f"`{name}`" in algorithm for name in (*ALGORITHMS, "module:NAME"))
    assert all(f"`{name}`" in mode for name in ("chain", "tree", "episodes"))
    assert "* `temperature` (of `model`, `endpoint`; a number at least 0)." in text


@dataclass(frozen=True)
class Sample:
    """A sample."""

    said: int = 1
    """What it means.

    And more."""
    silent: int = 2
    other: str = ""
    """Another."""


@dataclass(frozen=True)
class Inheriting(Sample):
    third: int = option_of(Sample, "said")
    fourth: int = option_of(Sample, "said")
    """A fourth, or `None`."""


def test_the_text_of_a_field_stands_below_it_or_where_it_is_declared() -> None:
    texts = {"said": "What it means.\n\nAnd more.", "other": "Another."}
    assert document(Sample) == texts
    more = {"third": texts["said"], "fourth": "A fourth, or `null`."}
    assert document(Inheriting) == texts | more
