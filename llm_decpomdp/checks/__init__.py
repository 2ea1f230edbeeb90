"""`check_env`: whether an environment keeps what it promises, tried out."""
