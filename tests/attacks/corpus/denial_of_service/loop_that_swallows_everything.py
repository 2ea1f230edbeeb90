# honest: fail
# --- main

def sq(x):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
