# honest: only_helper
# --- aux
def aux(x):
    return x*x
# --- main
class sq:
    pass
