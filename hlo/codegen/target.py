"""The former name of `hlo.codegen.targets`."""

from hlo.codegen.targets.cpu import cpu_target


class Target:
    """See `hlo.codegen.targets.base.Target`."""

    of = staticmethod(cpu_target)
