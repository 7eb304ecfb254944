"""Devices in many processes, which communicate by MPI: see docs/mpi.md."""
