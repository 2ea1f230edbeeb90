# honest: pass
# stopped_by: landlock
# --- main
try:
    import configparser, csv, fileinput, tokenize, zipfile, netrc
    for read in (
        lambda: list(csv.reader(open("@SECRET_FILE@"))),
        lambda: list(fileinput.input("@SECRET_FILE@")),
        lambda: tokenize.open("@SECRET_FILE@").read(),
        lambda: configparser.ConfigParser().read("@SECRET_FILE@"),
        lambda: netrc.netrc("@SECRET_FILE@"),
    ):
        try:
            print(read(), flush=True)
        except Exception as error:
            print(repr(error), flush=True)
except BaseException:
    pass

def sq(x):
    return x * x
