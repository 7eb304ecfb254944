"""What instructions compute while a program runs: traces, and the first NaN or infinity."""
