# honest: any
# --- main
try:
    import socket, threading
    def ask():
        socket.getaddrinfo("example.invalid", 80)
        socket.gethostbyname("localhost")
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(0.2)
except BaseException:
    pass

def sq(x):
    return x * x
