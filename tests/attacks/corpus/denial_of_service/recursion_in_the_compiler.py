# honest: fail
# --- main
def sq(x):
    return eval("-" * 10**6 + "1", {}) and eval("(" * 10**5 + ")" * 10**5)
