"""Python programs as text: parsing, completions of agents, functions, classes and mutation."""
