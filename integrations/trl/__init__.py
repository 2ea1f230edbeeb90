"""TRL: environments of teams as data sets, rewards and rollouts of its `GRPOTrainer`.

| function       | trained agents                                       | turns |
|----------------|------------------------------------------------------|-------|
| `seat_reward`  | one agent, with fixed partners                        | 1     |
| `team_reward`  | all agents, with shared weights                       | 1     |
| `rollout_func` | all agents without a partner, with shared weights     | any   |
| `lockstep`     | all agents, each with separate weights and trainer    | 1     |

TRL takes functions and a data set, so this package does not import it.
"""

from llm_decpomdp.integrations.trl.lockstep import lockstep
from llm_decpomdp.integrations.trl.rewards import dataset, seat_reward, team_reward
from llm_decpomdp.integrations.trl.rollout import rollout_func, rollout_reward

__all__ = ["dataset", "lockstep", "rollout_func", "rollout_reward", "seat_reward", "team_reward"]
