from __future__ import annotations

from functools import cache

import pytest

from llm_decpomdp import make
from llm_decpomdp.envs.datasets import loading as sources


@pytest.fixture
def offline(monkeypatch):
    """No test reaches a network; each starts as a fresh process would."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("LLM_DECPOMDP_DATA", raising=False)
    monkeypatch.setattr(sources, "_warned", set())


@cache
def tasks_of(env_id, num_agents):
    return make(env_id, source="bundled", num_agents=num_agents).tasks


def make_known(env_id, *, num_agents, **settings):
    """An environment of bundled tasks, which are read once: to play them takes less time."""
    env = make(env_id, source="bundled", num_agents=num_agents, **settings)
    env._tasks = tasks_of(env_id, num_agents)
    return env
