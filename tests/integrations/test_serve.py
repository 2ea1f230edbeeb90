"""The command `serve`, where OpenEnv is not installed."""

from __future__ import annotations

import pytest

from llm_decpomdp.benchmarks.config import extras
from tests.support.commands import call


def test_serve_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "installed", lambda package: None)
    assert call("serve", "probe-turns-v0") != 0
    assert "needs openenv" in (text := capsys.readouterr().err)
    assert "pip install 'llm-decpomdp[openenv]'" in text.replace("\n", " ")
