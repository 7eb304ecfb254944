"""`hlo-opt --cost --device NAME`: what a module costs, and what that takes on a GPU."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo.ir import Module


def device_cost(
    module: Module, device: str, passes: str | None, strictness: str, as_json: bool
) -> str:
    """Return the costs of the instructions, and of the kernels on a device, as text.

    passes: those that have run; without any the default pipeline does for the device.
    """
    from hlo.reports.gpu import gpu_report
    from hlo.reports.module import module_cost

    found = gpu_report(
        module, device, passes="default" if passes is None else "", verify=strictness
    )
    cost = module_cost(module)
    if as_json:
        return json.dumps({"instructions": cost.as_rows(), "device": found.as_dict()}) + "\n"
    return f"{cost!r}\n\n{found!r}\n"
