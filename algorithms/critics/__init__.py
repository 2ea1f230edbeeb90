"""Critics: values of states, from the texts of a state and of all agents' histories."""
