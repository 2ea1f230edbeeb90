# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        return x*x
    finally:
        aux(x)
