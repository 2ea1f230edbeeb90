# honest: fail
# --- main

import os

parent = os.open(".", os.O_RDONLY)
for _ in range(240):
    os.mkdir("d", dir_fd=parent)
    inner = os.open("d", os.O_RDONLY, dir_fd=parent)
    os.close(parent)
    parent = inner
os._exit(3)

def sq(x):
    return x * x
