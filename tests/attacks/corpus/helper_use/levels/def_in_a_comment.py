# honest: only_helper
# --- aux
def aux(x):
    return x*x
# --- main
# def sq(x):
#     return x*x
