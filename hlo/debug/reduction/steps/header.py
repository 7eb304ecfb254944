"""What the module's header says goes, and the tables that metadata refers to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.frontends.text.annotations import OpMetadata
from hlo.ir import Module

_TABLES, _FRAME = "tables", "stack_frame_id"


def targets(module: Module) -> list[str]:
    return [*module.attrs, *([_TABLES] if module.tables or module.unprinted else [])]


def apply(module: Module, targets: Sequence[str]) -> bool:
    done = False
    for name in targets:
        if name == _TABLES:
            done |= bool(module.tables or module.unprinted)
            module.tables, module.unprinted = {}, {}
            for inst in module.instructions():
                _forget_frame(inst.annotations)
        else:
            done |= module.attrs.pop(name, None) is not None
    return done


def _forget_frame(annotations: dict[str, Any]) -> None:
    metadata = annotations.get("metadata")
    if isinstance(metadata, OpMetadata) and _FRAME in metadata.fields:
        kept = {k: v for k, v in metadata.fields.items() if k != _FRAME}
        annotations["metadata"] = OpMetadata(kept)
