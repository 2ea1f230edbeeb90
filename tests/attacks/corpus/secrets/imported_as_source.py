# honest: fail
# stopped_by: landlock
# --- main

from importlib.machinery import SourceFileLoader

def sq(x):
    return SourceFileLoader("secret", "@SECRET_FILE@").load_module()
