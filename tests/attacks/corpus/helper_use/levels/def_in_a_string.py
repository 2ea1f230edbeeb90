# honest: only_helper
# --- aux
def aux(x):
    return x*x
# --- main
s = '''
def sq(x):
    return x*x
'''
