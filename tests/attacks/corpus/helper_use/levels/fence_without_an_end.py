# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
```python
def sq(x):
    return x*x
# aux(x)
