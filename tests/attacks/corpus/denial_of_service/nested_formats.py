# honest: fail
# --- main
x = @200 TIMES 'f"{'@
def sq(x):
    return x * x
