"""Cost, statistics and drawings of modules and layouts."""
