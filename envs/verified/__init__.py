"""Verified answers: a solver answers questions of reasoning-gym, and a verifier judges the answers."""
