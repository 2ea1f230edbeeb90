"""Classes as text: skeletons, completions with methods, and merging both."""
