"""Options of environments: what is declared once is an argument of `make`, with default and documentation."""

from __future__ import annotations

import inspect
import pydoc

import pytest

import llm_decpomdp
from llm_decpomdp.envs.bugfix.env import BugOptions, FixOptions, bugfix, humanevalfix
from llm_decpomdp.envs.classeval.env import ClassOptions, classeval
from llm_decpomdp.envs.coding.env import CodingOptions, coding_env
from llm_decpomdp.envs.datasets.humaneval import HUMANEVAL
from llm_decpomdp.envs.feedback.code_mode import CodeOptions

FAMILIES = [
    (coding_env, CodingOptions),
    (classeval, ClassOptions),
    (bugfix, BugOptions),
    (humanevalfix, FixOptions),
]


@pytest.mark.parametrize(("family", "kind"), FAMILIES)
def test_help_shows_every_option_with_its_type_default_and_text(family, kind) -> None:
    page = pydoc.plain(pydoc.render_doc(family))
    for name, field in kind.__dataclass_fields__.items():
        assert f"{name}: {field.type!r} = {field.default!r}" in page, name
        (text,) = (
            line for line in page.splitlines() if line.split("=")[0].strip().startswith(f"{name}: ")
        )
        assert len(text.split()) > 1, name
    options = [line for line in page.partition("Options:\n")[2].splitlines() if ": " in line]
    documented = {line.split(":")[0].strip(" |") for line in options}
    assert set(kind.__dataclass_fields__) <= documented


@pytest.mark.parametrize(("family", "kind"), FAMILIES)
def test_an_option_is_a_keyword_and_nothing_else(family, kind) -> None:
    parameters = inspect.signature(family).parameters.values()
    keywords = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert keywords == vars(kind())
    assert "options" not in inspect.signature(family).parameters


def test_a_family_is_called_as_a_function_with_keywords() -> None:
    env = coding_env(HUMANEVAL, "mine", num_turns=3, source="bundled")
    assert env.num_turns == 3 and env.name == "mine"
    with pytest.raises(TypeError, match="num_turn"):
        coding_env(HUMANEVAL, "mine", num_turn=3)
    with pytest.raises(TypeError, match="positional"):
        coding_env(HUMANEVAL, "mine", 3)


@pytest.mark.parametrize("flag", ["exception_text", "exclude_known_issues", "stop_when_solved"])
def test_every_flag_is_true_or_false(flag: str) -> None:
    with pytest.raises(ValueError, match=f"{flag} must be true or false, got 'no'"):
        CodeOptions(**{flag: "no"})
    with pytest.raises(ValueError, match="allow_forgeable must be true or false, got 1"):
        llm_decpomdp.make("classeval-v0", allow_forgeable=1)
