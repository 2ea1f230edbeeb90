"""How fast the parts are, beside floors and peers measured in the same run."""
