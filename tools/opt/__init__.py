"""`hlo-opt`: verify modules, run passes on them, print them, and report on them."""
