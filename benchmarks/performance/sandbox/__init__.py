"""The sandbox beside floors and peers."""
