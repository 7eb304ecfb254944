"""How often loops run, written beside them."""

from __future__ import annotations

import json
from typing import Any

from hlo.analysis.effects import Effects
from hlo.analysis.trips import counted
from hlo.ir import Instruction, Module
from hlo.passes.control_flow._trips import known_trips
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def while_loop_trip_count_annotator(module: Module, rewrites: Rewrites) -> None:
    """Annotate loops with known trip count and induction variable in `backend_config`.

    The form is XLA's `WhileLoopBackendConfig`; what else a configuration says stays. What does more
    than count is run from constants for a while.
    """
    effects = Effects()
    for loop in module.instructions():
        if loop.opcode != "while":
            continue
        count, counter, config = known_trips(loop, effects), counted(loop), _config(loop)
        if count is None or config is None:
            continue
        known = {"known_trip_count": {"n": str(count)}}
        if counter is not None:
            known["known_init_step"] = {"init": str(counter.start), "step": str(counter.step)}
            known["known_induction_variable"] = {"tuple_index": str(counter.index)}
        if config | known != config and rewrites.allow("while_loop_trip_count_annotator", loop):
            text = json.dumps(config | known, separators=(",", ":"))
            loop.annotations["backend_config"] = text


def _config(loop: Instruction) -> dict[str, Any] | None:
    """Return the configuration of a loop, None if it is not one that can be added to."""
    text = loop.annotations.get("backend_config")
    if not text:
        return {}
    try:
        found = json.loads(str(text))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
