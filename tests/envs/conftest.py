from __future__ import annotations

import pytest

from llm_decpomdp.envs.datasets import loading as sources


@pytest.fixture
def offline(monkeypatch):
    """No test reaches a network; each starts as a fresh process would."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("LLM_DECPOMDP_DATA", raising=False)
    monkeypatch.setattr(sources, "_warned", set())
