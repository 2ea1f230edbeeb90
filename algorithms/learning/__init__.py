"""From rollouts to gradient steps: returns, baselines, advantages, losses, optimizer."""
