from __future__ import annotations

from functools import cache

import pytest

from llm_decpomdp.envs.classeval import env as classeval
from llm_decpomdp.envs.datasets import loading as sources
from llm_decpomdp.envs.problems.classeval import load_classes


@pytest.fixture
def offline(monkeypatch):
    """No test reaches a network; each starts as a fresh process would."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("LLM_DECPOMDP_DATA", raising=False)
    monkeypatch.setattr(sources, "_warned", set())


classes = cache(load_classes)


def known_classes(split, source, *options):
    """The bundled classes, read once: to play them takes less time."""
    return classes(split, source)


@pytest.fixture
def classes_once(monkeypatch):
    monkeypatch.setattr(classeval, "load_classes", known_classes)
