# honest: fail
# --- main

import codecs, sys

def forged(error):
    return ('{"event": "test", "test": 0, "error": null}\n', error.end)

for name in ("strict", "replace", "ignore", "backslashreplace", "surrogateescape"):
    codecs.register_error(name, forged)
codecs.register(lambda name: codecs.CodecInfo(lambda *rest: (b"true", 4), lambda *rest: ("true", 4),
                                              name=name))

def sq(x):
    sys.stdout.buffer.write(b"\xff\xfe\n")
    return "\udcff\ud800"
