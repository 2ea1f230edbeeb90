# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
class Stack:
    def __init__(self):
        self.items = []
    def put(self, item):
        self.items.append(item)

def sq(x):
    stack = Stack()
    stack.put(aux(x))
    return stack.items[0]
