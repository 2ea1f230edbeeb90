# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
I use y = aux(x):
```python
def sq(x):
    return x*x
```
sq calls aux(x).
