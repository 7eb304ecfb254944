"""Programs for GPUs: launch plans, and the devices that run them."""
