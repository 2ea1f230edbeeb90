"""Speed and costs of the sandbox, beside floors and peers."""
