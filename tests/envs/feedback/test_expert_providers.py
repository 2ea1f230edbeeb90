"""Which provider, address and key an expert gets."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("anthropic")

import llm_decpomdp
from llm_decpomdp.envs.feedback.experts import RemoteExpert
from tests.support.processes import python

KEY_VARIABLES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "DASHSCOPE_API_KEY")


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*KEY_VARIABLES, "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("model", "variable", "host"),
    [
        ("claude-3-5-sonnet-20241022", "ANTHROPIC_API_KEY", "https://api.anthropic.com"),
        ("deepseek-coder", "DEEPSEEK_API_KEY", "https://api.deepseek.com"),
        (
            "Qwen3-Coder-480B",
            "DASHSCOPE_API_KEY",
            "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        ),
        ("gpt-4o", "OPENAI_API_KEY", "https://api.openai.com/v1"),
    ],
)
class TestPresets:
    def test_address_and_key_come_from_the_models_name(
        self, monkeypatch: pytest.MonkeyPatch, model: str, variable: str, host: str
    ) -> None:
        for name in KEY_VARIABLES:
            monkeypatch.setenv(name, f"value of {name}")
        expert = RemoteExpert(model, timeout=7)
        assert isinstance(expert, RemoteExpert)
        assert str(expert.client.base_url).rstrip("/") == host
        assert expert.client.api_key == f"value of {variable}"
        assert (expert.client.timeout, expert.client.max_retries) == (7, 3)

    def test_arguments_win(
        self, monkeypatch: pytest.MonkeyPatch, model: str, variable: str, host: str
    ) -> None:
        monkeypatch.setenv(variable, "from the environment")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://elsewhere")
        expert = RemoteExpert(model, base_url="http://localhost:1/v1", api_key="own")
        assert isinstance(expert, RemoteExpert)
        assert str(expert.client.base_url).rstrip("/") == "http://localhost:1/v1"
        assert expert.client.api_key == "own"

    def test_a_missing_key_names_the_variable(self, model: str, variable: str, host: str) -> None:
        with pytest.raises(ValueError, match=f"set the environment variable {variable}$"):
            RemoteExpert(model)
        for env_id in ("coophumaneval-v0", "classeval-v0", "bugfix-v0"):
            with pytest.raises(ValueError, match=variable) as error:
                llm_decpomdp.make(env_id, external_mode="expert_edits", expert_model=model)
            for way in ("external.mode=level_feedback", "external.expert_model=..."):
                assert way in str(error.value)
            assert "api_key" not in str(error.value)

    def test_a_missing_sdk_names_the_extra(
        self, monkeypatch: pytest.MonkeyPatch, model: str, variable: str, host: str
    ) -> None:
        sdk = "anthropic" if "claude" in model else "openai"
        monkeypatch.setitem(sys.modules, sdk, None)
        with pytest.raises(ImportError, match=r"pip install .openai>="):
            RemoteExpert(model, api_key="own")


def test_openai_base_url_serves_models_without_a_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    for model, host in [("llama", "localhost"), ("deepseek-chat", "api.deepseek.com")]:
        expert = RemoteExpert(model, api_key="own")
        assert isinstance(expert, RemoteExpert)
        assert expert.client.base_url.host == host


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": -1.0}, {"max_retries": -1}])
def test_numbers_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        RemoteExpert("gpt-test", api_key="own", **options)


def test_construction_imports_no_sdk() -> None:
    code = (
        "import sys; from llm_decpomdp.envs.feedback.experts import RemoteExpert; "
        "RemoteExpert('claude', api_key='k'); RemoteExpert('gpt', api_key='k'); "
        "sys.exit('openai' in sys.modules or 'anthropic' in sys.modules)"
    )
    python("-c", code)


def test_a_key_of_the_environment_is_not_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    expert = RemoteExpert("gpt-test")
    assert isinstance(expert, RemoteExpert) and expert.client.api_key == "secret-key"
    assert b"secret-key" not in pickle.dumps(expert)


@pytest.mark.parametrize("model", ["deepseek-coder", "Qwen/Qwen2.5-Coder-7B", "mine"])
def test_an_endpoint_of_the_users_own_gets_no_other_providers_key(
    monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    for name in KEY_VARIABLES:
        monkeypatch.setenv(name, f"value of {name}")
    expert = RemoteExpert(model, base_url="http://localhost:1/v1")
    assert isinstance(expert, RemoteExpert)
    assert expert.client.api_key == "value of OPENAI_API_KEY"
    assert str(expert.client.base_url).startswith("http://localhost:1/v1")
