"""The learner: groups of completions become gradient steps of every trainable policy.

A pass of a sharded model gathers its weights, so all processes take part: each makes equally many passes, in the
same order. A process without completions for a pass computes a dummy completion with weight 0. If no weights are
sharded, one pass serves several groups with the same prompt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from llm_decpomdp.agents.models.weights import has_shards
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.advantages import (
    GroupAdvantages,
    ValueTargets,
    group_advantages,
    progress,
)
from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.losses import (
    LossInputs,
    joint_effective_sample_size,
    kl_estimate,
    mask_terms,
)
from llm_decpomdp.algorithms.rollouts.lanes import in_lanes
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.policy import (
    Completion,
    Policy,
    ReferencedPolicy,
    Team,
    TrainablePolicy,
    policy_attribute,
    shared_engine,
    to_messages,
)

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.critics.states import Features


class LossItem(NamedTuple):
    """The completions of one agent in one group."""

    position: int  # of the group among those from which this process learns
    agent: str
    source: GroupAdvantages
    counts: bool = True  # False for a dummy, whose weight is 0

    @property
    def prompt(self) -> str:
        """Prompt of the agent."""
        return self.source.group.prompts[self.agent]

    @property
    def completions(self) -> tuple[Completion, ...]:
        """Completions of the agent."""
        return self.source.group.completions[self.agent]


def loss_items(
    groups: Sequence[GroupAdvantages],
    agents: Mapping[str, TrainablePolicy],
    include_zeros: bool = False,
) -> list[LossItem]:
    """Return the loss items of this process, in order; with sharded weights, as many as any process has.

    All processes have the same order of `agents`. With `include_zeros` agents learn from advantages of 0 too.
    """
    items = [
        LossItem(position, agent, group)
        for position, group in enumerate(groups)
        for agent, advantages in group.advantages.items()
        if include_zeros or advantages.any()
    ]
    sharded = {agent for agent, policy in agents.items() if has_shards(policy.parameters())}
    return _align_processes(items, list(agents), sharded) if sharded else items


def group_by_prompt(items: Sequence[LossItem]) -> list[list[LossItem]]:
    """Return microbatches: items with one agent and one prompt, which one forward pass can compute.

    In whole episodes, groups of one completion often share their prompt. A pass of an agent's policy has at most
    as many characters as that of its largest group, with the prompt before each completion.
    """
    # Merging must not need more memory than the largest group by itself.
    limits: dict[str, int] = {}
    for item in items:
        limits[item.agent] = max(limits.get(item.agent, 0), _padded_characters([item]))
    microbatches: list[list[LossItem]] = []
    open_ones: dict[tuple[str, str], list[LossItem]] = {}
    for item in items:
        key = item.agent, item.prompt
        microbatch = open_ones.get(key)
        if microbatch is None or _padded_characters([*microbatch, item]) > limits[item.agent]:
            microbatch = open_ones[key] = []
            microbatches.append(microbatch)
        microbatch.append(item)
    return microbatches


def mark_last(
    microbatches: Sequence[Sequence[LossItem]], agents: Mapping[str, TrainablePolicy]
) -> list[tuple[Sequence[LossItem], bool]]:
    """Return each microbatch, and whether its pass is the last of its model: agents may share an engine."""
    engines = [id(shared_engine(agents[items[0].agent])) for items in microbatches]
    last = {engine: place for place, engine in enumerate(engines)}
    places = enumerate(zip(microbatches, engines, strict=True))
    return [(items, last[engine] == place) for place, (items, engine) in places]


def prepare_backward(policy: TrainablePolicy, last: bool) -> None:
    """Tell the engine of a policy whether the next backward pass is its last one in an update, if it asks."""
    prepare = policy_attribute(shared_engine(policy), "prepare_backward")
    if prepare is not None:
        prepare(last)


def _padded_characters(items: Sequence[LossItem]) -> int:
    """Return the number of characters of items with one prompt in a padded batch."""
    texts = [completion.text for item in items for completion in item.completions]
    context = sum(len(message["content"]) for message in to_messages(items[0].prompt))
    return len(texts) * (context + max(map(len, texts)))


def _align_processes(
    own: Sequence[LossItem], agents: Sequence[str], sharded: set[str]
) -> list[LossItem]:
    """Add dummies for items of sharded policies that only other processes have."""
    by_key = {(item.position, item.agent): item for item in own}
    dummies = {item.agent: _dummy(item) for item in reversed(own) if item.agent in sharded}
    gathered = processes.gather([(list(by_key), dummies)])
    all_keys = {key for keys, _ in gathered for key in keys if key[1] in sharded} | by_key.keys()
    any_dummy = {agent: item for _, of_process in gathered for agent, item in of_process.items()}
    order = sorted(all_keys, key=lambda key: (key[0], agents.index(key[1])))
    return [by_key[key] if key in by_key else any_dummy[key[1]] for key in order]


def _device(policy: TrainablePolicy) -> str:
    return str(next(iter(policy.parameters())).device)


def _dummy(item: LossItem) -> LossItem:
    """Return an item with one completion and weight 0, which any process can compute."""
    agent, source = item.agent, item.source
    group = replace(
        source.group,
        prompts={agent: source.group.prompts[agent]},
        completions={agent: source.group.completions[agent][:1]},
        drafts=(),
        view=None,
    )
    advantages = {agent: source.advantages[agent][:1]}
    source = replace(source, group=group, weight=0.0, advantages=advantages, values={})
    return LossItem(item.position, agent, source, counts=False)


TOKEN_METRICS = ("entropy", "kl", "clip_fraction", "mismatch")  # always written, for each agent
CORRECTION_TERMS = ("ratio", "masked", "weight", "square")  # of importance weights


class Learner(BaseLearner):
    """Updates the trainable policies of a team by the advantages and the loss of an algorithm.

    Args:
        team: Agent to policy. Policies that cannot be trained, or have no parameter that requires a gradient, take
            part and do not change.
        algorithm: The algorithm.
        options: Loss, optimizer and schedule.
        features: Features of the texts that a critic reads; by default those of the policies' own models.

    Raises:
        TypeError: If the loss needs a reference and a policy keeps none, `overlong_tokens` is set and a policy
            does not report its token limit, or there is a critic and no policy gives features.
        ValueError: If the algorithm cannot train the team with these options, no policy can be trained, or there
            is a `correction` and a policy samples from a part of its distribution.
    """

    def __init__(
        self,
        team: Team,
        algorithm: Algorithm,
        options: LearnerOptions,
        features: Features | None = None,
    ) -> None:
        super().__init__(team, algorithm, options)
        options = self.options
        overlong = options.overlong_tokens
        self._limits = {a: token_limit(a, p, overlong) for a, p in self._agents.items() if overlong}
        self._uses_reference = algorithm.needs_reference(options)
        if self._uses_reference:
            by_option = bool(options.kl_coefficient)
            self._keep_references(
                "kl_coefficient" if by_option else algorithm.name,
                "set kl_coefficient=0" if by_option else "use magrpo",
            )
        if options.correction != "none":
            require_whole_distribution(self._agents)
        self.critic = self.algorithm.make_critic(options, self._agents, features, processes.gather)
        self._summaries: list[Any] = []
        if options.normalize_advantages == "role":
            from llm_decpomdp.algorithms.learning.role_deviation import RoleDeviation

            self.role_deviation = RoleDeviation()
        self._role_sums: list[dict[str, tuple[float, int]]] = []

    def accumulate(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Compute the gradient: the mean over starts of the weighted losses of their groups.

        With n `updates_per_batch`, the first n - 1 steps are taken here, and the gradient is that of the last. No
        weight changes otherwise. Groups without a learning signal are counted and skipped; with sharded weights,
        completions of other processes cost a pass (`loss_items`).

        Returns:
            The metrics of `TokenMetrics` and of the critic, `learning_rate`, `grad_norm/<policy>` (before
            clipping), `groups` and `groups_without_signal`.

        Raises:
            FloatingPointError: If a return, loss or gradient isn't finite; names the update and the starts.
            ValueError: If there is a `correction`, and a sampler recorded no log-probabilities.
        """
        self._clear()
        targets, critic_metrics = self.critic.assess(rollouts) if self.critic else (None, {})
        groups = self._advantages(rollouts, targets)
        self._summaries = processes.gather(self.algorithm.summarize(groups))
        role_metrics = {}
        if self.role_deviation:
            self._role_sums = processes.gather(self.role_deviation.summarize(groups))
            deviations = self.role_deviation.deviations(self._role_sums)
            role_metrics = {f"role_deviation/{agent}": value for agent, value in deviations.items()}
            groups = [self.role_deviation.scale(group, deviations) for group in groups]
        # The divisor counts all starts, with or without a signal and whatever turns they reached: a divisor that
        # depended on the samples would bias the gradient.
        starts = processes.total(len(rollouts))
        active = [g for g in groups if g.weight and (self._uses_reference or g.has_signal)]
        items = loss_items(active, self._agents, self._uses_reference)
        # With sharded weights, all processes have to make the same passes, so groups are not merged.
        microbatches = [[item] for item in items] if self.is_sharded else group_by_prompt(items)
        old_log_probs: dict[tuple[int, str], Tensor] = {}
        several = self.options.updates_per_batch > 1
        corrects = self.options.correction != "none"
        for epoch in range(self.options.updates_per_batch):
            if epoch:
                self._step()
            token_metrics = TokenMetrics(self._agents, several, corrects)
            log_ratios: list[dict[str, Tensor]] = [{} for _ in active]
            self._learn(microbatches, starts, old_log_probs, token_metrics, log_ratios)
            if several:
                for group, ratios in zip(active, log_ratios, strict=True):
                    size = joint_effective_sample_size(group.group, group.advantages, ratios)
                    token_metrics.add_joint(size)
            norms = self._sum_and_clip_gradients(rollouts)
        return {
            **token_metrics.metrics(),
            **{f"grad_norm/{name}": norm for name, norm in norms.items()},
            "learning_rate": self.options.learning_rate * self._factor(),
            "groups": processes.total(len(groups)),
            "groups_without_signal": processes.total(sum(not g.has_signal for g in groups)),
            **critic_metrics,
            **role_metrics,
        }

    def has_learning_signal(self, rollout: Rollout) -> bool:
        """Check whether a group of a rollout has an advantage other than 0 for an agent that learns."""
        return any(group.weight and group.has_signal for group in self._advantages([rollout], None))

    def _advantages(
        self, rollouts: Sequence[Rollout], targets: Sequence[ValueTargets] | None
    ) -> list[GroupAdvantages]:
        try:
            return list(
                group_advantages(
                    rollouts,
                    self._agents,
                    self.algorithm,
                    self.options,
                    progress(self.updates, self.options.total_updates),
                    targets,
                    self._limits,
                )
            )
        except FloatingPointError as error:
            raise FloatingPointError(f"update {self.updates + 1}: {error}") from None

    def _learn(self, microbatches: Sequence[Sequence[LossItem]], *arguments: Any) -> None:
        """Add the gradients of all microbatches by `_backward`; policies on different devices learn at once."""
        sharded = self.is_sharded

        def learn(part: tuple[Sequence[LossItem], bool]) -> None:
            microbatch, last = part
            if sharded:
                prepare_backward(self._agents[microbatch[0].agent], last)
            self._backward(microbatch, *arguments)

        devices = {agent: _device(policy) for agent, policy in self._agents.items()}
        parts = list(mark_last(microbatches, self._agents))
        try:
            in_lanes(learn, parts, [devices[microbatch[0].agent] for microbatch, _ in parts])
        except FloatingPointError:
            self._clear()  # another device may have added to a gradient behind the error
            raise

    def _backward(
        self,
        microbatch: Sequence[LossItem],
        starts: float,
        old_log_probs: dict[tuple[int, str], Tensor],
        token_metrics: TokenMetrics,
        log_ratios: Sequence[dict[str, Tensor]],
    ) -> None:
        """Add the gradient of one forward pass of an agent's policy, and fill the last three arguments.

        `starts` is their number in all processes. `old_log_probs` are those before the first step; `log_ratios`
        have log(pi / pi_old) of the completions, (G,), by group and agent.
        """
        losses = []
        for item, (log_probs, mask, reference) in zip(
            microbatch, self._log_probs(microbatch), strict=True
        ):
            before = log_probs.detach()
            if item.counts:
                before = old_log_probs.setdefault((item.position, item.agent), before)
                log_ratio = mask_terms(log_probs.detach() - before, mask).sum(-1)
                log_ratios[item.position][item.agent] = log_ratio
            losses.append(
                self._loss(item, log_probs, before, reference, mask, starts, token_metrics)
            )
        loss = torch.stack(losses).sum()
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]

    def _log_probs(
        self, microbatch: Sequence[LossItem]
    ) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Return log-probabilities, masks and reference log-probabilities of each item, (G, T) each."""
        agent, prompt = microbatch[0].agent, microbatch[0].prompt
        policy, sizes = self._agents[agent], [len(item.completions) for item in microbatch]
        completions = [completion for item in microbatch for completion in item.completions]
        log_probs, mask = policy.log_probs(prompt, completions)
        references: Iterable[Tensor | None] = [None] * len(microbatch)
        if self._uses_reference:
            assert isinstance(policy, ReferencedPolicy), policy
            references = torch.split(policy.reference_log_probs(prompt, completions)[0], sizes)
        return zip(torch.split(log_probs, sizes), torch.split(mask, sizes), references, strict=True)

    def _loss(
        self,
        item: LossItem,
        log_probs: Tensor,
        before: Tensor,
        reference: Tensor | None,
        mask: Tensor,
        starts: float,
        token_metrics: TokenMetrics,
    ) -> Tensor:
        """Return the weighted loss of one item, a scalar, and add its metrics."""
        sampled = _recorded_log_probs(item.completions, log_probs)
        if self.options.truncated == "mask":
            whole = [float(not completion.truncated) for completion in item.completions]
            mask = mask * torch.tensor(whole, dtype=mask.dtype, device=mask.device).unsqueeze(1)
        outputs = self.algorithm.loss(
            LossInputs(
                agent=item.agent,
                source=item.source,
                log_probs=log_probs,
                old_log_probs=before,
                sampler_log_probs=sampled,
                reference_log_probs=reference,
                mask=mask,
                advantages=torch.as_tensor(item.source.advantages[item.agent]).to(log_probs),
                options=self.options,
            )
        )
        loss = item.source.weight / starts * outputs.loss
        self._require_finite(
            float(loss.detach()), f"loss of {item.agent!r}", str(item.source.start)
        )
        if item.counts:
            terms = {
                "entropy": -log_probs.detach(),
                "mismatch": (log_probs.detach() - sampled).abs(),
                **outputs.metrics,
            }
            if reference is not None:
                terms["kl"] = kl_estimate(log_probs, reference)
            token_metrics.add(item.agent, loss.detach(), mask, terms)
        return loss

    def step(self) -> None:
        """Step along the accumulated gradient; policies without one do not change."""
        super().step()
        if self.critic:
            self.critic.learn()
        self.algorithm.update_state(self._summaries)
        self._summaries = []
        if self.role_deviation:
            self.role_deviation.update(self._role_sums)


class TokenMetrics:
    """Sums over the tokens of one pass through a batch, by agent and over all processes.

    `several` tells whether the pass is one of several with the same batch, and `corrects` whether groups have the
    terms of importance weights.
    """

    def __init__(
        self, agents: Collection[str], several: bool = False, corrects: bool = False
    ) -> None:
        self.agents = list(agents)
        self._sums: dict[str, dict[str, Tensor]] = {agent: {} for agent in agents}
        self._several, self._corrects = several, corrects
        self._sizes: list[float] = []
        self._own_names: set[str] = set()

    def add(self, agent: str, loss: Tensor, mask: Tensor, terms: Mapping[str, Tensor]) -> None:
        """Add a group: its weighted loss, the mask of its tokens, and the terms of metrics by name.

        Mask and terms are (G, T). A term is not a number where a token has none.
        """
        # Tokens are selected by their indices, which are read once: sums stay on the device until the end.
        places = (mask > 0).flatten().nonzero().squeeze(1)
        parts = {"loss": loss, "tokens": torch.tensor(float(len(places)))}
        self._own_names |= terms.keys() - {*TOKEN_METRICS, *CORRECTION_TERMS}
        for name, values in terms.items():
            # float64, because sums over 100,000 tokens lose digits in the format of the model.
            terms_in_loss = values.detach().flatten()[places].to(torch.float64)
            parts[name] = terms_in_loss.nansum()
            parts[f"tokens/{name}"] = terms_in_loss.isfinite().sum()
        sums = self._sums[agent]
        for name, part in parts.items():
            sums[name] = sums.get(name, 0.0) + part.double()

    def add_joint(self, size: float | None) -> None:
        """Add the effective sample size of a group's joint samples, unless it is not known."""
        if size is not None:
            self._sizes.append(size)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the pass, which `docs/metrics.md` defines; collective over processes."""
        metrics, tokens = {}, 0.0
        # Sums over processes are collective, so all processes need the same names, also those without groups.
        own_names = sorted(set(processes.gather(list(self._own_names))))
        for agent in self.agents:
            own = self._sums[agent]
            values = torch.stack([part.cpu() for part in own.values()]).tolist() if own else []
            sums = defaultdict(float, zip(own, values, strict=True))
            tokens += processes.total(sums["tokens"])
            metrics[f"loss/{agent}"] = processes.total(sums["loss"])
            means = {name: _mean(sums, name) for name in (*TOKEN_METRICS, *own_names)}
            if self._corrects:
                terms = {name: _mean(sums, name) for name in CORRECTION_TERMS}
                means |= {name: terms[name] for name in ("ratio", "masked")}
                means["ess"] = terms["weight"] ** 2 / terms["square"] if terms["square"] else 0.0
            metrics |= {f"{name}/{agent}": mean for name, mean in means.items()}
        metrics["completion_tokens"] = tokens
        if self._several and (groups := processes.total(len(self._sizes))):
            metrics["effective_sample_size"] = processes.total(sum(self._sizes)) / groups
        return metrics


def _mean(sums: Mapping[str, float], name: str) -> float:
    """Return the mean of a term over the tokens of all processes that have it; 0 without such tokens."""
    count = max(processes.total(sums[f"tokens/{name}"]), 1.0)
    return processes.total(sums[name]) / count


def _recorded_log_probs(completions: Sequence[Completion], like: Tensor) -> Tensor:
    """Return the sampler's log-probabilities, padded like `like`, (G, T); not a number if it recorded none."""
    log_probs = torch.full_like(like, torch.nan)
    for row, completion in zip(log_probs, completions, strict=True):
        row[: len(completion.log_probs)] = torch.tensor(completion.log_probs).to(row)
    return log_probs


def token_limit(agent: str, policy: Policy, overlong: int) -> int:
    """Return the token limit of an agent's policy, for a penalty that grows over its last `overlong` tokens."""
    limit: int | None = policy_attribute(policy, "max_new_tokens")
    if limit is None:
        raise TypeError(
            f"overlong_tokens={overlong} needs policies with max_new_tokens, and that of {agent!r} is a "
            f"{type(policy).__name__}; set overlong_tokens=0"
        )
    if overlong > limit:
        raise ValueError(
            f"overlong_tokens={overlong} is more than max_new_tokens={limit} of {agent!r}: every "
            "completion would be penalized; lower it"
        )
    return limit


def require_whole_distribution(agents: Mapping[str, Policy]) -> None:
    """Check that policies sample from the whole distribution whose log-probabilities they record.

    Raises:
        ValueError: If `top_p` or `top_k` truncate it. A token that was kept then has more probability than
            recorded, by an unknown factor that changes with the weights, so no ratio is that of the samples.
    """
    for agent, policy in agents.items():
        if policy_attribute(policy, "cuts"):
            raise ValueError(
                f"a correction compares log-probabilities of the whole distribution, and the policy of {agent!r} "
                "samples from a part of it: set model.top_p=1 and model.top_k=null (of policies, their own), and "
                "a temperature above 0; or set correction=none"
            )
