# honest: any
# --- main
@20000 TIMES 'def f{n}(): pass\n'@def sq(x):
    return x * x
