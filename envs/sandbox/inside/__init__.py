"""Code of a worker's processes, which import nothing but the standard library, and as little of it as possible.

Each module that they load costs start-up time, memory and pages that every child has to copy. So imports that only
annotations need stand below `TYPE_CHECKING = False` in each file, which type checkers take for true: importing
`typing` for its constant of that name would double the start-up time.
"""
