"""Programming problems as tasks: HumanEval, MBPP and ClassEval, with their tests."""
