"""The tiny model is a policy like any other, nearly uniform at first, and its own in every seed."""

from __future__ import annotations

import string
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from llm_decpomdp.agents import CausalLM, Sampling, load_policy, tiny_causal_lm
from llm_decpomdp.agents.inference.options import Prompting
from llm_decpomdp.agents.models.prompting import CharacterEncoder, PromptEncoder, make_encoder
from llm_decpomdp.agents.models.tiny import character_tokenizer
from llm_decpomdp.policy import TrainablePolicy

SHORT = Sampling(max_new_tokens=2)


def test_it_is_a_trainable_policy_of_single_characters() -> None:
    policy = tiny_causal_lm("abc", SHORT)
    assert isinstance(policy, CausalLM) and isinstance(policy, TrainablePolicy)
    (group,) = policy.generate(["ab"], 20)
    for completion in group:
        letters = [token for token in completion.tokens if token != 0]
        assert completion.text == "".join("abc"[token - 1] for token in letters)


@pytest.mark.parametrize("seed", range(5))
def test_untrained_it_gives_every_token_a_fair_chance(seed: int) -> None:
    (group,) = tiny_causal_lm("abc", SHORT, seed=seed).generate(["abc"], 1000)
    first = Counter(completion.tokens[0] for completion in group)
    assert set(first) == {0, 1, 2, 3}
    assert all(0.03 < number / 1000 < 0.7 for number in first.values())


def test_the_seed_decides_the_weights_and_the_global_state_stays() -> None:
    before = torch.get_rng_state()
    one, same, other = (tiny_causal_lm("abc", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    equal = [
        [bool((a == b).all()) for a, b in zip(one.parameters(), policy.parameters(), strict=True)]
        for policy in (same, other)
    ]
    assert all(equal[0]) and not all(equal[1])


def test_it_can_tell_a_letter_from_the_letter_twice() -> None:
    policy = tiny_causal_lm("abc", SHORT)
    (group,) = policy.generate(["a"], 1)
    once, _ = policy.log_probs("a", group)
    twice, _ = policy.log_probs("aa", group)
    assert not torch.allclose(once, twice, atol=1e-3)


def test_the_tokenizer_writes_what_it_reads() -> None:
    tokenizer = character_tokenizer("ab \n")
    ids = tokenizer("a b\n").input_ids
    assert ids == [0, 1, 3, 2, 4]
    assert tokenizer.decode(ids[1:]) == "a b\n"


def test_what_it_saves_loads_as_any_model(tmp_path: Path) -> None:
    policy = tiny_causal_lm("abc", SHORT, seed=3)
    policy.save(tmp_path)
    loaded = load_policy(tmp_path, SHORT, compute_dtype="float32")
    for one in (policy, loaded):
        one.seed(5)
    tokens = [[c.tokens for c in one.generate(["ab"], 8)[0]] for one in (loaded, policy)]
    assert tokens[0] == tokens[1]


def test_a_loaded_one_reads_texts_for_critics_and_refuses_prompts_with_other_characters(
    tmp_path: Path,
) -> None:
    policy = tiny_causal_lm("abc", SHORT)
    policy.save(tmp_path)
    loaded = load_policy(tmp_path, SHORT, compute_dtype="float32")
    for one in (policy, loaded):
        one.keep_reference()
    texts = ["a: b\n", "turn 2: c"]
    assert torch.equal(loaded.features(texts), policy.features(texts))
    with pytest.raises(ValueError, match="the prompt 'a: b' has ' :', for which the tiny model"):
        loaded.generate(["a: b"])


def test_an_unfit_alphabet_or_width_is_refused() -> None:
    for alphabet in ("", "aba"):
        with pytest.raises(ValueError, match="distinct characters"):
            tiny_causal_lm(alphabet)
    with pytest.raises(ValueError, match="multiple of 8, got 12"):
        tiny_causal_lm("ab", width=12)


def test_a_prompt_with_other_characters_is_refused_with_the_remedy() -> None:
    policy = tiny_causal_lm("ab", SHORT)
    wanted = r"the prompt 'a prompt' has ' moprt'.*an alphabet with every character of the prompts"
    with pytest.raises(ValueError, match=wanted):
        policy.generate(["ab", "a prompt"])
    with pytest.raises(ValueError, match=wanted):
        policy.log_probs("a prompt", policy.generate(["ab"])[0])
    tiny_causal_lm(string.printable + "é", SHORT, context=512).act("A prompt: é!\n")


def test_a_tokenizer_of_whole_words_is_not_that_of_a_tiny_model() -> None:
    kinds = []
    for words in ({}, {"yes": 3}):
        model = WordLevel({"</s>": 0, "a": 1, "b": 2, **words})
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(model), eos_token="</s>")
        kinds.append(type(make_encoder(Prompting(), tokenizer, "x", 256, ())))
    assert kinds == [CharacterEncoder, PromptEncoder]


@pytest.mark.parametrize("prompts", ["hello", [3], [None]])
def test_prompts_that_are_no_list_of_texts_are_refused(prompts: Any) -> None:
    with pytest.raises(TypeError, match="prompts must be a list of texts, got "):
        load_policy("tiny-random").generate(prompts)
