"""Generated pages of the documentation site: `make docs`."""
