"""Structure: tuples, tokens, barriers, domains."""
