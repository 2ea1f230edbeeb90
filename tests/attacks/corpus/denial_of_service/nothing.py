# honest: fail
# --- main
