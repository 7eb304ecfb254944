"""`hlo-run`: run modules on inputs, and look into what they compute and where the time goes."""
