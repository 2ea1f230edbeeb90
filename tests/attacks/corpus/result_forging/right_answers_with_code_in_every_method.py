# honest: pass
# stopped_by: landlock
# --- main

def trap(self, *rest):
    open("@MARKER@", "w").close()
    raise SystemExit("passed")

class Trap(int):
    for name in ("repr", "str", "format", "reduce", "reduce_ex", "hash", "index", "int", "float", "bool",
                 "eq", "ne", "lt", "ceil", "abs", "sizeof", "dir", "getstate", "getnewargs"):
        locals()["__" + name + "__"] = trap

def sq(x):
    return Trap(x * x)
