"""Rollout workers: sampling of the starts of an update in this process, in others, with Ray, or at servers."""
