"""Traffic with the host: infeed, outfeed, send, recv."""
