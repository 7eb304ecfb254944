"""The plug-in's native code: what a dispatch calls, and all that destroys.

JAX's runtime dispatches without Python's lock, and destroys while exceptions are pending and after
Python has ended: Python could not do either. The code is LLVM IR, so that no compiler is needed
where the package is installed. `writer.py` has what it is written with; each of the other files
writes the functions of one subject; `code.py` loads them.
"""
