# honest: only_helper
# --- aux
def aux(x):
    return x*x
# --- main
class S:
    def sq(self, x):
        return x*x
