"""Programs in JAX, as people write them, that are timed on the plug-in beside XLA:CPU.

A program is a function of no arguments that returns a jitted step and the state that it takes and
returns: `state = step(state)`.
"""

from bench.jax_programs.programs import PROGRAMS

__all__ = ["PROGRAMS"]
