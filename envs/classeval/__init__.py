"""ClassEval: several agents write the methods of one class."""
