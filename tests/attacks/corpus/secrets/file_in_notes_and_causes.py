# honest: fail
# stopped_by: landlock
# --- main

def sq(x):
    try:
        raise KeyError(open("@SECRET_FILE@").read())
    except KeyError as error:
        raise ExceptionGroup(str(error), [error]) from error
