# honest: fail
# --- main

import gzip

def sq(x):
    return len(gzip.decompress(gzip.compress(bytes(2**20)) * 5000))
