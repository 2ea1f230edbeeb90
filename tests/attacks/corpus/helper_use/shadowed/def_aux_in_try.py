# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
try:
    aux
finally:
    def aux(x):
        return x*x
def sq(x):
    return aux(x) + 0
