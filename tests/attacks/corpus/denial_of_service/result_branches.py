# honest: fail
# --- main

def sq(x):
    tree = []
    for _ in range(60):
        tree = [tree, tree]
    return tree
