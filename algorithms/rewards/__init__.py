"""Reward models: scores of joint samples, learned from preferences."""
