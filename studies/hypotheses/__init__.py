"""Claims about learning in teams, each declared before it is measured: `llm-decpomdp bench science`."""
