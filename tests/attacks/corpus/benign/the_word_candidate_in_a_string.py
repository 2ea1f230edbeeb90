# honest: pass
# --- test
def check(candidate):
    assert candidate("the candidate won") == ["the", "candidate", "won"]
    assert candidate("candidate(2) == 4")[-1] == "4"
# --- main
def sq(text):
    return text.split()
