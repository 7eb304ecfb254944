"""Mathematical functions as inline, branch-free LLVM IR.

Each states its greatest measured error in units in the last place (ulp). None calls a library: the
code vectorizes and links on every target.
"""
