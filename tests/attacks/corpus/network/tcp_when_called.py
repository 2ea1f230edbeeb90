# honest: any
# stopped_by: namespaces, seccomp
# --- main
def sq(x):
    try:
        import socket
        socket.create_connection(("localhost", @TCP_PORT@), 1)
    except BaseException:
        pass
    return x * x
