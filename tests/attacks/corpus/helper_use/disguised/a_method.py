# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    class S:
        def run(self):
            return aux(x)
    return S().run()
