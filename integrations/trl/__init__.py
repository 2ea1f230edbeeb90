"""TRL: environments of teams as data sets, rewards and rollouts of its `GRPOTrainer`.

| function       | who learns                                                | turns |
|----------------|-----------------------------------------------------------|-------|
| `seat_reward`  | one agent; its partners stay as they are                   | 1     |
| `team_reward`  | all agents, with one set of weights                        | 1     |
| `rollout_func` | all agents without a partner, with one set of weights      | any   |
| `lockstep`     | all agents, each with weights and a trainer of its own     | 1     |

TRL takes functions and a data set, so nothing of it is imported here.
"""

from llm_decpomdp.integrations.trl.lockstep import lockstep
from llm_decpomdp.integrations.trl.rewards import dataset, seat_reward, team_reward
from llm_decpomdp.integrations.trl.rollout import rollout_func, rollout_reward

__all__ = ["dataset", "lockstep", "rollout_func", "rollout_reward", "seat_reward", "team_reward"]
