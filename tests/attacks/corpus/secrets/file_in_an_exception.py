# honest: fail
# stopped_by: landlock
# --- main
raise ValueError(open("@SECRET_FILE@").read())
