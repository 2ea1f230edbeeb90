# honest: pass
# --- main
def sq(x):
	if x:
		return x*x
	return 0
