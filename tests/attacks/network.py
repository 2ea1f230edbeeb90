"""Programs that try to talk to somebody."""

from __future__ import annotations

from tests.attacks.entry import Attack
from tests.attacks.parts import BOAST, calling, loading, system

CATEGORY = "network"
FILTER = frozenset({"seccomp"})
INTERNET = frozenset({"seccomp", "namespaces"})

NETWORK: tuple[Attack, ...] = (
    Attack(
        "tcp",
        CATEGORY,
        loading("""
            import socket
            socket.create_connection(("127.0.0.1", @TCP_PORT@), 1).sendall(b"hello")
        """),
        "pass",
        stopped_by=INTERNET,
    ),
    Attack(
        "tcp_when_called",
        CATEGORY,
        calling("""
            import socket
            socket.create_connection(("localhost", @TCP_PORT@), 1)
        """),
        "any",
        stopped_by=INTERNET,
    ),
    Attack(
        "tcp_without_connect",
        CATEGORY,
        loading("""
            import socket
            own = socket.socket()
            own.sendto(b"hello", 0x20000000, ("127.0.0.1", @TCP_PORT@))  # MSG_FASTOPEN
        """),
        "pass",
        stopped_by=INTERNET,
    ),
    Attack(
        "multipath_tcp",
        CATEGORY,
        loading("""
            import socket
            own = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
            own.connect(("127.0.0.1", @TCP_PORT@))
        """),
        "pass",
        stopped_by=INTERNET,
    ),
    Attack(
        "udp",
        CATEGORY,
        loading("""
            import socket
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"hello", ("127.0.0.1", @UDP_PORT@))
        """),
        "pass",
        stopped_by=INTERNET,
    ),
    Attack(
        "udp_lite_and_version_6",
        CATEGORY,
        loading("""
            import socket
            for family, host in ((socket.AF_INET6, "::ffff:127.0.0.1"), (socket.AF_INET, "0.0.0.0")):
                own = socket.socket(family, socket.SOCK_DGRAM)
                own.connect((host, @UDP_PORT@))
                own.send(b"hello")
        """),
        "pass",
        stopped_by=INTERNET,
    ),
    Attack(
        "unix_stream",
        CATEGORY,
        loading("""
            import socket
            own = socket.socket(socket.AF_UNIX)
            own.settimeout(1)
            own.connect("@UNIX_SOCKET@")
            own.sendall(b"hello")
        """),
        "pass",
        stopped_by=FILTER,
    ),
    Attack(
        "unix_datagram",
        CATEGORY,
        calling("""
            import socket
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"hello", "@UNIX_SOCKET@.datagram")
        """),
        "pass",
        stopped_by=FILTER,
    ),
    Attack(
        "unix_abstract",
        CATEGORY,
        loading("""
            import socket
            own = socket.socket(socket.AF_UNIX)
            own.settimeout(1)
            own.connect("\\0@UNIX_SOCKET@")
        """),
        "pass",
        stopped_by=INTERNET,
    ),
    Attack(
        "pair_that_sends_elsewhere",
        CATEGORY,
        loading("""
            import socket
            one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            for address in ("@UNIX_SOCKET@.datagram", "\\0@UNIX_SOCKET@.datagram"):
                for send in (
                    lambda: one.sendto(b"hello", address),
                    lambda: one.sendmsg([b"hello"], [], 0, address),
                    lambda: one.connect(address),
                    lambda: one.send(b"hello"),
                ):
                    try:
                        send()
                    except OSError:
                        pass
        """),
        "pass",
        stopped_by=FILTER,
    ),
    Attack(
        "pair_reconnected",
        CATEGORY,
        system("""
            import socket
            one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            address = b"\\x01\\0@UNIX_SOCKET@.datagram\\0"
            libc.connect(one.fileno(), address, len(address))
            libc.send(one.fileno(), b"hello", 5, 0)
            libc.sendto(one.fileno(), b"hello", 5, 0, address, len(address))
            libc.write(one.fileno(), b"hello", 5)
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "ctypes_connect",
        CATEGORY,
        system("""
            import struct
            address = struct.pack("=H", 2) + struct.pack("!H4s8x", @TCP_PORT@, bytes((127, 0, 0, 1)))
            own = libc.socket(2, 1, 0)
            libc.connect(own, address, len(address))
            libc.send(own, b"hello", 5, 0)
        """),
        "any",
        stopped_by=INTERNET,
    ),
    Attack(
        "inherited_sockets",
        CATEGORY,
        system("""
            import struct
            address = struct.pack("=H", 2) + struct.pack("!H4s8x", @TCP_PORT@, bytes((127, 0, 0, 1)))
            path = b"\\x01\\0@UNIX_SOCKET@\\0"
            for descriptor in range(64):
                libc.connect(descriptor, address, len(address))
                libc.connect(descriptor, path, len(path))
        """),
        "any",
        stopped_by=FILTER,
    ),
    Attack(
        "urllib",
        CATEGORY,
        loading("""
            import urllib.request
            urllib.request.urlopen("http://127.0.0.1:@TCP_PORT@/?secret=1", timeout=0.2).read()
        """),
        "any",
        stopped_by=INTERNET,
    ),
    Attack(
        "asyncio_connection",
        CATEGORY,
        loading("""
            import asyncio
            async def talk():
                await asyncio.wait_for(asyncio.open_connection("127.0.0.1", @TCP_PORT@), 0.3)
            asyncio.run(talk())
        """),
        "any",
        stopped_by=INTERNET,
    ),
    Attack(
        "names_of_hosts",
        CATEGORY,
        loading("""
            import socket, threading
            def ask():
                socket.getaddrinfo("example.invalid", 80)
                socket.gethostbyname("localhost")
            thread = threading.Thread(target=ask, daemon=True)
            thread.start()
            thread.join(0.2)
        """),
        "any",
    ),
    Attack(
        "servers",
        CATEGORY,
        loading(f"""
            import socket
            for family, kind in ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET6, socket.SOCK_DGRAM)):
                try:
                    own = socket.socket(family, kind)
                    own.bind(("", 0))
                    socket._keep = own
                    print("{BOAST}binds a port", flush=True)
                except OSError:
                    pass
        """),
        "pass",
        stopped_by=FILTER,
    ),
    Attack(
        "kernel_sockets",
        CATEGORY,
        loading(f"""
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
                    print("{BOAST}opens a socket of family", family, flush=True)
                except OSError:
                    pass
        """),
        "pass",
        stopped_by=FILTER,
    ),
    Attack(
        "mail_and_log",
        CATEGORY,
        loading("""
            import logging.handlers, smtplib
            for talk in (
                lambda: smtplib.SMTP("127.0.0.1", @TCP_PORT@, timeout=0.2),
                lambda: logging.handlers.SysLogHandler("@UNIX_SOCKET@.datagram").emit(
                    logging.makeLogRecord({"msg": "hello"})
                ),
                lambda: logging.handlers.SysLogHandler(("127.0.0.1", @UDP_PORT@)).emit(
                    logging.makeLogRecord({"msg": "hello"})
                ),
            ):
                try:
                    talk()
                except Exception:
                    pass
        """),
        "any",
        stopped_by=FILTER,
    ),
)
