"""Who plays the starts of an update, and where: batches, and the rollout workers that play them."""
