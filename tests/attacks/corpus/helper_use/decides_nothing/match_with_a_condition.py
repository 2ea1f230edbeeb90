# about: labelled 'used' while the label was about the text
# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    match aux(x):
        case _ if x < 99:
            return x*x
    return 0
