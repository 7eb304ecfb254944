"""Files for GPUs: assembly, machine code, LLVM IR, and C programs that run launch plans."""
