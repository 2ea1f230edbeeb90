# about: labelled 'not called' while the label was about the text
# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return eval('aux(x)') + 0
