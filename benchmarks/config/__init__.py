"""Configurations: from YAML files and overrides to checked values."""
