# about: class of the same name as a method's owner
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
class Box:
    def run(self, x):
        return aux(x)

def sq(x):
    return x*x
