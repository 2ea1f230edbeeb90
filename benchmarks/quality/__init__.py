"""How good the problems that come with the package are; docs/data.md and docs/writing.md."""
