# about: labelled 'used' while the label was about the text
# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if aux(x) == 4:
        return 4
    return x*x
