"""What a run sees besides its arguments: custom calls, queues, the other devices."""

from hlo.host.host import Host, run_together

__all__ = ["Host", "run_together"]


def __dir__() -> list[str]:
    return sorted(__all__)
