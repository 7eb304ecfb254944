"""The builder of programs, with the operations of every family."""

from __future__ import annotations

from hlo.frontends.builder.internal import Internal


class XlaBuilder(Internal):
    """Builds a program, one operation after the other; shapes are inferred as it goes.

    Methods have the documents' names in Python's spelling: `BroadcastInDim` is `broadcast_in_dim`.
    One that is a word of Python, or the name of a built-in function, ends in an underscore: `and_`,
    `while_`, `max_`, `slice_`. `docs/operations.md` lists them all.

    Where a computation is called, a function from handles to a handle may be given in place of a
    built one. A broken rule raises HloError, which names the rule and the line that broke it; after
    `set_die_immediately_on_error(False)` `build` raises it. Operations that fail leave nothing
    behind. Sources are the documents of `docs/operations.md`, by their numbers there.

    Args:
        name: of the computation.
        client: who is to run the program, for those who pass builders around; `client` returns it.

    >>> b = hlo.XlaBuilder("axpy")
    >>> alpha, x, y = (b.parameter(i, s) for i, s in enumerate(["f32[]", "f32[3]", "f32[3]"]))
    >>> module = b.build(alpha * x + y).module()
    >>> hlo.interpret(module, 10, [1, 2, 3], [0.5, 0.5, 0.5])
    array([10.5, 20.5, 30.5], dtype=float32)
    """

    def __repr__(self) -> str:
        return f"<XlaBuilder {self.name}: {len(self._computation)} operations>"
