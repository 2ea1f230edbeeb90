"""Learning compared with padded batches: `python -m tools.performance.models.learning`.

Forward and backward passes of groups of siblings with different lengths: `CausalLM.log_probs` against a padded
batch of the same rows with logits only for completions, and a forward pass for each row. Equal gradient norms
show that all do the same work. "Fused kernels" has `model.fused_kernels`, and "fused and compiled" `model.compile`
too. The floor has only the matrix products,
with each prompt computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.pretrained import OFFLINE_MODEL
from llm_decpomdp.policy import Completion
from tools.performance.harness import trials
from tools.performance.models import workload
from tools.performance.models.workload import Case

FILE = "models/learning.py"

SECONDS = 30
"""Rough duration of a trial with the defaults."""

SPEED = trials.Goal("speed against one padded batch, float32", at_least=2.5)
MEMORY = trials.Goal("peak memory against one padded batch, float32", at_most=0.5)


def variants(case: Mapping[str, Any], dtype: str) -> list[trials.Variant]:
    """Return ours, then the batch that it is judged by, then the others, with the floor at the end."""
    case = {**case, "dtype": dtype}
    together, apart = ({**case, "together": together} for together in (True, False))
    return [
        trials.Variant(f"ours, {dtype}", FILE, "ours", case),
        trials.Variant(f"one padded batch, {dtype}", FILE, "padded_batch", together),
        trials.Variant(f"a padded batch a group, {dtype}", FILE, "padded_batch", apart),
        trials.Variant(f"row by row, all logits, {dtype}", FILE, "one_by_one", case),
        trials.Variant(f"fused kernels, {dtype}", FILE, "ours", {**case, "fused_kernels": True}),
        trials.Variant(
            f"fused and compiled, {dtype}",
            FILE,
            "ours",
            {**case, "fused_kernels": True, "compile": True},
        ),
        trials.Variant(f"floor, {dtype}", "models/product_floors.py", "learning", case),
    ]


def judge(measured: Sequence[trials.Measured], dtype: str) -> list[trials.Judgement]:
    """Judge ours against each other variant; the bounds are for float32 against one padded batch."""
    learner, *rivals, floor = measured
    *_, fused, compiled = rivals
    judgements = []
    for rival in rivals:
        name = rival.variant.name
        faster, smaller = (
            trials.Goal(f"speed against {name}"),
            trials.Goal(f"peak memory against {name}"),
        )
        if rival is rivals[0] and dtype == "float32":
            faster, smaller = SPEED, MEMORY
        judgements.append(trials.speed(faster, learner, rival))
        judgements.append(trials.Judgement(smaller, learner.times_memory(rival)))
    return [
        *judgements,
        trials.speed(trials.Goal(f"speed against the floor, {dtype}"), learner, floor),
        trials.speed(trials.Goal(f"fused kernels against the floor, {dtype}"), fused, floor),
        trials.speed(
            trials.Goal(f"fused and compiled against the floor, {dtype}"), compiled, floor
        ),
    ]


def main(
    model: trials.Model = OFFLINE_MODEL,
    group_size: Annotated[int, typer.Option(min=2, help="Siblings of a group (G).")] = 4,
    dtype: trials.Dtypes = ["float32", "bfloat16"],  # noqa: B006
    new_tokens: Annotated[int, typer.Option(min=4, help="Tokens of the longest completion.")] = 128,
    rounds: trials.Rounds = 3,
    device: trials.Device = "cpu",
    tuned: trials.Tuned = True,
    threads: trials.Threads = None,
    json_file: trials.JsonFile = None,
) -> None:
    """Measure learning, and judge it by its goals."""
    minutes = rounds * 7 * len(dtype) * SECONDS / 60
    trials.progress(f"takes about {minutes:.0f} minutes with the offline model on two cores")
    results = trials.Comparisons(rounds, trials.environment(tuned, threads))
    env = workload.environment()
    prompts = [*workload.prompts(env, workload.task_ids(env, 1)[0]).values()]
    size = {"group_size": group_size, "new_tokens": new_tokens}
    with workload.endless_copy(model) as folder:
        case = {"model": folder, "prompts": prompts, "device": device, **size}
        for precision in dtype:
            results.judgements += judge(results.compare(variants(case, precision)), precision)
    settings = {
        "model": model,
        "prompts": len(prompts),
        "G": group_size,
        "longest completion": new_tokens,
        "rounds": rounds,
        "device": device,
    }
    results.finish("Forward and backward of groups of siblings", settings, json_file)


Group = tuple[str, list[list[int]]]
"""Prompt, and the tokens of its completions."""


def ours(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Learn by `CausalLM.log_probs`, a group at a time, as the learner calls it."""
    case = Case(**arguments)
    policy = case.policy()

    def learn(groups: Sequence[Group]) -> None:
        for prompt, rows in groups:
            completions = [Completion("", tuple(row)) for row in rows]
            log_probs, mask = policy.log_probs(prompt, completions)
            _backward((log_probs * mask).sum(1))

    yield from _twice(policy, learn, synthetic(policy, case))


def padded_batch(together: bool, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Learn from rows of prompt and completion in one padded batch, with logits of completions only.

    All groups make one batch if `together`; else each makes one of its own.
    """
    case = Case(**arguments)
    policy = case.policy()

    def learn(groups: Sequence[Group]) -> None:
        for batch in [groups] if together else [[group] for group in groups]:
            rows = [
                (policy.encode(prompt), row) for prompt, completions in batch for row in completions
            ]
            with _autocast(case):
                sums = padded_sums(policy.model, rows)
            _backward(*torch.split(sums, case.group_size))

    yield from _twice(policy, learn, synthetic(policy, case))


def one_by_one(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Learn by a forward pass for each row, with all of its logits, and one backward pass for a group."""
    case = Case(**arguments)
    policy = case.policy()

    def learn(groups: Sequence[Group]) -> None:
        for prompt, completions in groups:
            start = policy.encode(prompt)
            sums = []
            for row in completions:
                ids = torch.tensor([[*start, *row[:-1]]], device=case.device)
                with _autocast(case):
                    logits = policy.model(input_ids=ids, use_cache=False).logits[0]
                log_probs = logits[len(start) - 1 :].float().log_softmax(-1)  # (T, V)
                sums.append(
                    log_probs.gather(1, torch.tensor(row, device=case.device)[:, None]).sum()
                )
            _backward(torch.stack(sums))

    yield from _twice(policy, learn, synthetic(policy, case))


def padded_sums(model: Any, rows: Sequence[tuple[list[int], list[int]]]) -> Tensor:
    """Return the log-probability of each row's completion, (R,), by one padded batch."""
    width = max(len(prompt) + len(row) for prompt, row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask, targets = torch.zeros_like(ids), torch.zeros_like(ids).bool()
    for index, (prompt, row) in enumerate(rows):
        end = len(prompt) + len(row)
        ids[index, :end] = torch.tensor([*prompt, *row])
        mask[index, :end] = 1
        targets[index, len(prompt) : end] = True
    ids, mask, targets = (tensor.to(model.device) for tensor in (ids, mask, targets))
    hidden = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    logits = model.get_output_embeddings()(hidden[:, :-1][targets[:, 1:]]).float()
    log_probs = logits.log_softmax(-1).gather(1, ids[targets][:, None])[:, 0]
    lengths = targets.sum(1).tolist()
    return torch.stack([part.sum() for part in log_probs.split(lengths)])


def _autocast(case: Case) -> torch.autocast:
    return torch.autocast(case.device, torch.bfloat16, enabled=case.dtype == "bfloat16")


def synthetic(policy: CausalLM, case: Case) -> list[Group]:
    """Return completions of random tokens, with lengths evenly from a quarter of the longest up to it."""
    # The same tokens for every variant, so that gradient norms compare.
    generator = torch.Generator().manual_seed(0)
    vocabulary = policy.model.config.get_text_config().vocab_size
    shortest = max(1, case.new_tokens // 4)
    steps = torch.linspace(shortest, case.new_tokens, case.group_size).round().int().tolist()
    return [
        (prompt, [torch.randint(vocabulary, (n,), generator=generator).tolist() for n in steps])
        for prompt in case.prompts
    ]


def _backward(*groups: Tensor) -> None:
    """Compute the gradient of the groups' losses, with advantages that alternate."""
    signs = torch.tensor([1.0, -1.0], device=groups[0].device)
    losses = [-(signs.repeat(len(sums))[: len(sums)] * sums).mean() for sums in groups]
    torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]


def _twice(
    policy: CausalLM, learn: Callable[[Sequence[Group]], None], groups: Sequence[Group]
) -> Iterator[dict[str, Any]]:
    """Learn from the first tokens of each row, then from all."""
    # A warm-up with short rows loads the kernels.
    learn([(prompt, [row[:2] for row in rows]) for prompt, rows in groups])
    policy.model.zero_grad(set_to_none=False)
    yield {"units": sum(len(rows) for _, rows in groups)}
    learn(groups)
    gradients = [p.grad for p in policy.parameters() if p.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients))
    tokens = sum(len(row) for _, rows in groups for row in rows)
    yield {"units": tokens, "figures": {"gradient norm": norm}}


if __name__ == "__main__":
    trials.run(main)
