"""The language model as a policy: what it samples, how it scores it, and what is trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from llm_decpomdp.agents import CausalLM, ModelEngine, Sampling, load_policy
from llm_decpomdp.policy import Completion, TrainablePolicy
from tests.agents.conftest import Make


def completion(*tokens: int) -> Completion:
    return Completion("", tokens)


def reference_log_probs(policy: CausalLM, prompt: str, tokens: tuple[int, ...]) -> torch.Tensor:
    """One plain forward over prompt and completion, without cache or padding."""
    ids = policy.encode(prompt)
    logits = policy.model(input_ids=torch.tensor([ids + list(tokens)])).logits[0].float()
    scores = (logits / policy.sampling.divisor).log_softmax(-1)
    return torch.stack([scores[len(ids) - 1 + k, token] for k, token in enumerate(tokens)])


def test_it_keeps_the_protocol(make_policy: Make) -> None:
    assert isinstance(make_policy(), TrainablePolicy)
    assert make_policy().generate([]) == []


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_log_probs_of_sampling_equal_learning(make_policy: Make, temperature: float) -> None:
    policy = make_policy(temperature=temperature)
    prompts = ["abc", "a longer one"]
    for prompt, group in zip(prompts, policy.generate(prompts, 3), strict=True):
        learned, mask = policy.log_probs(prompt, group)
        for row, one in enumerate(group):
            assert mask[row].sum() == len(one.tokens)
            sampled = torch.tensor(one.log_probs)
            torch.testing.assert_close(
                learned[row, : len(sampled)].detach(), sampled, atol=1e-4, rtol=0
            )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_reference_is_the_first_policy_unrounded(make_policy: Make, dtype: str) -> None:
    policy = make_policy(compute_dtype=dtype)
    rows = [completion(5, 6, 7, 0), completion(8, 0)]
    with pytest.raises(RuntimeError, match="keep_reference"):
        policy.reference_log_probs("hello", rows)
    policy.keep_reference()
    before, _ = policy.log_probs("hello", rows)
    assert torch.equal(policy.reference_log_probs("hello", rows)[0], before.detach())
    with torch.no_grad():
        for weight in policy.parameters():
            weight.mul_(1.1)
    reference, _ = policy.reference_log_probs("hello", rows)
    assert torch.equal(reference, before.detach()) and not reference.requires_grad
    assert not torch.allclose(policy.log_probs("hello", rows)[0], before, atol=0.01)


def test_log_probs_equal_a_plain_forward_and_so_do_the_gradients(make_policy: Make) -> None:
    policy, prompt = make_policy(temperature=0.7), "hello"
    rows = [(5, 6, 7, 0), (8, 0), (9, 10, 11, 12)]
    weights = torch.tensor([1.0, -2.0, 0.5])
    learned, mask = policy.log_probs(prompt, [completion(*row) for row in rows])
    (weights * (learned * mask).sum(1)).sum().backward()
    gradients = [p.grad.clone() for p in policy.parameters() if p.grad is not None]
    policy.model.zero_grad()
    plain = torch.stack([reference_log_probs(policy, prompt, row).sum() for row in rows])
    (weights * plain).sum().backward()
    torch.testing.assert_close((learned * mask).sum(1), plain)
    for ours, theirs in zip(gradients, policy.parameters(), strict=True):
        assert theirs.grad is not None
        assert (ours - theirs.grad).norm() <= 1e-4 * theirs.grad.norm()


def test_the_mask_counts_the_end_token_and_no_padding(make_policy: Make) -> None:
    found, mask = make_policy().log_probs("ab", [completion(4, 5, 0), completion(0)])
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert found[1, 1:].tolist() == [0, 0] and (found[mask == 1] < 0).all()


def test_an_end_token_inside_the_prompt_cuts_nothing(make_policy: Make) -> None:
    policy = make_policy(temperature=2.0)
    assert policy.tokenizer.pad_token_id in (None, policy.tokenizer.eos_token_id)
    policy.tokenizer.chat_template = "a<eos>{{ messages[0].content }}<eos>"
    prompts = ["abcd", "a much longer one", "x"]
    assert policy.encode(prompts[0]).count(0) == 2
    for prompt, group in zip(prompts, policy.generate(prompts, 3), strict=True):
        learned, mask = policy.log_probs(prompt, group)
        for row, one in enumerate(group):
            plain = reference_log_probs(policy, prompt, one.tokens)
            assert mask[row].sum() == len(one.tokens) > 0
            torch.testing.assert_close(learned[row, : len(plain)], plain)
            torch.testing.assert_close(
                torch.tensor(one.log_probs), plain.detach(), atol=1e-4, rtol=0
            )


def test_completions_without_tokens_cannot_be_learned_from(make_policy: Make) -> None:
    with pytest.raises(ValueError, match="sampled tokens"):
        make_policy().log_probs("ab", [Completion("text")])


def test_greedy_decoding_equals_that_of_transformers(make_policy: Make) -> None:
    policy = make_policy(temperature=0.0)
    ids = torch.tensor([policy.encode("hello there")])
    theirs = policy.model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12
    )[0, ids.shape[1] :].tolist()
    ours = list(policy.generate(["hello there"])[0][0].tokens)
    assert ours == theirs[: len(ours)]
    assert len(ours) == 12 or ours[-1] == 0


def test_completions_end_with_the_end_token_or_at_the_limit(make_policy: Make) -> None:
    seen = set()
    for one in make_policy(temperature=3.0, max_new_tokens=30).generate(["ab"], 40)[0]:
        seen.add(one.finish_reason)
        assert (one.tokens[-1] == 0) == (one.finish_reason == "stop")
        assert 0 not in one.tokens[:-1]
        assert len(one.tokens) == 30 or one.finish_reason == "stop"
        assert "<eos>" not in one.text
        assert len(one.text) <= len(one.tokens)
    assert seen == {"stop", "length"}


def test_equal_seeds_give_equal_samples_and_other_seeds_others(make_policy: Make) -> None:
    policy = make_policy()
    policy.seed(3)
    first = policy.generate(["abc"], 5)
    policy.seed(3)
    assert policy.generate(["abc"], 5) == first
    policy.seed(4)
    assert policy.generate(["abc"], 5) != first


def test_state_continues_weights_and_random_numbers(make_policy: Make) -> None:
    policy, other = make_policy(seed=0), make_policy(seed=1)
    policy.generate(["abc"], 2)
    state = policy.state_dict()
    expected = policy.generate(["abc"], 5)
    other.load_state_dict(state)
    assert other.generate(["abc"], 5) == expected


def test_state_of_another_model_is_refused(make_policy: Make) -> None:
    with pytest.raises(ValueError, match="another model"):
        make_policy().load_state_dict({"weights": {}, "generator": torch.Generator().get_state()})


def test_a_saved_model_loads_with_transformers_alone(make_policy: Make, tmp_path: Path) -> None:
    policy = make_policy()
    policy.save(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ids = torch.tensor([tokenizer("hello")["input_ids"]])
    assert ids.tolist() == [policy.encode("hello")]
    torch.testing.assert_close(model(ids).logits, policy.model(ids).logits)


def test_a_saved_adapter_goes_on_being_trained(make_policy: Make, tmp_path: Path) -> None:
    make_policy().save(tmp_path / "base")
    lora = {"r": 4, "target_modules": ["q_proj"]}
    options = {"compute_dtype": "float32", "device": "cpu"}
    sampling = Sampling(max_new_tokens=12)
    first = load_policy(tmp_path / "base", sampling, lora=lora, **options)
    first.save(tmp_path / "adapter")
    again = load_policy(tmp_path / "adapter", sampling, **options)
    assert {n for n, _ in again._trainable()} == {n for n, _ in first._trainable()}
    with pytest.raises(ValueError, match="holds an adapter already"):
        load_policy(tmp_path / "adapter", sampling, lora=lora, **options)


def test_an_adapter_is_all_that_is_trained_and_saved(make_policy: Make, tmp_path: Path) -> None:
    from peft import PeftModel

    make_policy().save(tmp_path / "base")
    lora = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}
    sampling, options = Sampling(max_new_tokens=12), {"compute_dtype": "float32", "device": "cpu"}
    policy = load_policy(tmp_path / "base", sampling, lora=lora, **options)
    names = {n for n, p in policy.model.named_parameters() if p.requires_grad}
    assert names and all("lora_" in name for name in names)
    learned, mask = policy.log_probs("ab", [completion(4, 5, 0)])
    (learned * mask).sum().backward()
    with torch.no_grad():
        for parameter in policy.parameters():
            assert parameter.grad is not None
            parameter -= 0.5 * parameter.grad
    policy.save(tmp_path / "adapter")
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    loaded = PeftModel.from_pretrained(base, tmp_path / "adapter")
    ids = torch.tensor([policy.encode("hello")])
    torch.testing.assert_close(loaded(ids).logits, policy.model(ids).logits)


def test_bfloat16_computes_in_bfloat16_and_keeps_float32_weights(make_policy: Make) -> None:
    exact, coarse = make_policy(), make_policy(compute_dtype="bfloat16")
    one = completion(4, 5, 6, 0)
    expected, mask = exact.log_probs("hello", [one])
    found, _ = coarse.log_probs("hello", [one])
    (found * mask).sum().backward()
    (expected * mask).sum().backward()
    assert not torch.equal(found, expected)
    torch.testing.assert_close(found, expected, atol=0.2, rtol=0.1)
    for parameter in coarse.parameters():
        assert parameter.dtype == torch.float32 and parameter.grad is not None
        assert parameter.grad.dtype == torch.float32
    ours = torch.cat([p.grad.flatten() for p in coarse.parameters()])  # type: ignore[union-attr]
    theirs = torch.cat([p.grad.flatten() for p in exact.parameters()])  # type: ignore[union-attr]
    assert torch.cosine_similarity(ours, theirs, dim=0) > 0.98


def test_a_chat_template_wraps_the_prompt_once(make_policy: Make) -> None:
    policy = make_policy()
    plain = policy.encode("abc")
    policy.tokenizer.chat_template = (
        "q{{ messages[0]['content'] }}{% if add_generation_prompt %}.{% endif %}"
    )
    assert policy.encode("abc") == [*policy.encode("")[:1], *plain, *policy.encode("")[1:]]


def test_a_prompt_without_tokens_is_refused(make_policy: Make) -> None:
    with pytest.raises(ValueError, match="no tokens"):
        make_policy().generate([""])


def test_an_unknown_computing_type_is_refused(make_policy: Make) -> None:
    policy = make_policy()
    with pytest.raises(ValueError, match="did you mean 'float32'"):
        ModelEngine(policy.model, policy.tokenizer, compute_dtype="float23")
