"""Confinement of a worker's processes by the kernel: namespaces, Landlock, seccomp."""
