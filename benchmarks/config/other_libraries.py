"""Names of options in TRL, verl, OpenRLHF, RLlib and transformers, and the keys of the same options here."""

from __future__ import annotations

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
"""Keys by names without their sections."""
