# honest: fail
# --- main

import signal

for number in range(1, 65):
    try:
        signal.signal(number, lambda *arguments: None)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
signal.setitimer(signal.ITIMER_REAL, 0)

def sq(x):
    while True:
        pass
