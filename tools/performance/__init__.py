"""Speed and memory of the parts, beside floors and peers measured in the same run."""
