"""Texts of models, programs and data on a terminal, and warnings that name the user's line."""

from __future__ import annotations

import json
import logging
import sys
import unicodedata
import warnings
from pathlib import Path

import pytest
from rich.console import Console

from llm_decpomdp.agents.scripted import Constant
from llm_decpomdp.benchmarks.audit.run import Audit, table
from llm_decpomdp.benchmarks.cli import episode
from llm_decpomdp.benchmarks.cli.console import LogFormatter, exit_codes
from llm_decpomdp.benchmarks.cli.play import play
from llm_decpomdp.benchmarks.config.errors import RunError
from llm_decpomdp.envs.datasets.loading import Remark
from llm_decpomdp.registry import make
from llm_decpomdp.utils.text import plain, visible, warn
from tests.conftest import word_env, word_tasks
from tests.support.processes import ROOT, python
from tests.wrapper_cases import Greeting, words

HOSTILE = "a\x1b]0;owned\x07\x1b[2Jb\x9b31mc\rd\x08e\u202ef\x00[red]g[/red]"
SHOWN = r"a\x1b]0;owned\x07\x1b[2Jb\x9b31mc\rd\x08e\u202ef\x00[red]g[/red]"

DIRECTIONS = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
JOINERS = "\u200c\u200d"


def obeyed(text: str) -> set[str]:
    """The characters of a text that a terminal may obey."""
    return {
        one for one in text if unicodedata.category(one) in ("Cc", "Cs") and one not in "\n\t"
    } | {one for one in text if unicodedata.bidirectional(one) in DIRECTIONS}


def test_hostile_characters_stand_there_as_in_pythons_literals() -> None:
    assert visible(HOSTILE) == SHOWN
    assert plain(HOSTILE).plain == SHOWN and not plain(HOSTILE).spans


def test_no_character_that_a_terminal_obeys_stays_and_no_other_goes() -> None:
    for number in range(sys.maxunicode + 1):
        one = chr(number)
        if obeyed(one):
            assert visible(one).isascii() and visible(one).isprintable(), hex(number)
        elif one.isprintable() or one in f"\n\t{JOINERS}":
            assert visible(one) == one, hex(number)


def test_code_and_the_texts_of_the_world_stay_as_they_are() -> None:
    for text in ("def f(x):\n\treturn x\n", "naïve 世界 👩🏽‍💻 é", "نص عربي", "a\u00a0b\u3000c"):
        assert visible(text) == text


@pytest.mark.parametrize("render_mode", ["ansi", "human"])
def test_renderings_send_no_texts(render_mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    env = word_env(render_mode=render_mode)
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, HOSTILE))
    shown = env.render() or capsys.readouterr().out
    assert not obeyed(shown)
    assert SHOWN in shown and HOSTILE in env.state()


def test_the_id_of_a_task_is_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "task_id": "[red]\x1b[2Jlist[int]",
        "prompt": "def double(x):\n",
        "entry_point": "double",
        "test": "def check(candidate):\n    assert candidate(2) == 4\n",
    }
    (tmp_path / "mine.jsonl").write_text(json.dumps(row) + "\n")
    source = str(tmp_path / "mine.jsonl")
    make("coophumaneval-v0", source=source, split="test", render_mode="human").reset(seed=0)
    shown = capsys.readouterr().out
    assert r"Task [red]\x1b[2Jlist[int]" in shown and not obeyed(shown)


def test_play_sends(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(episode, "RandomText", lambda: Constant(HOSTILE))
    play("coophumaneval-v0", policy="random", seed=0, num_turns=1, source="bundled")
    shown = capsys.readouterr().out
    assert SHOWN in shown and not obeyed(shown)


def test_errors_and_log_lines_send_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), exit_codes():
        raise RunError(f"the server answered {HOSTILE}")
    assert capsys.readouterr().err == f"error: the server answered {SHOWN}\n"
    record = logging.LogRecord("a", logging.WARNING, "", 0, "it said %s", (HOSTILE,), None)
    assert LogFormatter().format(record) == f"warning: it said {SHOWN}"


def test_the_table_of_an_audit_sends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    remark = Remark("reference", "list[int]", "", HOSTILE, fault=True)
    Console().print(table(Audit("mine-v0", word_tasks().describe(), 1, 1, 1, (remark,))))
    shown = capsys.readouterr().out
    assert "list[int]" in shown and r"a\x1b]0;owned" in shown and not obeyed(shown)


LOOP = """
import llm_decpomdp
from pettingzoo.utils.wrappers import BaseParallelWrapper

env = BaseParallelWrapper(llm_decpomdp.make("coophumaneval-v0"))
env.reset(seed=7)  # the line
"""


def test_a_warning_in_the_depth_names_the_line_that_led_to_it(tmp_path: Path) -> None:
    """Without a hub the problems are stand-ins, which is found when they are loaded."""
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    environment = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "PATH": ""}
    result = python(str(script), env=environment)
    line = LOOP.splitlines().index("env.reset(seed=7)  # the line") + 1
    assert f"{script}:{line}: UserWarning: the Hugging Face hub" in result.stderr


def test_a_call_through_a_wrapper_is_the_users(recwarn: pytest.WarningsRecorder) -> None:
    env = Greeting(words())
    env.reset(seed=0)
    env.render()
    assert recwarn.pop(UserWarning).filename == __file__


def test_lines_of_the_packages_between_are_passed_over() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for name in ("llm_decpomdp.depth", "llm_decpomdpish"):
            exec("warn('hello', RuntimeWarning)", {"warn": warn, "__name__": name})
    assert {str(one.message) for one in found} == {"hello"}
    assert [one.filename for one in found] == [__file__, "<string>"]
    assert found[0].category is RuntimeWarning
