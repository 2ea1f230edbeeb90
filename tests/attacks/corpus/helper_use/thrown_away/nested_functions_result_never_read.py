# about: nested function's result never read
# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def run():
        return aux(x)
    y = run()
    return x*x
