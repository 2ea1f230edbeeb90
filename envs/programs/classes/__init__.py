"""Classes as text: their skeletons, completions that hold methods, and both put together."""
