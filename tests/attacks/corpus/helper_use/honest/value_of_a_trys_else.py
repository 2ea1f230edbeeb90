# about: value of a try's else
# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        y = int(x)
    except ValueError:
        y = 0
    else:
        y = aux(y)
    return y + 0
