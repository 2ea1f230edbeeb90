"""What runs in a worker's processes: nothing but the standard library, and as little of it as possible."""
