# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if aux(x):
        print('seen')
    return x*x
