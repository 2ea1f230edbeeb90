"""Fixtures of the tests of `benchmarks`, which tools build on."""

from tests.benchmarks.conftest import chat_model, no_network, quick, tiny_model

__all__ = ["chat_model", "no_network", "quick", "tiny_model"]
