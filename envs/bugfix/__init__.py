"""Bug fixing: several agents mend the functions of one program."""
