"""Models behind a server, as policies that never learn."""
