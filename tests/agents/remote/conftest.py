"""A tiny model in a folder, and a double of vLLM that samples by it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.conftest import tiny_model, tiny_tokenizer
from tests.support.fake_vllm import FakeVllm


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_model(0).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def server(model: Path) -> Iterator[FakeVllm]:
    with FakeVllm(model) as running:
        yield running
