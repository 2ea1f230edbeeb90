"""Who plays the starts of an update, and where: bundles, and the crews that play them."""
