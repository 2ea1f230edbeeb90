"""Building families: words of block letters, and houses, that a team can only build together."""
