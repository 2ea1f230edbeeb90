"""The training loop of a run: batches, evaluations, checkpoints and logs."""
