"""Completions that begin with given text and end with a stop string: what is sampled, told and learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from llm_decpomdp.agents.inference.options import Prompting, Sampling
from llm_decpomdp.agents.inference.sampler import (
    Prompt,
    SampledRow,
    TokenDecoder,
    first_stop,
    stop_length,
)
from llm_decpomdp.agents.loading import PolicySpec, load_team
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.saved_team import load_saved_team, save_team
from llm_decpomdp.policy import Completion

Make = Callable[..., CausalLM]


def prefilled(policy: CausalLM, prefill: str) -> CausalLM:
    return CausalLM(policy.engine, policy.sampling, prompting=Prompting(prefill=prefill))


def drawn(policy: CausalLM, count: int = 40) -> list[Completion]:
    policy.seed(0)
    (group,) = policy.generate(["abc"], count)
    return group


def test_the_first_stop_string_counts() -> None:
    assert first_stop("one two", ["two", "e "]) == (2, 4)
    assert first_stop("one", ["two"]) is None
    letters = "abc".__getitem__
    assert stop_length([0, 1, 2], ["bc"], lambda ids: "".join(map(letters, ids))) == 3
    assert stop_length([0, 1], ["bc"], lambda ids: "".join(map(letters, ids))) is None


@pytest.mark.parametrize("stop", [["a", "e"], ["ab", "o", "e."]])
def test_rows_end_with_the_token_that_completes_a_stop_string_and_differ_in_nothing_else(
    make_policy: Make, stop: list[str]
) -> None:
    policy = make_policy(max_new_tokens=40)
    whole = drawn(policy, 100)
    policy.sampling = replace(policy.sampling, stop=stop)
    ended = 0
    for cut, full in zip(drawn(policy, 100), whole, strict=True):
        length = stop_length(full.tokens, stop, policy.engine.text.decode_whole)
        assert cut.tokens == full.tokens[:length]
        assert cut.log_probs == pytest.approx(full.log_probs[:length], abs=1e-5)
        place = first_stop(full.text, stop)
        assert cut.text == (full.text if place is None else full.text[: place[0]])
        assert cut.finish_reason == ("stop" if length else full.finish_reason)
        ended += length is not None
    assert 10 < ended < 100  # of several kinds of ends


def test_models_of_another_cache_stop_alike(
    make_policy: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = make_policy(stop=["a", "e"])
    ours = drawn(policy)
    monkeypatch.setattr("llm_decpomdp.agents.inference.sampler.growing_cache", lambda model: None)
    assert [c.tokens for c in drawn(policy)] == [c.tokens for c in ours]


def test_a_row_that_ended_at_a_stop_string_is_learned_with_it_and_with_nothing_else(
    make_policy: Make,
) -> None:
    policy = make_policy(stop=["a", "e"])
    group = drawn(policy)
    at_string = [c for c in group if c.finish_reason == "stop" and c.tokens[-1] != 0]
    assert at_string and not any(c.truncated for c in at_string)
    values, mask = policy.log_probs("abc", at_string)
    assert mask.sum(1).tolist() == [len(c.tokens) for c in at_string]
    sampled = torch.tensor([p for c in at_string for p in c.log_probs])
    torch.testing.assert_close(values[mask > 0].detach(), sampled, atol=1e-4, rtol=0)


def test_a_prefill_is_told_to_the_environment_and_neither_sampled_nor_learned(
    make_policy: Make,
) -> None:
    plain = make_policy()
    policy = prefilled(plain, "xyz")
    assert policy.encode("abc") == plain.encode("abcxyz")
    for begun, given in zip(drawn(policy), plain_drawn(plain, "abcxyz"), strict=True):
        assert begun.text == "xyz" + given.text and begun.tokens == given.tokens
    log_probs, _ = policy.log_probs("abc", drawn(policy))
    torch.testing.assert_close(log_probs, plain.log_probs("abcxyz", drawn(policy))[0])
    assert "xyz" not in str(policy.encoder.plain("abc"))


def plain_drawn(policy: CausalLM, prompt: str) -> list[Completion]:
    policy.seed(0)
    return policy.generate([prompt], 40)[0]


def test_the_blank_behind_a_prefill_is_kept_where_a_decoder_drops_that_of_the_first_token(
    make_policy: Make,
) -> None:
    """A decoder as of Llama 2: a blank begins each word's token, and is taken from the beginning of a text."""
    words = {token: i for i, token in enumerate(["<unk>", "</s>", "▁return", "▁aux(x)", "(x)"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(content=" ", left=1)]
    )
    engine = make_policy().engine
    engine.text = TokenDecoder(
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")
    )
    for tokens, text in (((3,), "return aux(x)"), ((4,), "return(x)"), ((), "return")):
        row = SampledRow(tokens, (0.0,) * len(tokens), False)
        prompt = Prompt((), Sampling(), torch.Generator(), None, False, "return")
        assert engine._completion(row, prompt).text == text


def test_the_prefill_comes_behind_the_chat_template(make_policy: Make) -> None:
    policy = make_policy()
    policy.tokenizer.chat_template = "{% for m in messages %}<{{ m.content }}>{% endfor %}"
    policy = prefilled(policy, "so")
    assert policy.encode("abc") == policy.encoder.plain("<abc>so")
    assert policy.encoder.describe().endswith("completions begin with 'so'")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("so it", " it<eos>"), ("so it is.", " it is."), ("so it is.\n ", " it is."), ("so", "<eos>")],
)
def test_a_text_becomes_the_completion_that_the_policy_would_have_sampled(
    make_policy: Make, text: str, tokens: str
) -> None:
    policy = prefilled(make_policy(stop=["."]), "so")
    completion = policy.encode_completion(text)
    assert completion.tokens == tuple(policy.tokenizer(tokens).input_ids)
    assert completion.text == text.partition(".")[0] and completion.finish_reason == "stop"


def test_a_text_that_the_policy_cannot_write_is_no_completion(make_policy: Make) -> None:
    policy = prefilled(make_policy(stop=["."], max_new_tokens=4), "so")
    with pytest.raises(ValueError, match=r"must begin with the prefill 'so' .* got 'no'"):
        policy.encode_completion("no")
    with pytest.raises(ValueError, match=r"goes on after a stop string \(stop=\['\.'\]\)"):
        policy.encode_completion("so. on")
    assert policy.encode_completion("so it is long").truncated


@pytest.mark.parametrize("stop", [[""], [3]])
def test_stop_strings_are_texts(stop: list[Any]) -> None:
    with pytest.raises(ValueError, match="must be a list of texts"):
        Sampling(stop=stop)


def test_each_policy_of_a_team_has_its_own_beginning_and_ends() -> None:
    lora = {"r": 2, "target_modules": ["q_proj"]}
    specs = {
        "aux": PolicySpec(name="tiny-random", lora=lora, prefill="aux", stop=["\n"]),
        "main": PolicySpec(name="tiny-random", lora=lora, max_new_tokens=9),
    }
    team = load_team({"aux_0": "aux", "main_0": "main"}, specs)
    aux, main = team["aux_0"], team["main_0"]
    assert isinstance(aux, CausalLM) and isinstance(main, CausalLM) and aux.engine is main.engine
    left, right = aux.engine.generate([(aux, "go"), (main, "go")], 60)
    assert all(c.text.startswith("aux") and "\n" not in c.text for c in left)
    assert not any(c.text.startswith("aux") for c in right)
    assert {len(c.tokens) for c in right if c.truncated} == {9}


def test_a_saved_team_keeps_its_prefill_and_its_stops(tmp_path: Path) -> None:
    spec = PolicySpec(name="tiny-random", prefill="aux", stop=["\n"], max_new_tokens=4)
    save_team(load_team({"aux_0": "aux"}, {"aux": spec}), tmp_path / "team")
    policy = load_saved_team(tmp_path / "team")["aux_0"]
    assert isinstance(policy, CausalLM)
    assert (policy.encoder.prefill, policy.sampling.stop) == ("aux", ["\n"])


def test_scripted_policies_have_no_prefill() -> None:
    with pytest.raises(ValueError, match="a gold policy has no prefill"):
        PolicySpec("gold", prefill="def")
