"""Products whose operands are made of other products' results, block by block of their rows."""
