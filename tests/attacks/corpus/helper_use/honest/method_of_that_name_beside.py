# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
class Box:
    def aux(self):
        return 0

def sq(x):
    return aux(x) + Box().aux()
