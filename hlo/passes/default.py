"""The default pipeline: what `hlo.optimize` runs, and but for its last stages `hlo.compile`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from hlo.passes.pipeline import Fix, Step, parse_pipeline, step
from hlo.passes.registry import Pass, registered
from hlo.support.imports import lasting
from hlo.support.signature import shown


def default_pipeline(*, fuses: bool = True) -> list[Step | Fix]:
    """Return the stages in order, each with why it stands there.

    fuses: end with the stages that make kernels and order them. Code generation does without: it
    chooses kernels and their order itself, knowing the target and what is updated in place.
    """
    return list(_kept_stages(fuses=fuses))


@cache
def _kept_stages(*, fuses: bool) -> tuple[Step | Fix, ...]:
    """Return the stages: made once, since that takes as long as running them on a small module."""
    with lasting():  # imports the passes
        return tuple(_stages(fuses=fuses))


def _stages(*, fuses: bool) -> list[Step | Fix]:
    stages: list[Step | Fix] = [
        # Products and convolutions that another compiler has handed to a library.
        step("library_call_expander"),
        # One computation where there were several: nothing below looks through calls.
        step("call_inliner"),
        step("map_inline"),
        # Less to look at, for all that follows: frontends write a reducer for each reduction.
        step("dce"),
        step("computation_deduplicator"),
        # What one of these makes simpler is simpler for the others, so they take turns.
        Fix((
            step("tuple_simplifier"),
            # Equal values are one value before anything is decided by the number of users. Large
            # broadcasts are shared by what is near: kept for long they would raise the peak.
            step("cse", nearby_bytes=1 << 16),
            step("algsimp"),
            step("zero_sized_hlo_elimination"),
            step("constant_folding"),
            # Loops: first what is constant in them, then what need not be in them.
            step("while_loop_constant_sinking"),
            step("simplify_while_loops"),
            step("while_loop_invariant_code_motion"),
            # Few rounds over the elements of an array are one: those of random numbers, above all.
            step("while_loop_unroller", elementwise_only=True, max_trip_count=8, max_expansion=400),
            # Arrays that change places are not copied.
            step("while_loop_double_buffering"),
            step("simplify_conditional"),
            # Functions without branches any more can be applied to whole arrays.
            step("map_inline"),
            step("simplify_sorts"),
            step("reshape_mover"),
            step("dce"),
        )),
        # Between devices, when what is computed is as simple as it gets.
        Fix((
            # What a device has anyway, or needs a part of, is not exchanged as a whole.
            step("all_reduce_simp"),
            step("all_gather_dynamic_slice_simplifier"),
            step("reduce_scatter_creator"),
            # One exchange instead of two.
            step("schedule_aware_collective_cse"),
            step("all_reduce_folder"),
            step("all_reduce_reassociate"),
            step("reduce_scatter_reassociate"),
            # Once instead of in each iteration.
            step("while_loop_all_reduce_code_motion"),
            step("dce"),
        )),
        # Small ones cost latency, many as one cost it once. Large ones gain nothing, and would
        # have to wait for each other.
        step("all_reduce_combiner", combine_threshold_in_bytes=1 << 18),
        step("all_gather_combiner", combine_threshold_in_bytes=1 << 18),
        step("reduce_scatter_combiner", combine_threshold_in_bytes=1 << 18),
        step("collective_permute_combiner"),
        # For schedulers and cost models, when no loop changes any more.
        step("while_loop_trip_count_annotator"),
        # Bodies and reducers that became equal; compiled once.
        step("computation_deduplicator"),
    ]  # fmt: skip
    if fuses:
        stages += [
            # The steps of code generation's fusion, in its order. Values that need no memory are
            # computed where they are needed.
            step("fusion"),
            # What reduces rows, and what needs the results for the same rows.
            step("row_fusion"),
            # What reads the same, read once.
            step("multi_output_fusion"),
            # Several results of one kernel are a tuple already.
            step("tuple_simplifier"),
            # Every loop is a fusion.
            step("fusion_wrapper"),
            # Scalars that kernels know need not be handed to them.
            step("fusion_constant_sinking"),
            # What came into a kernel from several sides.
            step("cse", only_fusion_computations=True),
            step("dce"),
            # Whatever computes while a collective is under way hides the time that it takes.
            step("async_collective_creator", only_overlapping=True),
            # Values are used soon after they are made, but for those that are on their way.
            step("hlo_memory_scheduler"),
            step("latency_hiding_scheduler"),
        ]  # fmt: skip
    return stages


PassLike = str | Pass | Step | Fix | Callable[..., None]
"""What a list of passes may hold: pipelines as text, passes, steps, and functions that
`module_pass` registered."""


def pipeline_of(
    passes: str | Sequence[PassLike], *, fuses: bool = True, name: str = "passes"
) -> list[Step | Fix]:
    """Return the pipeline that a text spells, or a list of passes one after the other.

    `default` in a text is the default pipeline. fuses: as for `default_pipeline`. name: of the
    argument or flag that it is, in error messages; of a list, with the place in it. Raises HloError
    for a text that is no pipeline, TypeError for what is no pass.
    """
    default = partial(default_pipeline, fuses=fuses)
    if isinstance(passes, str):
        return parse_pipeline(passes, name, default=default)
    found: list[Step | Fix] = []
    for n, item in enumerate(passes):
        if isinstance(item, str):
            found += parse_pipeline(item, f"{name}[{n}]", default=default)
        else:
            found.append(_step_of(item))
    return found


def pipeline_text(passes: str | Sequence[PassLike]) -> str:
    """Return the text of a pipeline in either form; raises as `pipeline_of` for a list."""
    if isinstance(passes, str):
        return passes
    pipeline_of(passes)  # what is wrong is said of its item
    texts = (item if isinstance(item, str) else str(_step_of(item)) for item in passes)
    return ",".join(text for text in texts if text.strip())


def is_of_users(passes: str) -> bool:
    """True if a pipeline runs a pass that is not part of this package. Raises HloError."""
    return any(map(_is_of_user, pipeline_of(passes)))


def _is_of_user(item: Step | Fix) -> bool:
    if isinstance(item, Fix):
        return any(map(_is_of_user, item.steps))
    return item.spec.is_of_user


def _step_of(item: object) -> Step | Fix:
    if isinstance(item, Step | Fix):
        return item
    if isinstance(item, Pass):
        return Step(item)
    spec = registered(item)
    if spec is None:
        raise TypeError(
            f"passes: {shown(item)} is not a pass: a name, a Pass, a Step, a Fix, or a function "
            "that hlo.passes.module_pass has registered is needed"
        )
    return Step(spec)
