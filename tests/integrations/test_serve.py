"""The command `serve`, before OpenEnv is needed."""

from __future__ import annotations

import pytest

from llm_decpomdp.utils import extras
from tests.support.commands import call


def test_serve_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "installed", lambda package: None)
    assert call("serve", "probe-turns-v0") != 0
    assert "needs openenv" in (text := capsys.readouterr().err)
    assert "pip install 'openenv>=" in text.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--seat", "a_0", "--partner", "b_0"), "must look like AGENT=gold, got 'b_0'"),
        (("--seat", "a_0", *(("--partner", "b_0=gold") * 2)), "names 'b_0' twice"),
        (("--partner", "b_0=no/such-model"), "play beside a seat: name it with --seat"),
    ],
)
def test_partners_are_checked_before_anything_is_loaded(
    arguments: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("serve", "probe-turns-v0", *arguments) == 2
    assert text in capsys.readouterr().err.replace("\n", " ")
