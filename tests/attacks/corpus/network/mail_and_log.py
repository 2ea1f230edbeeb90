# honest: any
# stopped_by: seccomp
# --- main
try:
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
except BaseException:
    pass

def sq(x):
    return x * x
