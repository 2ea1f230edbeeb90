# about: labelled 'not called' while the label was about the text
# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    exec('y = aux(x)')
    return x*x
