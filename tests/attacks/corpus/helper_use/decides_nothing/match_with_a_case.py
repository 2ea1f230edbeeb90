# about: labelled 'used' while the label was about the text
# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    match aux(x):
        case 4:
            return 4
        case _:
            return x*x
