"""Programs for GPUs: what the entry function is for processors, the launch plan is for them."""
