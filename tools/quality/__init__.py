"""Quality of the problems that come with the package, for its developers; docs/data.md and docs/writing.md."""
