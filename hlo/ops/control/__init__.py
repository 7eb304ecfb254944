"""Control flow and structure: calls, loops, tuples, tokens, parameters, constants."""
