"""Development only, not in the wheel: speed measurements, checks of the bundled data, documentation site."""
