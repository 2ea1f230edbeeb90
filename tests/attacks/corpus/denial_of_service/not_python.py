# honest: fail
# --- main
@1 TIMES '\x1b'@[2J@1 TIMES '\x07'@ ((( @1 TIMES '\u202e'@
