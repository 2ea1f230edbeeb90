"""What works on this machine, and how to get the rest."""
