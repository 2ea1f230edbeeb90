"""What the rest shares and that is of no model: files, the terminal, the hub, warnings."""
