"""`check_env`: a test of an environment against the contract that learners rely on."""
