"""The sampling loop: draws, rows that leave, stop strings, models that refuse."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    PreTrainedTokenizerFast,
)
from transformers import MistralForCausalLM as Mistral

from llm_decpomdp.agents import CausalLM, PolicySpec, Prompting, Sampling, load_team
from llm_decpomdp.agents.inference import generate, sampler
from llm_decpomdp.agents.inference.decoding import ROOM, GrowingLayer, growing_cache
from llm_decpomdp.agents.inference.sampler import (
    Prompt,
    RowOptions,
    SampledRow,
    draw_tokens,
    sample,
    truncate,
)
from llm_decpomdp.agents.inference.tokenization import (
    StopSearch,
    TokenDecoder,
    first_stop,
    stop_length,
)
from llm_decpomdp.policy import Completion
from tests.agents.conftest import SIZE, Make

END = 0


@pytest.fixture
def model(make_policy: Make) -> LlamaForCausalLM:
    return make_policy().model


def prompt(
    *ids: int, seed: int = 0, sampling: Sampling | None = None, adapter: str | None = None
) -> Prompt:
    generator = torch.Generator().manual_seed(seed)
    return Prompt(ids, sampling or Sampling(max_new_tokens=100), generator, adapter)


def fresh_log_probs(model: torch.nn.Module, prompt: Prompt, row: SampledRow) -> Sequence[float]:
    """By one plain forward pass, without a cache."""
    ids = [*prompt.ids, *row.tokens]
    logits = model(input_ids=torch.tensor([ids])).logits[0].detach()
    scores = (logits / prompt.sampling.divisor).log_softmax(-1)
    first = len(prompt.ids) - 1
    return [float(scores[first + k, token]) for k, token in enumerate(row.tokens)]


def test_log_probabilities_are_those_of_a_fresh_forward_pass(model: LlamaForCausalLM) -> None:
    prompts = [prompt(5, 6, 7), prompt(4, 9, 9, 9, 9, 8, sampling=Sampling(0.5, max_new_tokens=90))]
    rows = sample(model, prompts, 8, [END])
    lengths = {len(row.tokens) for row in rows}
    assert len(lengths) > 5 and max(lengths) > ROOM  # rows left, and memory was moved
    for index, row in enumerate(rows):
        expected = fresh_log_probs(model, prompts[index // 8], row)
        assert row.log_probs == pytest.approx(expected, abs=1e-4)
        assert row.stopped == (row.tokens[-1] == END)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_not_finite_logits_end_the_sampling(model: LlamaForCausalLM, temperature: float) -> None:
    with torch.no_grad():
        model.lm_head.weight.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match=r"logits are not finite.*lower learning_rate"):
        sample(model, [prompt(5, 6, sampling=Sampling(temperature, max_new_tokens=3))], 2, [END])


def test_a_row_does_not_depend_on_the_others(model: LlamaForCausalLM) -> None:
    short, long = Sampling(max_new_tokens=5), Sampling(2.0, top_k=9, max_new_tokens=60)
    together = sample(
        model, [prompt(5, 6, sampling=short), prompt(7, 8, 9, seed=3, sampling=long)], 4, [END]
    )
    alone = sample(model, [prompt(5, 6, sampling=short)], 4, [END])
    alone += sample(model, [prompt(7, 8, 9, seed=3, sampling=long)], 4, [END])
    assert [row.tokens for row in together] == [row.tokens for row in alone]
    assert max(len(row.tokens) for row in together[:4]) == 5


def test_the_head_reads_states_that_lie_side_by_side(model: LlamaForCausalLM) -> None:
    """Of others torch copies the head's weights for each row."""
    seen: list[bool] = []
    head = model.get_output_embeddings()
    states = head.register_forward_hook(lambda _, args, out: seen.append(args[0].is_contiguous()))
    sample(model, [prompt(1, 2, 3), prompt(4, 5)], 2, [END])
    states.remove()
    assert len(seen) > 1 and all(seen)
    assert not head._forward_pre_hooks


def test_samples_are_distributed_as_the_model_says(model: LlamaForCausalLM) -> None:
    rows = sample(model, [prompt(5, 6, sampling=Sampling(max_new_tokens=2))], 20_000, [END])
    logits = model(input_ids=torch.tensor([[5, 6]])).logits[0, -1].detach()
    found = torch.bincount(torch.tensor([row.tokens[0] for row in rows]), minlength=len(logits))
    torch.testing.assert_close(found / len(rows), logits.softmax(-1), atol=0.015, rtol=0)
    first = int(found.argmax())
    if first != END:
        second = [row.tokens[1] for row in rows if row.tokens[0] == first]
        logits = model(input_ids=torch.tensor([[5, 6, first]])).logits[0, -1].detach()
        counts = torch.bincount(torch.tensor(second), minlength=len(logits))
        torch.testing.assert_close(counts / len(second), logits.softmax(-1), atol=0.03, rtol=0)


def test_generate_of_transformers_samples_the_same(
    model: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prompts = [
        prompt(5, 6, 7, sampling=Sampling(0.7, max_new_tokens=20)),
        prompt(8, 9, seed=4, sampling=Sampling(top_p=0.9, max_new_tokens=9)),
    ]
    states = [one.generator.get_state() for one in prompts]
    expected = sample(model, prompts, 5, [END, 3])
    for one, state in zip(prompts, states, strict=True):
        one.generator.set_state(state)
    monkeypatch.setattr(sampler, "growing_cache", lambda _: None)
    generate._warn_of_generate.cache_clear()
    model.generation_config.repetition_penalty = 5.0  # not what Sampling says
    with caplog.at_level(logging.WARNING):
        found = sample(model, prompts, 5, [END, 3])
    assert [row.tokens for row in found] == [row.tokens for row in expected]
    assert [row.stopped for row in found] == [row.stopped for row in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)
    assert model.generation_config.repetition_penalty == 5.0
    assert caplog.text.count("generate() of transformers") == 1


def test_block_checks_keep_rows(model: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> list[SampledRow]:
        prompts = [
            prompt(5, 6, 7, sampling=Sampling(max_new_tokens=21)),
            prompt(8, 9, seed=4, sampling=Sampling(top_p=0.9, max_new_tokens=30, stop=["7", "13"])),
            prompt(8, 9, seed=5, sampling=Sampling(0.0, max_new_tokens=30)),
        ]
        return sample(model, prompts, 6, [END, 3], decode=lambda ids: " ".join(map(str, ids)))

    expected = ask()
    monkeypatch.setattr(sampler, "block_size", lambda _: 8)
    found = ask()
    assert [row.tokens for row in found] == [row.tokens for row in expected]
    assert [row.stopped for row in found] == [row.stopped for row in expected]
    assert {True, False} == {row.stopped for row in found}
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)


class Waits(TorchDispatchMode):
    """Counts what Python waits for on a GPU: values that it reads, and lists that it copies there."""

    NAMES = ("_local_scalar_dense", "nonzero", "masked_select", "lift_fresh", "equal")
    count = 0

    def __torch_dispatch__(self, op: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        indices = args[1] if op.overloadpacket.__name__ in ("index", "index_put_") else ()
        by_mask = any(part is not None and part.dtype == torch.bool for part in indices)
        self.count += op.overloadpacket.__name__ in self.NAMES or by_mask
        return op(*args, **(kwargs or {}))


class Lists(TorchFunctionMode):
    """Counts the conversions between tensors and lists, which are no operation on a CPU."""

    count = 0

    def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        indices = args[1] if function.__name__ in ("__getitem__", "__setitem__") else ()
        indices = indices if isinstance(indices, tuple) else (indices,)
        by_list = any(isinstance(part, list) for part in indices)
        self.count += function.__name__ == "tolist" or by_list
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("stop", [None, ["99"]])
def test_a_device_is_waited_for_once_in_eight_tokens(
    stop: list[str] | None, model: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "block_size", lambda _: 8)

    def waits(tokens: int) -> int:
        options = [
            Sampling(1.0, top_p=0.9, max_new_tokens=tokens, stop=stop),
            Sampling(0.0, max_new_tokens=tokens),
        ]
        prompts = [prompt(*range(5, 8 + 3 * k), sampling=one) for k, one in enumerate(options)]
        with Lists() as lists, Waits() as mode:
            sample(model, prompts, 3, [-1], decode=lambda ids: " ".join(map(str, ids)))
        return lists.count + mode.count

    assert waits(64) - waits(32) == 4


def test_recurrent_models_use_generate_and_say_so_once(caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    config = MambaConfig(vocab_size=20, hidden_size=16, state_size=4, num_hidden_layers=1)
    model = MambaForCausalLM(config).eval()
    generate._warn_of_generate.cache_clear()
    one = prompt(5, 6, 7, sampling=Sampling(max_new_tokens=6))
    with caplog.at_level(logging.WARNING):
        rows = [*sample(model, [one], 3, [END]), *sample(model, [one], 3, [END])]
    assert caplog.text.count("'mamba'") == 1
    for row in rows:
        assert row.log_probs == pytest.approx(fresh_log_probs(model, one, row), abs=1e-4)


def test_a_sliding_window_is_kept() -> None:
    torch.manual_seed(0)
    model = Mistral(MistralConfig(**SIZE, sliding_window=4)).eval()
    assert growing_cache(model) is not None
    prompts = [prompt(5, 6, 7, 8, 9, 10), prompt(3, 2)]
    for index, row in enumerate(sample(model, prompts, 3, [END])):
        expected = fresh_log_probs(model, prompts[index // 3], row)
        assert row.log_probs == pytest.approx(expected, abs=1e-4)


def test_a_growing_layer_keeps_what_it_is_given() -> None:
    torch.manual_seed(0)
    layer, kept = GrowingLayer(), torch.zeros(3, 2, 0, 4)
    for tokens in (5, 1, 1, ROOM, 1, 2 * ROOM):
        states = torch.randn(3, 2, tokens, 4)
        keys, values = layer.update(states, -states)
        kept = torch.cat([kept, states], 2)
        assert torch.equal(keys, kept) and torch.equal(values, -kept)
        assert layer.get_seq_length() == kept.shape[2]
    layer.append((), [0, 0, 1, 1, 2, 2])
    kept = kept.repeat_interleave(2, 0)
    for rows in ([0, 5, 2, 4], [3, 1], [1]):
        layer.batch_select_indices(rows)
        states = torch.randn(len(rows), 2, 1, 4)
        kept = torch.cat([kept[rows], states], 2)
        assert torch.equal(layer.update(states, -states)[0], kept)


LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0]])


def frequencies(sampling: Sampling, count: int = 20_000) -> torch.Tensor:
    tokens, _ = draw_tokens(LOGITS.repeat(count, 1), options(*[sampling] * count), uniform(count))
    return torch.bincount(tokens, minlength=4) / count


def options(*samplings: Sampling) -> RowOptions:
    return RowOptions.from_samplings(samplings, LOGITS.device)


def uniform(count: int) -> torch.Tensor:
    return torch.rand(count, generator=torch.Generator().manual_seed(0))


def kept(sampling: Sampling) -> set[int]:
    """The tokens that may be drawn."""
    return set(truncate(LOGITS, options(sampling))[0].isfinite().nonzero()[:, 0].tolist())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_as_often_as_the_tempered_softmax_says(temperature: float) -> None:
    expected = (LOGITS[0] / temperature).softmax(-1)
    found = frequencies(Sampling(temperature=temperature))
    torch.testing.assert_close(found, expected, atol=0.015, rtol=0)


def test_log_probabilities_are_those_of_the_full_tempered_softmax() -> None:
    sampling = Sampling(temperature=0.5, top_k=2)
    tokens, log_probs = draw_tokens(LOGITS, options(sampling), uniform(1))
    torch.testing.assert_close(log_probs, (LOGITS / 0.5).log_softmax(-1)[0, tokens])


def test_top_k_keeps_the_k_likeliest() -> None:
    assert kept(Sampling(top_k=2)) == {0, 1}
    assert kept(Sampling(top_k=9)) == {0, 1, 2, 3}
    assert frequencies(Sampling(top_k=1), 100)[0] == 1


def test_top_p_keeps_the_fewest_tokens_that_reach_p() -> None:
    # Probabilities 0.64, 0.24, 0.09, 0.03.
    for top_p, count in ((0.6, 1), (0.7, 2), (0.9, 3), (0.99, 4), (1.0, 4)):
        assert kept(Sampling(top_p=top_p)) == set(range(count)), top_p


def test_top_p_counts_what_top_k_has_left() -> None:
    # Of the two likeliest, the first has 0.73 of what is left and 0.64 of all.
    assert kept(Sampling(top_k=2, top_p=0.7)) == {0}
    assert kept(Sampling(top_p=0.7)) == {0, 1}


def test_rows_of_one_batch_have_options_of_their_own() -> None:
    each = [
        Sampling(),
        Sampling(temperature=0.0),
        Sampling(temperature=0.3),
        Sampling(top_k=2),
        Sampling(top_p=0.7, temperature=3.0),
        Sampling(top_k=3, top_p=0.9, temperature=0.5),
    ]
    logits = torch.randn(len(each) * 500, 50, generator=torch.Generator().manual_seed(1)) * 2
    numbers = uniform(len(logits))
    rows = [sampling for sampling in each for _ in range(500)]
    together, scores = draw_tokens(logits, options(*rows), numbers)
    for index, sampling in enumerate(each):
        part = slice(index * 500, index * 500 + 500)
        alone, score = draw_tokens(logits[part], options(*[sampling] * 500), numbers[part])
        assert torch.equal(together[part], alone)
        torch.testing.assert_close(scores[part], score)


def test_a_token_without_probability_is_never_drawn() -> None:
    logits = torch.full((5000, 6), -torch.inf)
    logits[:, 2] = 0.0
    logits[:, 4] = 1.0
    tokens, _ = draw_tokens(logits, options(*[Sampling()] * 5000), uniform(5000))
    assert set(tokens.tolist()) == {2, 4}


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


def test_only_rows_with_a_token_that_may_end_a_stop_string_are_read() -> None:
    read: list[int] = []

    def decode(ids: Sequence[int]) -> str:
        read.append(len(ids))
        return "".join(map("abc\ufffd".__getitem__, ids))

    search = StopSearch(decode)
    row = [0, 0, 1, 0, 1, 0]
    for length in range(1, len(row) + 1):
        assert search.find(row[:length], 1, ["bc"]) is None
    assert read == [2, 2]  # each token once, and no row
    assert search.find([*row, 1, 2], 2, ["bc"]) == 8
    assert search.find([*row, 1, 2, 0], 3, ["bc"]) == 8
    read.clear()
    assert search.find([1, 3], 1, ["bc"]) is None and read == [2, 2]  # a part of any character


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


def test_rows_stop_alike_with_other_caches(
    make_policy: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = make_policy(stop=["a", "e"])
    ours = drawn(policy)
    monkeypatch.setattr("llm_decpomdp.agents.inference.sampler.growing_cache", lambda model: None)
    assert [c.tokens for c in drawn(policy)] == [c.tokens for c in ours]


def test_a_row_is_learned_with_its_stop_string_and_nothing_else(make_policy: Make) -> None:
    policy = make_policy(stop=["a", "e"])
    group = drawn(policy)
    at_string = [c for c in group if c.finish_reason == "stop" and c.tokens[-1] != 0]
    assert at_string and not any(c.truncated for c in at_string)
    values, mask = policy.log_probs("abc", at_string)
    assert mask.sum(1).tolist() == [len(c.tokens) for c in at_string]
    sampled = torch.tensor([p for c in at_string for p in c.log_probs])
    torch.testing.assert_close(values[mask > 0].detach(), sampled, atol=1e-4, rtol=0)


def test_a_prefill_is_told_and_neither_sampled_nor_learned(make_policy: Make) -> None:
    plain = make_policy()
    policy = prefilled(plain, "xyz")
    assert policy.encode("abc") == plain.encode("abcxyz")
    for begun, given in zip(drawn(policy), plain_drawn(plain, "abcxyz"), strict=True):
        assert begun.text == "xyz" + given.text and begun.tokens == given.tokens
    log_probs, _ = policy.log_probs("abc", drawn(policy))
    torch.testing.assert_close(log_probs, plain.log_probs("abcxyz", drawn(policy))[0])
    assert "xyz" not in str(policy.encoder.plain("abc"))


def test_a_prompt_brings_its_own_prefill(make_policy: Make) -> None:
    plain = make_policy()
    options = Prompting(prefill="so", prefill_after="With:")
    policy = CausalLM(plain.engine, plain.sampling, prompting=options)
    prompts = {
        "abc": "so",
        "abc With:": "",
        "With:a b With:d": "d",
        "a With:d e\n\nmore": "d e",
        "a With:d e\n\n\nmore": "d e\n",
        "With:<pad>": "<pad>",
    }
    for prompt, begin in prompts.items():
        assert policy.encode(prompt) == plain.encode(prompt + begin)
        (completion,) = policy.generate([prompt])[0]
        assert completion.text.startswith(begin)
        again = policy.encode_completion(f"{begin} it", prompt)
        assert again.tokens == tuple(plain.tokenizer(" it<eos>").input_ids)
    assert policy.encoder.describe().endswith(
        "completions begin with what prompts say behind 'With:'"
    )


def plain_drawn(policy: CausalLM, prompt: str) -> list[Completion]:
    policy.seed(0)
    return policy.generate([prompt], 40)[0]


def test_the_blank_behind_a_prefill_is_kept_if_a_decoder_drops_the_first(make_policy: Make) -> None:
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
