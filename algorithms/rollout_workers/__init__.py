"""Who plays the starts of an update, and where: batches, and the crews that play them."""
