# honest: only_helper
# --- aux
def aux(x):
    return x*x
# --- main
if False:
    def sq(x):
        return x*x
