"""GGUF files as models: converted once, by content; errors that say what to do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm_decpomdp.agents import PolicySpec, Sampling, load_policy, load_team
from llm_decpomdp.agents.models import gguf as gguf_files
from llm_decpomdp.agents.models.pretrained import ModelError, model_source

gguf = pytest.importorskip("gguf")

LETTERS = [*"abcdefghijklmnopqrstuvwxyz.,", "Ċ", "Ġ", "ab", "<end>"]
"""Tokens as byte-level BPE writes them; `Ċ` is a line's end, `Ġ` a blank."""

WIDTH = 32
END = len(LETTERS) - 1


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LLM_DECPOMDP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(
    path: Path, architecture: str = "qwen2", seed: int = 0, without: str | None = None
) -> Path:
    """Write a model of one layer with random weights."""
    writer: Any = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(LETTERS)
    writer.add_token_types([1] * END + [3])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(END)
    writer.add_bos_token_id(END)
    rng = np.random.default_rng(seed)
    square, line = (WIDTH, WIDTH), (WIDTH,)
    layer = {f"attn_{part}": square for part in ("q", "k", "v", "output")}
    layer |= {f"ffn_{part}": square for part in ("gate", "up", "down")}
    layer |= {"attn_norm": line, "ffn_norm": line}
    shapes = {f"blk.0.{name}.weight": shape for name, shape in layer.items()}
    shapes |= {f"blk.0.attn_{part}.bias": line for part in "qkv"}
    shapes |= {"token_embd.weight": (len(LETTERS), WIDTH), "output_norm.weight": line}
    for name, shape in shapes.items():
        if name == without:
            continue
        writer.add_tensor(name, rng.normal(0, 0.3, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_file_is_a_model_that_samples_and_is_converted_once(tmp_path: Path, cache: Path) -> None:
    file = write(tmp_path / "tiny.gguf")
    policy = load_policy(str(file), Sampling(max_new_tokens=8))
    ((completion,),) = policy.generate(["abc"])
    assert 0 < len(completion.tokens) <= 8 and policy.engine.end_id == END
    (folder,) = cache.iterdir()
    written = (folder / "model.safetensors").stat().st_mtime_ns
    (tmp_path / "elsewhere").mkdir()
    assert model_source(shutil.copy(file, tmp_path / "elsewhere")) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == written
    write(file, seed=1)
    assert model_source(file) != folder


def test_adapters_of_a_team_share_a_file(tmp_path: Path) -> None:
    file = write(tmp_path / "tiny.GGUF")
    lora = {"r": 2, "target_modules": ["q_proj"]}
    spec = PolicySpec(name=str(file), lora=lora, max_new_tokens=4)
    team: Any = load_team({"aux_0": "a", "main_0": "b"}, {"a": spec, "b": spec})
    assert team["aux_0"].engine is team["main_0"].engine
    assert len(team["aux_0"].engine.generate([(team["aux_0"], "a"), (team["main_0"], "b")])) == 2


def test_what_is_no_gguf_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no_such\.gguf': there is no file"):
        load_policy(tmp_path / "no_such.gguf")
    (tmp_path / "text.gguf").write_text("something else")
    with pytest.raises(
        ModelError, match=r"text\.gguf is no GGUF file: it does not begin with GGUF"
    ):
        load_policy(tmp_path / "text.gguf")


def test_a_file_that_transformers_cannot_read_is_told(tmp_path: Path, cache: Path) -> None:
    file = write(tmp_path / "tiny.gguf", "mpt")
    with pytest.raises(ModelError, match=r"architecture mpt is not supported .* llama\.cpp"):
        load_policy(file)
    (tmp_path / "cut.gguf").write_bytes(file.read_bytes()[:100])
    with pytest.raises(ModelError, match=r"cannot read the GGUF file .*cut\.gguf"):
        load_policy(tmp_path / "cut.gguf")
    assert not list(cache.iterdir())


def test_a_file_without_some_weights_is_refused_by_their_names(tmp_path: Path, cache: Path) -> None:
    file = write(tmp_path / "tiny.gguf", without="blk.0.ffn_up.weight")
    with pytest.raises(
        ModelError, match=r"missing weights: model\.layers\.0\.mlp\.up_proj\.weight"
    ):
        load_policy(file)
    assert not list(cache.iterdir())


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "tiny.gguf")
    monkeypatch.setattr(gguf_files, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="needs the package 'gguf': pip install gguf"):
        load_policy(file)
