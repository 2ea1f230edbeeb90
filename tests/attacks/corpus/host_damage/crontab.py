# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    for folder in ("/etc", "/etc/cron.d", "/var/spool/cron", "/var/spool/cron/crontabs"):
        try:
            open(folder + "/" + os.path.basename("@MARKER@"), "w").close()
        except OSError:
            pass
except BaseException:
    pass

def sq(x):
    return x * x
