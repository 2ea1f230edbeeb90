# honest: pass
# --- main
def sq(x):@1 TIMES '\r'@
    y = x@1 TIMES '\r'@
    return x*y@1 TIMES '\r'@
