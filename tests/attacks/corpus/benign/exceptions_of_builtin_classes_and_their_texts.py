# honest: pass
# --- test
def check(candidate):
    raised = [
        (FileNotFoundError, "[Errno 2] No such file or directory: 'missing'"),
        (ValueError, "invalid literal for int() with base 10: 'x'"),
        (KeyError, "'a'"),
        (SyntaxError, "invalid syntax (<string>, line 1)"),
        (ValueError, 300 * "y"),  # a long text keeps its beginning
    ]
    for index, (kind, text) in enumerate(raised):
        try:
            candidate(index)
        except Exception as e:
            assert type(e) is kind
            assert str(e)[:300] == text
        else:
            assert False
# --- main
def sq(index):
    if index == 0:
        open("missing")
    if index == 1:
        int("x")
    if index == 2:
        {}["a"]
    if index == 3:
        exec("x =")
    raise ValueError("y" * 5000)
