# honest: fail
# --- main
import threading

lock = threading.Lock()
lock.acquire()

def sq(x):
    lock.acquire()
