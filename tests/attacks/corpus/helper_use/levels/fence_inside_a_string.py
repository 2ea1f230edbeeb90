# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    s = '''
```python
def sq(x):
    return aux(x) + 0
```
'''
    return x*x
