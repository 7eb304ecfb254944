"""JAX runs on it: a plug-in for PJRT, the interface between JAX and what runs its programs."""
