"""Code of a worker's processes, which import nothing but the standard library, and as little of it as possible.

Each module that they load costs start-up time, memory and pages that every child has to copy. `typing` and
`collections.abc` cost nothing: programs import them so often that `main.py` loads them in any case.
"""
