"""Rights taken away from the worker's processes by the kernel."""
