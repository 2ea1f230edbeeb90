# about: labelled 'used' while the label was about the text
# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    import heapq
    return heapq.nlargest(1, [x], key=aux)[0] * x
