"""Who earned the reward, with whom, and whether it still holds; docs/cooperation.md."""
