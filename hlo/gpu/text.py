"""Launch plans as text: a line for each step, those of loops and branches inside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hlo.gpu.plan import Copy, HostCall, Launch, LaunchPlan, Place, Region, Step, Switch, While

_INDENT = "  "


def plan_text(plan: LaunchPlan) -> str:
    """Return a launch plan in the form that `hlo-opt --stage=launches` prints."""
    lines = [f"argument{n}: {size} bytes" for n, size in enumerate(plan.arguments)]
    lines += [f"result{n}: {size} bytes" for n, size in enumerate(plan.results)]
    for region, size in (
        (Region.ARENA, plan.arena_bytes),
        (Region.CONSTANTS, plan.constant_bytes),
        (Region.SCALARS, plan.scalar_bytes),
        (Region.COUNTERS, plan.counter_bytes),
    ):
        if size:
            lines.append(f"{region.value}: {size} bytes")
    lines += [f"result{result} is argument{argument}" for result, argument in plan.aliases]
    return "\n".join([*lines, *_steps(plan.steps), ""])


def _steps(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        match step:
            case Launch():
                yield _launch(step)
            case Copy():
                yield f"copy {step.size} bytes: {step.target} from {step.source}"
            case While():
                yield from _loop(step)
            case Switch():
                yield f"switch {step.index}"
                for number, branch in enumerate(step.branches):
                    yield f"case {number}"
                    yield from _indented(_steps(branch))
                yield "end"
            case HostCall():
                results = _memory(step.results)
                yield f"host call {step.number}: {results} from {_memory(step.operands)}"


def _launch(launch: Launch) -> str:
    shared = f", {launch.shared_bytes} bytes shared" if launch.shared_bytes else ""
    places = ", ".join(map(str, launch.places))
    said = f"  // {launch.instruction}" if launch.instruction else ""
    return f"launch {launch.kernel}<<<{launch.blocks}, {launch.threads}{shared}>>>({places}){said}"


def _loop(loop: While) -> Iterator[str]:
    if loop.trips is not None:
        yield f"repeat {loop.trips} times"
    else:
        yield "while"
        yield from _indented(_steps(loop.condition))
        yield f"{_INDENT}until {loop.flag} is 0"
        yield "do"
    yield from _indented(_steps(loop.body))
    yield "end"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


def _memory(parts: Sequence[tuple[Place, int]]) -> str:
    return ", ".join(f"{place} ({size} bytes)" for place, size in parts) or "nothing"
