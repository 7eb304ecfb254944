"""Compiled modules as files: objects, archives, shared libraries, and the C headers to them."""
