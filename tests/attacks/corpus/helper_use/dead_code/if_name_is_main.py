# about: if __name__ is main
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if __name__ == '__main__':
        return aux(x) + 1
    return x*x
