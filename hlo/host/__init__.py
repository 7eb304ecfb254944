"""What a program can access besides its arguments: custom calls, queues, other devices."""

from hlo.host.host import Host, need_devices, run_together

__all__ = ["Host", "need_devices", "run_together"]


def __dir__() -> list[str]:
    return sorted(__all__)
