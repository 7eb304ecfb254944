"""The reference interpreter."""

from hlo.eval.interpreter import Interpreter, interpret
from hlo.host import Host

__all__ = ["Host", "Interpreter", "interpret"]
