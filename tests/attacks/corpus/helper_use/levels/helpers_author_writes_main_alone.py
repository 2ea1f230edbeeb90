# about: helper's author writes main alone
# honest: nothing
# --- aux
def sq(x):
    return x*x
# --- main
x = 1
