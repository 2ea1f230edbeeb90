# about: if __name__
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return x*x

if __name__ == '__main__':
    print(aux(2))
