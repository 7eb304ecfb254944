"""Where time and memory go: profiles of runs and compilations, live buffers, measurements."""
