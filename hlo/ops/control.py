"""Control flow: call, fusion, while, conditional."""
