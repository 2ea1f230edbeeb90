# honest: fail
# --- main
def sq(x):
    raise type('X' * 10**7, (Exception,), {})
