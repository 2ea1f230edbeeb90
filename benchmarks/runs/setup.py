"""A run as resolved: environments, team, options and schedule are built once, and everything reads them here."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from llm_decpomdp.agents.saved_team import read_manifest
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.environment import TextEnv, reset_branch
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import distinct_policies
from llm_decpomdp.algorithms.training.sft_data import (
    Demonstration,
    draw_share,
    read_demonstrations,
    reference_demonstrations,
)
from llm_decpomdp.algorithms.training.trainer_options import GOLD, PASSES, TrainerOptions
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.load import fit
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.config.teams import TeamSpec, check_trainable
from llm_decpomdp.benchmarks.config.trackers import require_packages
from llm_decpomdp.benchmarks.runs.manifest import Manifest, build_train_env, load_eval_env
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.interfaces import Task
from llm_decpomdp.options import pick
from llm_decpomdp.policy import Team
from llm_decpomdp.seeding import stream

logger = logging.getLogger(__name__)

T = TypeVar("T")

Batches = list[list[Start]]
"""The starts of each update."""


@dataclass(frozen=True)
class ResolvedRun:
    """A checked configuration, with all that it declares but the models."""

    config: Config
    train_env: DecPOMDPEnv
    eval_env: DecPOMDPEnv
    team: TeamSpec
    learner: LearnerOptions
    trainer: TrainerOptions
    batches: Batches
    """Starts of each update; where the run learns from stored pairs, those of the pairs."""
    eval_starts: list[Start]
    """Starts of the held-out problems that evaluations play."""
    skipped: Sequence[str] = ()
    """Training problems that no batch has, as a first prompt is too long."""
    pairs: Sequence[Rollout] = ()
    """Stored pairs to learn from, if the run samples none."""

    @property
    def problems(self) -> list[Start]:
        """Starts of all training problems that reinforcement may play: those neither skipped nor kept apart."""
        left_out = {*self.skipped, *reserved_tasks(self.config, self.train_env)}
        tasks = [task.task_id for task in self.train_env.tasks.tasks]
        return [Start(task_id=task) for task in tasks if task not in left_out]

    def lessons(self) -> list[Demonstration] | None:
        """Return the lessons of the warm start, none of those that the team is to sample; `None` without one.

        Raises:
            ConfigError: If there are none, or a file has another form.
        """
        config, specs = self.config.warm_start, self.team.policies
        if config.source is None:
            return None
        if config.source == PASSES:
            return []
        learning = [a for a, name in self.team.agents.items() if specs[name].can_be_trained]
        try:
            if config.source != GOLD:
                of_file = read_demonstrations(Path(config.source), self.train_env.possible_agents)
                return draw_share(of_file, config.share, self.config.seed)
            starts = [Start(task_id=task.task_id) for task in self.train_env.tasks.tasks]
            share = draw_share(starts, config.share, self.config.seed)
            return reference_demonstrations(self.train_env, share, learning)
        except ValueError as error:
            raise ConfigError(f"warm_start.source: {error}") from None

    @property
    def sampled_problems(self) -> list[Start]:
        """Starts of the problems that a warm start on own passes samples: its share, without the skipped ones."""
        tasks = [task.task_id for task in self.train_env.tasks.tasks]
        share = draw_share(tasks, self.config.warm_start.share, self.config.seed)
        return [Start(task_id=task) for task in share if task not in self.skipped]

    def skip_tasks(self, skipped: Sequence[str]) -> ResolvedRun:
        """Return the run without some of its training problems."""
        batches = plan_batches(self.config, self.train_env, self.pairs, skipped)
        learner = replace(self.learner, total_updates=len(batches))
        return replace(self, skipped=skipped, batches=batches, learner=learner)

    def replace_policies(self, policies: Mapping[str, Any]) -> ResolvedRun:
        """Return the run with other policies declared; errors as of `fit`."""
        config = replace(self.config, policies=dict(policies))
        config, team, learner = fit(config, self.train_env)
        learner = replace(learner, total_updates=self.learner.total_updates)
        return replace(self, config=config, team=team, learner=learner)


def resolve(config: Config, before: Manifest | None = None) -> ResolvedRun:
    """Check a configuration, build its environments and load their data; no model is loaded.

    Args:
        config: The configuration, checked or not.
        before: The data in the run's manifest, if there is a run: the hub's are those of its commit.

    Raises:
        ConfigError: If a value is out of range or does not fit the others, no policy can be trained, or the
            package of a tracker is missing.
        RunError: If the data cannot be loaded, or there is nothing to train on.
    """
    scores = config.algorithm.reward_model
    judge = None if scores is None else scores.reward_model
    if judge is not None and not Path(judge).is_file():
        raise ConfigError(
            f"algorithm.reward_model.path: there is no file {judge}; `reward-model` writes it"
        )
    train_env = build_train_env(config, before)
    config, team, learner = fit(config, train_env)
    check_comparator(config.algorithm.named_comparator, train_env.possible_agents)
    check_trainable(team.policies)
    if config.output.trackers:
        require_packages(config.output.trackers)
    eval_env = load_eval_env(config, train_env, before)
    held_out = eval_env.tasks.tasks[: config.evaluation.num_tasks]
    try:
        pairs = read_pairs(config, team)
        batches = plan_batches(config, train_env, pairs)
        return ResolvedRun(
            config=config,
            train_env=train_env,
            eval_env=eval_env,
            team=team,
            # Schedules of the learner fall to the end of the run.
            learner=replace(learner, total_updates=len(batches)),
            trainer=trainer_options(config),
            batches=batches,
            eval_starts=[Start(task_id=task.task_id) for task in held_out],
            pairs=pairs,
        )
    except ValueError as error:
        raise RunError(str(error)) from error


def check_comparator(folder: str | None, agents: Collection[str]) -> None:
    """Raise a `ConfigError` unless the folder of `algorithm.preferences.opponent` holds a team of these agents."""
    if folder is None:
        return
    try:
        plays = read_manifest(Path(folder))["agents"]
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"algorithm.preferences.opponent={folder} is neither current, nor history, nor a team that "
            f"output.save_final_model has written: {error}"
        ) from None
    if set(plays) != set(agents):
        raise ConfigError(
            f"algorithm.preferences.opponent: the team in {folder} plays {', '.join(plays)}, and the environment "
            f"has {', '.join(agents)}"
        )


def read_pairs(config: Config, team: TeamSpec) -> list[Rollout]:
    """Read the stored pairs of a run; none if it samples.

    Raises:
        ConfigError: If there are none, or the file has another form.
    """
    preferences = config.algorithm.preferences
    source = config.algorithm.pairs_source
    if preferences is None or source is None:
        return []
    models = {agent: team.policies[name].name for agent, name in team.agents.items()}
    try:
        # Imported here, because only runs that learn from stored pairs need it.
        from llm_decpomdp.algorithms.preferences.stored import stored_pairs

        return stored_pairs(Path(source), models, preferences.pairs_per_start, config.env.id)
    except ValueError as error:
        raise ConfigError(f"algorithm.preferences.source: {error}") from None


def reserved_tasks(config: Config, env: DecPOMDPEnv) -> list[str]:
    """Return the training problems of the warm start, if reinforcement is to leave them out."""
    options = config.warm_start
    if not options.disjoint:
        return []
    return draw_share([task.task_id for task in env.tasks.tasks], options.share, config.seed)


def plan_batches(
    config: Config, env: DecPOMDPEnv, pairs: Sequence[Rollout], skipped: Collection[str] = ()
) -> Batches:
    """Schedule the training problems as a configuration says, without some of them; or stored pairs.

    Args:
        config: The configuration.
        env: The environment of training.
        pairs: Stored pairs, if the run samples none.
        skipped: Training problems to leave out.

    Raises:
        ConfigError: If all problems are kept for the warm start.
    """
    if pairs:
        return [[pair.start for pair in update] for update in arrange(config, pairs)]
    tasks = [task.task_id for task in env.tasks.tasks]
    reserved = reserved_tasks(config, env)
    if len(reserved) == len(tasks):
        raise ConfigError(
            f"warm_start.share={config.warm_start.share:g} of {len(tasks)} problems, rounded up, is all of "
            "them: warm_start.disjoint leaves reinforcement none; lower the share, or take more problems"
        )
    return schedule(config, tasks, {*skipped, *reserved})


def trainer_options(config: Config) -> TrainerOptions:
    """Build the options of the trainer."""
    return pick(
        TrainerOptions,
        SimpleNamespace(**config.algorithm.flat()),
        config.output,
        group_size=config.algorithm.num_generations,
        eval_every=config.evaluation.every,
        seed=config.seed,
    )


def schedule(config: Config, tasks: Sequence[str], left_out: Collection[str] = ()) -> Batches:
    """Return the starts of each update: every task once an epoch, in an order that the seed decides.

    The last update of an epoch takes what is left. The order of the others is the same if some tasks are left out.
    """
    starts = [Start(task_id=task) for task in tasks]
    return arrange(config, starts, [start for start in starts if start.task_id in left_out])


def arrange(config: Config, items: Sequence[T], left_out: Collection[T] = ()) -> list[list[T]]:
    """Return the items of each update: each once an epoch, in an order that the seed decides, but for some."""
    size, batches = config.algorithm.prompts_per_update, []
    for epoch in range(config.algorithm.num_train_epochs):
        order = stream(config.seed, "schedule", epoch).permutation(len(items))
        shuffled = (items[position] for position in order)
        of_epoch = [item for item in shuffled if item not in left_out]
        batches += [of_epoch[first : first + size] for first in range(0, len(of_epoch), size)]
    return batches[: config.algorithm.max_updates]


def describe(team: Team) -> None:
    """Log the prompting of each local model, once for each policy."""
    from llm_decpomdp.agents.models.causal_lm import CausalLM

    for agents, policy in distinct_policies(team).items():
        if isinstance(policy, CausalLM):
            logger.info("%s: %s", agents, policy.encoder.describe())


def first_prompts(env: TextEnv, team: Team, start: Start) -> dict[str, dict[str, Any]]:
    """Return the first prompt of each agent with a local model, as the model sees it: its `text` and `tokens`.

    One that is too long, and not cut, is left out.
    """
    from llm_decpomdp.agents.models.causal_lm import CausalLM

    encoded = {}
    _, prompts = reset_branch(env, start)
    for agent, policy in team.items():
        if isinstance(policy, CausalLM) and (
            policy.on_long_prompt == "truncate_left" or policy.overflow(prompts[agent]) is None
        ):
            ids = policy.encode(prompts[agent])
            encoded[agent] = {"text": policy.tokenizer.decode(ids), "tokens": len(ids)}
    return encoded


def skip_long_prompts(run: ResolvedRun, team: Team) -> ResolvedRun:
    """Skip the training problems whose first prompt is too long for a policy that skips such ones.

    Raises:
        RunError: If one is too long for a policy that skips none, or no problem is left.
    """
    tasks = run.train_env.tasks.tasks
    run = run.skip_tasks(left_out(run.train_env, team, _most_text_first(tasks)))
    played = [*run.batches, run.problems if run.config.algorithm.rollout.refill else []]
    in_batches = {start.task_id for batch in played for start in batch}
    held_out = _most_text_first(run.eval_env.tasks.tasks[: run.config.evaluation.num_tasks])
    trained = _most_text_first(task for task in tasks if task.task_id in in_batches)
    refuse_long(run.train_env, team, trained)
    refuse_long(run.eval_env, team, held_out)
    warn_of_unread(run.eval_env, team, held_out)
    return run


def _most_text_first(tasks: Iterable[Task]) -> list[Start]:
    ordered = sorted(tasks, key=lambda task: len(repr(task)), reverse=True)
    return [Start(task_id=task.task_id) for task in ordered]


def left_out(env: TextEnv, team: Team, starts: Sequence[Start]) -> list[str]:
    """List the training problems that are skipped, as a first prompt is too long; logs them.

    Raises:
        RunError: If no problem is left.
    """
    from llm_decpomdp.algorithms.rollouts.long_prompts import describe_prompts, long_first_prompts

    prompts = long_first_prompts(env, team, starts, "skip")
    skipped = list(dict.fromkeys(str(prompt.start.task_id) for prompt in prompts))
    if skipped:
        logger.warning(
            "%d of %d training problems are left out, for first prompts are too long: %s",
            *(len(skipped), len(starts), describe_prompts(prompts)),
        )
    if len(skipped) == len(starts):
        raise RunError("no problem is left to train on: make room for longer prompts")
    return skipped


def refuse_long(env: TextEnv, team: Team, starts: Sequence[Start]) -> None:
    """Raise a `RunError` if a first prompt is too long for a policy that neither skips nor cuts it."""
    from llm_decpomdp.algorithms.rollouts.long_prompts import require_short

    try:
        require_short(env, team, starts)
    except ValueError as error:
        raise RunError(str(error)) from error


def warn_of_unread(env: TextEnv, team: Team, held_out: Sequence[Start]) -> None:
    """Log the first prompts of evaluations that are skipped.

    Evaluations leave no problem out: an agent that cannot read its prompt says nothing.
    """
    from llm_decpomdp.algorithms.rollouts.long_prompts import describe_prompts, long_first_prompts

    unread = long_first_prompts(env, team, held_out, "skip")
    if unread:
        logger.warning(
            "first prompts of held-out problems are too long, and agents say nothing to them: %s",
            describe_prompts(unread),
        )
