# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return (lambda y, z: z)(aux(x), x*x)
