"""Plans: what a run needs in memory and in seconds on given devices, by arithmetic, before it starts."""
