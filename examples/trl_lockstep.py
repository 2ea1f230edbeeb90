"""Two agents learn in TRL at the same time, each with weights and a GRPOTrainer of its own.

pip install '.[train,trl]'; then: python examples/trl_lockstep.py
"""

from functools import partial
from tempfile import mkdtemp

from trl import GRPOConfig, GRPOTrainer

import llm_decpomdp
from llm_decpomdp.agents import tiny_causal_lm
from llm_decpomdp.integrations import trl

# Trainers in lockstep need the same rows at the same time: equal batches, in the order of the data set.
BATCH = {"per_device_train_batch_size": 16, "num_generations": 16, "shuffle_dataset": False}
LENGTH = {"max_steps": 60, "max_completion_length": 2}
STEP = {"learning_rate": 4e-3, "lr_scheduler_type": "constant", "max_grad_norm": 0.3}
CPU = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False}
QUIET = {"report_to": [], "save_strategy": "no", "logging_steps": 10, "disable_tqdm": True}


def trainer(seed, reward, rows):
    model = tiny_causal_lm("abc", seed=seed)
    model.tokenizer.padding_side = "left"
    options = {**BATCH, **LENGTH, **STEP, **CPU, **QUIET, "scale_rewards": "none", "top_k": 0}
    args = GRPOConfig(mkdtemp(), **options)
    return GRPOTrainer(model.model, reward, args, rows, processing_class=model.tokenizer)


env = llm_decpomdp.make("probe-rendezvous-v0")
builders = {agent: partial(trainer, seed) for seed, agent in enumerate(env.possible_agents)}
for agent, trained in trl.lockstep(env, builders).items():
    print(agent, [round(row["reward"], 2) for row in trained.state.log_history if "reward" in row])
