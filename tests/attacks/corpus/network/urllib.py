# honest: any
# stopped_by: namespaces, seccomp
# --- main
try:
    import urllib.request
    urllib.request.urlopen("http://127.0.0.1:@TCP_PORT@/?secret=1", timeout=0.2).read()
except BaseException:
    pass

def sq(x):
    return x * x
