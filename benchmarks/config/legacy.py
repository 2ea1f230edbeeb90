"""Older spellings of configuration keys, in YAML files and in overrides.

| older                                    | here                                         |
|------------------------------------------|----------------------------------------------|
| section `magrpo` or `mt_magrpo`          | `algorithm`, with `name: magrpo`             |
| section `marloo`, `maremax` or `mareinforce` | `algorithm`, with this name              |
| section `grpo`                           | `algorithm`, with `name: grpo` and one agent |
| in any of them `joint_mode`              | the same, with `rollout.mode: tree`          |
| in them the keys of `SECTION_KEYS`       | other sections, as listed there              |
| the keys of `ROOT_KEYS`                  | as listed there                              |
| `dataset.type`, or else `dataset.name`   | `env.id`, as `ENVIRONMENTS` says             |
| section `wandb`                          | `output.trackers.wandb`, which takes its keys |

A file with such a section was written for scripts with other defaults, and takes `OLDER_DEFAULTS`.
Where a file gives the sampling twice, in `model` and in the algorithm's section, the latter holds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.schema import (
    KEYS,
    OPTIONAL,
    OWNERS,
    SECTIONS,
    SWITCHES,
    Config,
    value_of,
)
from llm_decpomdp.options import former_names
from llm_decpomdp.validation import LISTED, unknown

ALGORITHM_SECTIONS = {
    "magrpo": "magrpo",
    "mt_magrpo": "magrpo",
    "grpo": "grpo",
    "marloo": "marloo",
    "maremax": "maremax",
    "mareinforce": "mareinforce",
}

SECTION_KEYS = {
    "num_turns": "env.num_turns",
    "num_agents": "env.num_agents",
    "temperature": "model.temperature",
    "top_p": "model.top_p",
    "top_k": "model.top_k",
    "max_new_tokens": "model.max_new_tokens",
    "external_mode": "external.mode",
    "external_original_prompt": "external.original_prompt",
    "external_previous_response": "external.previous_response",
    "expert_model": "external.expert_model",
    "per_device_train_batch_size": "algorithm.train_batch_size",
    "discount": "env.discount",
    "eval_interval": "evaluation.every",
    "eval_num_samples": "evaluation.num_tasks",
    "agent_learning_rate": "algorithm.learning_rate",
    "seed": "seed",
}
"""Keys of these sections that stand in other sections here; the rest keep their names."""

ROOT_KEYS = {
    "model_name": "model.name",
    "agents.num_agents": "env.num_agents",
    "algorithm.discount": "env.discount",
    "external.expert_edits_model": "external.expert_model",
    "agent_model.name": "model.name",
    "agent_model.temperature": "model.temperature",
    "agent_model.top_p": "model.top_p",
    "agent_model.top_k": "model.top_k",
    "agent_model.torch_dtype": "model.compute_dtype",
}
"""Other keys, by their whole names."""

FORMER = {
    "group_size": "num_generations",
    "train_batch_size": "prompts_per_update",
    "rollout_batch_size": "starts_per_bundle",
}
"""Options of an algorithm, and their names in the first versions."""

_FORMER_NAMES = {key: former for former, key in former_names(Config).items()}

FLAT_NAMES = {key: _FORMER_NAMES.get(key, name) for key, (_, name) in OWNERS.items()}
"""Names of keys in earlier versions, where sections had no sections in them."""

FLAT_KEYS = {
    **{
        f"{key.partition('.')[0]}.{flat}": key
        for key, flat in FLAT_NAMES.items()
        if key.rpartition(".")[2] != flat or key.count(".") > 1
    },
    **{f"sampler.{name}": key for key, name in FLAT_NAMES.items() if key.startswith("inference.")},
    **{f"algorithm.{FORMER[name]}": key for key, name in FLAT_NAMES.items() if name in FORMER},
}
"""Keys of earlier versions, where sections had no sections in them, and their keys here."""

VALUES = {
    ("algorithm.rollout.joint_mode", "align"): "aligned",
    ("algorithm.rollout.joint_mode", "crossed"): "cross",
}

DATASET_KEYS = ("dataset.type", "dataset.name")
"""Keys that name the data; the first that is set counts."""

DATA = ("he", "che", "mbpp", "classeval", "bugfix", "tldr", "arxiv")

OTHER_NAMES: dict[str, str] = {}
"""Aliases of files, and the names that they stand for."""
for _name in ("grpo", "magrpo"):
    OTHER_NAMES |= {f"{_name}_mt_{data}_config": f"mt_{_name}_{data}_config" for data in DATA}
    OTHER_NAMES[f"{_name}_mbpp_config.2026-01"] = f"mt_{_name}_mbpp_config"
    for _data in ("classeval", "bugfix"):  # their plain configurations play several turns already
        OTHER_NAMES[f"mt_{_name}_{_data}_config"] = f"{_name}_{_data}_config"

ERAS = {"LLM_Collaboration_with_MARL/configs": "", "experiments/configs": ".2025-08"}
"""Folders of configurations elsewhere, and the ending of the names of those that differed at that time."""

LISTING = "docs/configuration.md lists all"

logger = logging.getLogger(__name__)

ENVIRONMENTS = {
    "coop": "coophumaneval-v0",
    "humaneval": "humaneval-v0",
    "mbpp": "mbpp-v0",
    "classeval": "classeval-v0",
    "tldr": "tldr-v0",
    "arxiv": "arxiv-v0",
}
"""Parts of data sets' names, and the environments that they mean; the first that fits counts."""

CRITICS = (
    "a critic is set by algorithm.critic and the keys beside it, or comes with algorithm.name=iac, maac or coma; "
    "drop it"
)
SHIFTED = "rewards are used as they are: add what it takes off to thresholds, and drop it"
OWN_DEVICES = "use policies.<name>.device, or drop it"

OLDER_DEFAULTS = {"env.num_turns": 1, "model.temperature": 0.7, "model.top_p": 0.9}
"""Defaults of the replaced scripts, for files with an algorithm's section."""

GONE = {
    "reward_processor": SHIFTED,
    "tokenizer": "padding is no option any more; drop it",
    "model.type": "the tokenizer's own chat template is used; drop it",
    "model.max_length": "nothing ever read it; model.max_new_tokens bounds completions; drop it",
    "model.tokenizer_kwargs": "the tokenizer's own settings are used; drop it",
    "model.model_kwargs": "use model.compute_dtype for torch_dtype; code that comes with a model "
    "never runs here, so drop trust_remote_code",
    "model.special_tokens": "the tokenizer's own tokens are used; drop it",
    "agent_model": "use model, or policies for agents that differ, and drop it",
    "agents": "declare who has which model with team and policies, and drop it",
    "critic_model": CRITICS,
    "critics": CRITICS,
    "iac": CRITICS,
    "maac": CRITICS,
    "ac": CRITICS,
    "algorithm.critic_type": "a critic here is a value of states (v): with q, values of actions, the advantage "
    "r + discount V' - Q is 0 for every action once Q is exact, and learning ends; drop it, or use "
    "algorithm.name=coma",
    "algorithm.critic_devices": "a critic reads with the policies' own model; drop it",
    "algorithm.value_loss_coef": "a critic has an optimizer of its own: use algorithm.critic.learning_rate, "
    "or drop it",
    "algorithm.agent_devices": OWN_DEVICES,
    "algorithm.parallel_training": OWN_DEVICES,
    "algorithm.logging_steps": "every update is logged; drop it",
    "algorithm.save_steps": "use output.checkpoint_every instead, or drop it",
    "algorithm.beta": "nothing ever read it; use algorithm.kl.coefficient, or drop it",
    "algorithm.reward_shift": SHIFTED,
    "algorithm.termination_threshold": "use algorithm.rollout.early_termination_threshold, which is of "
    "rewards without a shift, or drop it",
    "algorithm.advantage_normalization": "use algorithm.normalize_advantages, which divides and does not "
    "centre again, or drop it",
    "algorithm.rollout_buffer_size": "an update takes algorithm.train_batch_size problems; drop it",
    **{
        f"{section}.train_batch_size": "an update takes algorithm.train_batch_size problems; drop it"
        for section in ALGORITHM_SECTIONS
    },
    "algorithm.eval_batch_size": "evaluations take as much at a time as updates; drop it",
    "external.external_prompt_passthrough": "later prompts are as external says; drop it",
    "output.verbose": "every episode is written to episodes.jsonl; drop it",
}
"""Keys of older files that have no meaning here, and the advice in their errors."""


def flat(config: Config) -> dict[str, Any]:
    """Return a configuration as earlier versions stored it: without sections in sections."""
    tree: dict[str, Any] = {}
    for key, name in FLAT_NAMES.items():
        section = "sampler" if key.startswith("inference.") else key.partition(".")[0]
        of_section = tree.setdefault(section, {}) if "." in key else tree
        of_section[FORMER.get(name, name)] = value_of(config, key)
    # Earlier versions had no `options`; an empty one must not look like a change.
    if not tree["algorithm"]["options"]:
        del tree["algorithm"]["options"]
    return tree


def canonical(tree: Mapping[str, Any], current: str | None = None) -> dict[str, Any]:
    """Translate a tree in any spelling to dotted keys; `current` is the algorithm that overrides are put above."""
    flat = dict(_flatten({k: v for k, v in tree.items() if k != "wandb"}))
    values: dict[str, Any] = {}
    problems: dict[str, None] = {}  # a set in order
    # Sections of algorithms come last, so that their sampling wins over that of `model`.
    for spelled in sorted(flat, key=_is_algorithm_key):
        key = renamed(spelled, flat[spelled])
        if key in KEYS or (key in OPTIONAL and flat[spelled] is None):
            values[key] = flat[spelled]
            if isinstance(values[key], str):
                values[key] = VALUES.get((key, values[key]), values[key])
        elif key not in DATASET_KEYS and not (key in ALGORITHM_SECTIONS and flat[key] is None):
            problems[_unknown_key(spelled, key)] = None
    if problems:
        raise ConfigError("; and ".join(problems))
    if tree.get("wandb") is not None:
        values["output.trackers"] = {
            "wandb": tree["wandb"],
            **(values.get("output.trackers") or {}),
        }
    datasets = [flat[key] for key in DATASET_KEYS if flat.get(key) is not None]
    if datasets:
        values.setdefault("env.id", environment_of(str(datasets[0])))
    return {**_algorithm(flat, values, current), **values}


def environment_of(dataset: str) -> str:
    """Return the environment that a data set's name or type means."""
    for part, env_id in ENVIRONMENTS.items():
        if part in dataset.lower():
            logger.info(
                "%r means %s with its own data; dataset.source takes others", dataset, env_id
            )
            return env_id
    raise ConfigError(
        f"there is no environment for the data set {dataset!r} yet: set env.id to an environment of "
        "`llm-decpomdp list`, such as coophumaneval-v0"
    )


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield leaves by dotted keys; a mapping that is a value, such as `model.lora`, is a leaf."""
    for name, value in tree.items():
        key = f"{prefix}{name}"
        here = renamed(key, None)
        if isinstance(value, Mapping) and here not in KEYS:
            if key in ALGORITHM_SECTIONS:
                yield key, None  # the section itself says something
            yield from _flatten(value, f"{key}.")
        elif value is not None or here in OPTIONAL or here not in SECTIONS:
            yield key, value


def _is_algorithm_key(spelled: str) -> bool:
    return spelled.partition(".")[0] in ALGORITHM_SECTIONS


def renamed(spelled: str, value: Any = "") -> str:
    """Return the key that an older spelling means, or that a bare value of a section sets; any other key stays."""
    section, _, rest = spelled.partition(".")
    if section in ALGORITHM_SECTIONS and rest and spelled not in GONE:
        spelled = SECTION_KEYS.get(rest, f"algorithm.{rest}")
    key = "inference" if spelled == "sampler" else ROOT_KEYS.get(spelled, spelled)
    if key in SECTIONS:
        return key if value is None else SWITCHES.get(key, key)
    return FLAT_KEYS.get(key, key)


def _algorithm(
    flat: Mapping[str, Any], values: Mapping[str, Any], current: str | None
) -> dict[str, Any]:
    """Return the values that the mere name of an algorithm's section sets."""
    sections = sorted({key.partition(".")[0] for key in flat if _is_algorithm_key(key)})
    # `mt_magrpo` beside `magrpo` is no contradiction: both are of one algorithm.
    names = {ALGORITHM_SECTIONS[section] for section in sections}
    if not names:
        return {}
    algorithm = values.get("algorithm.name", current) or ALGORITHM_SECTIONS[sections[0]]
    if names != {algorithm}:
        raise ConfigError(
            f"the section {' and '.join(map(repr, sections))} does not belong to the algorithm "
            f"{algorithm!r}; write algorithm.<key>, or set algorithm.name"
        )
    alone = {"env.num_agents": 1} if algorithm == "grpo" else {}
    grown = any(f"{section}.joint_mode" in flat for section in sections)  # where trees were grown
    plan = {"algorithm.rollout.mode": "tree"} if grown else {}
    return {"algorithm.name": algorithm, **alone, **plan}


def _unknown_key(spelled: str, key: str) -> str:
    for obsolete, advice in GONE.items():
        if key == obsolete or key.startswith(f"{obsolete}."):
            return f"unknown configuration key {(spelled if key == obsolete else obsolete)!r}: {advice}"
    section, _, name = key.rpartition(".")
    siblings = [candidate for candidate in KEYS if candidate.startswith(f"{section or key}.")]
    if siblings and not section:
        more = f" and {len(siblings) - LISTED} more ({LISTING})" if len(siblings) > LISTED else ""
        return f"{spelled!r} is a section: set {', '.join(siblings[:LISTED])}{more}"
    key_here = KEY_OF.get(name.lower())
    if key_here is not None:
        # In its own section where that has such a key: the lr of a critic is not that of the algorithm.
        there = f"{section}.{key_here.rpartition('.')[2]}"
        return f"unknown configuration key {spelled!r}; did you mean {(there if there in KEYS else key_here)!r}?"
    elsewhere = [candidate for candidate in KEYS if candidate.rpartition(".")[2] == name]
    near_section = get_close_matches(section, SECTIONS, n=1, cutoff=0.8)
    if near_section and f"{near_section[0]}.{name}" in elsewhere:  # such as algorithms.name
        elsewhere = [f"{near_section[0]}.{name}"]
    if elsewhere:
        # The outermost ones, such as algorithm.learning_rate before that of its critic.
        depth = min(candidate.count(".") for candidate in elsewhere)
        elsewhere = [candidate for candidate in elsewhere if candidate.count(".") == depth]
        return f"unknown configuration key {spelled!r}; did you mean {' or '.join(map(repr, elsewhere))}?"
    # Below 0.8, any two keys of a long section are alike.
    near = get_close_matches(key, [*KEYS, *FLAT_KEYS], n=1, cutoff=0.8)
    if near and siblings:  # a long section makes all of its KEYS alike: compare the last parts too
        near = [k for k in near if get_close_matches(name, [k.rpartition(".")[2]], cutoff=0.6)]
    if near and near[0] in FLAT_KEYS:
        return f"unknown configuration key {spelled!r}; did you mean {FLAT_KEYS[near[0]]!r}?"
    prefix = f"{spelled}: " if spelled != key else ""
    if not siblings:
        return prefix + unknown("configuration key", key, KEYS, LISTING)
    # All are alike with their section. Those of its own sections come later, and names repeat there.
    names = list(dict.fromkeys(candidate.rpartition(".")[2] for candidate in siblings))
    text = unknown("key", name, names, LISTING).removeprefix(f"unknown key {name!r}")
    text = text.replace("did you mean '", f"did you mean '{section}.")
    return f"{prefix}unknown configuration key {key!r}{text}"


_NAMES = {
    "seed": "random_seed",
    "env.id": "env_id env_name environment",
    "env.num_turns": "max_turns max_assistant_turns max_user_turns horizon max_episode_steps",
    "env.num_agents": "n_agents num_players",
    "env.discount": "gamma discount_factor",
    "env.reward": "reward_fn reward_funcs reward_function custom_reward_function",
    "model.name": "model_name_or_path model_path model_id pretrain base_model",
    "model.temperature": "temp sampling_temperature",
    "model.max_new_tokens": "max_tokens max_completion_length max_response_length response_length "
    "generate_max_len",
    "model.max_prompt_tokens": "max_prompt_length prompt_max_len",
    "model.stop": "stop_sequences stop_strings stop_words",
    "model.system_prompt": "system_message",
    "model.compute_dtype": "dtype torch_dtype precision bf16 fp16",
    "model.attn_implementation": "flash_attn attn_impl use_flash_attention_2",
    "model.lora": "lora_config peft_config use_peft lora_r lora_rank lora_alpha",
    "model.device": "device_map",
    "algorithm.name": "adv_estimator advantage_estimator algo",
    "algorithm.group_size": "n num_samples n_samples n_samples_per_prompt num_return_sequences "
    "samples_per_prompt num_rollouts rollouts_per_example",
    "algorithm.learning_rate": "lr actor_lr policy_lr actor_learning_rate step_size",
    "algorithm.critic.learning_rate": "critic_lr vf_lr value_lr",
    "algorithm.num_train_epochs": "epochs num_epochs total_epochs n_epochs max_epochs",
    "algorithm.max_updates": "max_steps total_steps total_training_steps num_updates total_updates "
    "training_iteration",
    "algorithm.num_iterations": "ppo_epochs num_ppo_epochs num_sgd_iter",
    "algorithm.train_batch_size": "batch_size rollout_batch_size per_device_train_batch_size "
    "train_batch_size_per_learner num_prompts prompts_per_batch micro_batch_size mini_batch_size minibatch_size "
    "ppo_mini_batch_size micro_train_batch_size sgd_minibatch_size gradient_accumulation_steps",
    "algorithm.kl.coefficient": "kl_coef kl_coeff init_kl_coef kl_loss_coef kl_beta kl_penalty_coef beta",
    "algorithm.objective.clip_range": "eps epsilon clip_eps eps_clip cliprange clip_ratio clip_param clip_epsilon "
    "epsilon_low clip_ratio_low",
    "algorithm.objective.clip_range_high": "epsilon_high clip_eps_high clip_ratio_high eps_clip_high",
    "algorithm.critic.td_lambda": "lam lambda lambda_ gae_lambda lambd",
    "algorithm.max_grad_norm": "grad_clip clip_grad clip_grad_norm grad_clip_norm max_norm",
    "algorithm.lr_schedule": "lr_scheduler lr_scheduler_type scheduler",
    "algorithm.warmup_updates": "warmup_steps lr_warmup_steps num_warmup_steps warmup_ratio",
    "algorithm.loss": "loss_type loss_agg_mode",
    "algorithm.normalize_advantages": "scale_rewards norm_adv_by_std_in_grpo whiten_advantages",
    "algorithm.truncation.mode": "mask_truncated_completions overlong_filter",
    "inference.engine": "use_vllm rollout_engine vllm_mode",
    "cluster.rollout_workers": "num_workers num_env_runners num_rollout_workers",
    "evaluation.every": "eval_steps eval_freq eval_every evaluation_interval test_freq",
    "output.checkpoint_every": "save_steps save_freq save_interval checkpoint_freq",
    "output.keep_checkpoints": "save_total_limit max_ckpt_num",
    "output.base_dir": "output_dir save_dir default_local_dir storage_path log_dir",
    "output.name": "run_name experiment_name exp_name",
    "output.trackers": "report_to logger loggers",
}

KEY_OF = {name: key for key, names in _NAMES.items() for name in names.split()}
