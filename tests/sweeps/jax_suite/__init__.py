"""JAX's own tests on this project's plug-in, and on XLA:CPU to compare with.

    python -m tests.sweeps.jax_suite TREE [OPTIONS]

TREE is a checkout of JAX at the tag of the installed version; nothing of it is kept here.
`files.py` says which test files apply to a CPU, `sample.py` draws the tests, `worker.py` runs some
tests of one file in a process of its own, `runner.py` starts those processes and survives them,
`compare.py` reads results files.
"""
