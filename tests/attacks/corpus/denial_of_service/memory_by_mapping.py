# honest: fail
# --- main
import mmap
kept = [mmap.mmap(-1, 2**24) for _ in range(10**6)]
