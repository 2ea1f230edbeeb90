"""Partner pools on `compose-v0`."""
