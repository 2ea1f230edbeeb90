# honest: pass
# --- main
def sq(x):
    return x \
        * \
        x
