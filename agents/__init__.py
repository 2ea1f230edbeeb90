"""Policies: text in, completions out. The modules that need torch load it when they are imported.

- `scripted`: policies without a model.
- `causal_lm`: a transformers language model that samples and can be trained.
- `loading`: a policy by the name of its model.
"""
