# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def walk(n):
        if n == 0:
            return 0
        return walk(n - 1) + aux(1)
    return walk(x) * x
