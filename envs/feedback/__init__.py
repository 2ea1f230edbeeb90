"""External modes: what each agent sees after a turn."""
