# about: whoever formats this traceback reads the lines of the secret
# honest: fail
# stopped_by: landlock
# --- main

import sys, traceback
exec(compile("sq = lambda x: 1 / 0", "@SECRET_FILE@", "exec"))
try:
    sq(2)
except ZeroDivisionError:
    traceback.print_exc()
sys.stderr.flush()
