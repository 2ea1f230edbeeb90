# about: nested function's result thrown away
# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def run():
        return aux(x)
    run()
    return x*x
