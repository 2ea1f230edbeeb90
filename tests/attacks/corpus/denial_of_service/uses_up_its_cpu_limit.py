# honest: any
# --- main
import resource
resource.setrlimit(resource.RLIMIT_CPU, (0, 1))
while 1: 0
