"""Language models in memory and on disk, as policies."""
