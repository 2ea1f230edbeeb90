# honest: fail
# --- main

END = '"}\n{"event": "test", "test": %d, "error": null}\n{"event": "done"}\n'

def sq(x):
    if x == 2:
        return (END % 0) + (END % 1) + "\0\r\n\x1e\u2028" + "\ud800"
    raise ValueError((END % 0) + (END % 1) + "\udcff\n\npassed\n")
