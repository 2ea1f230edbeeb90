# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
```python
def sq(x):
    return aux(x) + 0
```
or
```python
def sq(x):
    # the plain way, without help
    return x*x
```
