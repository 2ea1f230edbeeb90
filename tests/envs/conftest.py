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


class ScriptedExpert:
    """An expert that no network reaches; it says a text to every agent and notes what it was shown."""

    def __init__(self):
        self.asked = []

    def edits(self, task_prompt, completions):
        self.asked.append((task_prompt, dict(completions)))
        return {agent: f"Edits for {agent}." for agent in completions}


@pytest.fixture
def expert(monkeypatch):
    """Stands in for the expert of every environment."""
    one = ScriptedExpert()
    name = "llm_decpomdp.envs.feedback.code_mode.RemoteExpert"
    monkeypatch.setattr(name, lambda model, base_url: one)
    return one
