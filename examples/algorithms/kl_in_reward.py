"""MAGRPO with the KL divergence from the reference as a penalty in the reward of each token.

    A_gt = A_g - beta sum_{s >= t} log(pi_old(y_gs) / reference(y_gs))

llm-decpomdp train --config demo --override algorithm.name=examples.algorithms.kl_in_reward:KL_IN_REWARD
"""

from dataclasses import replace

from llm_decpomdp.algorithms import BASELINES, Algorithm
from llm_decpomdp.options import Options, option


class KLOptions(Options):
    beta: float = option(0.05, ge=0)
    """Weight of the divergence."""


class KLInReward(Algorithm):
    Options = KLOptions

    def needs_reference(self, options):
        return True

    def loss(self, inputs):
        difference = inputs.old_log_probs - inputs.reference_log_probs
        difference = difference.masked_fill(inputs.mask == 0, 0.0)  # padding may have any value
        to_come = difference.flip(-1).cumsum(-1).flip(-1)
        advantages = inputs.advantages.unsqueeze(-1) - self.options.beta * to_come
        outputs = super().loss(replace(inputs, advantages=advantages))
        return replace(outputs, metrics={**outputs.metrics, "kl_penalty": to_come})


KL_IN_REWARD = KLInReward("kl-in-reward", baseline=BASELINES["mean"])
