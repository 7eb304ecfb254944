"""Changes of distribution: the cheapest sequence of collectives from one spec to another one."""
