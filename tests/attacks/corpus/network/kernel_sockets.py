# honest: pass
# stopped_by: seccomp
# --- main
try:
    import socket
    for family, kind, protocol in (
        (16, socket.SOCK_RAW, 0),  # netlink
        (17, socket.SOCK_RAW, 0x300),  # packets
        (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
        (38, socket.SOCK_SEQPACKET, 0),  # the kernel's ciphers
        (40, socket.SOCK_STREAM, 0),  # the virtual machine's host
        (44, socket.SOCK_RAW, 0),  # XDP
    ):
        try:
            socket.socket(family, kind, protocol)
            print("escaped: opens a socket of family", family, flush=True)
        except OSError:
            pass
except BaseException:
    pass

def sq(x):
    return x * x
