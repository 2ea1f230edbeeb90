"""Claims about learning in teams, each declared before it is measured: `python -m studies.hypotheses`."""
