"""Messages and values between the processes of a worker."""
