"""Compiled modules as files: objects, archives, shared libraries, and their C headers."""
