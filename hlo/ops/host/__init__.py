"""Custom calls, and exchange with the host."""
