# honest: any
# stopped_by: landlock, namespaces, seccomp
# --- main
try:
    needle = b"memory of the victim"
    regions = []
    for line in open("/proc/@PID@/maps"):
        place, rights, *_ = line.split()
        if rights.startswith("rw"):
            start, end = (int(part, 16) for part in place.split("-"))
            regions.append((start, min(end - start, 2**24)))

    with open("/proc/@PID@/mem", "r+b", 0) as memory:
        for start, size in regions:
            memory.seek(start)
            data = memory.read(size)
            at = data.find(needle)
            while at >= 0:
                memory.seek(start + at)
                memory.write(b"MEMORY OF THE VICTIM")
                at = data.find(needle, at + 1)
except BaseException:
    pass

def sq(x):
    return x * x
