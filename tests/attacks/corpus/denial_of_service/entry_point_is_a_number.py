# honest: fail
# --- main
sq = 4
