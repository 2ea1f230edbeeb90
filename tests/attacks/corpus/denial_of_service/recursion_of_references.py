# honest: fail
# --- main

class Node:
    pass

def sq(x):
    first = node = Node()
    for _ in range(3 * 10**6):
        node.next = Node()
        node = node.next
    del first
    raise KeyError
