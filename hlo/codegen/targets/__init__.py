"""Machines that code is generated for, a folder for each kind.

`base.py` is what planning and kernels ask of one; `cpu/` implements it for processors. Kernels and
planning import the interface only, and never a machine.
"""
