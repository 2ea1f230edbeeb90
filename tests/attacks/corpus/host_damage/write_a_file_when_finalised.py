# honest: pass
# stopped_by: landlock, seccomp
# --- main

class Last:
    def __del__(self):
        import pathlib
        pathlib.Path("@MARKER@").touch()

    def __init__(self):
        self.me = self

def leave():
    import pathlib
    pathlib.Path("@MARKER@").touch()

import atexit
atexit.register(leave)
Last()

def sq(x):
    return x * x
