"""The reference interpreter."""

from hlo.host import Host
from hlo.eval.interpreter import Interpreter, interpret

__all__ = ["Host", "Interpreter", "interpret"]
