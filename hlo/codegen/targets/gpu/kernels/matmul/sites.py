"""Where a product is computed: by a kernel of its own, or by one that makes something of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hlo.analysis.fusion.endings import product_in, space_of
from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.chain.products import path_to
from hlo.codegen.kernels.matmul.contraction import source_of
from hlo.codegen.kernels.matmul.product import Computed, Source
from hlo.codegen.kernels.views import StridedView, element_strides, view_of, whole_view
from hlo.ir import Instruction


@dataclass(frozen=True)
class Site:
    """A product in a kernel.

    root: what the kernel stores. path: the numbers of operands that lead from there to the product,
    none for the product itself. strides: of the product's dimensions, in what is stored.
    """

    root: Instruction
    product: Instruction
    path: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def plain(inst: Instruction) -> Site:
        """Return the site of a product with a kernel of its own."""
        return Site(inst, inst, (), tuple(element_strides(inst.array_shape)))

    @staticmethod
    def ended(root: Instruction, roles: Mapping[Instruction, Role]) -> Site | None:
        """Return the site of the product that is fused into a kernel, None if there is none."""
        product = product_in(root, roles)
        if product is None:
            return None
        rows = space_of(root, roles)
        assert rows is not None
        loops = rows.loops_of(product)
        assert loops is not None
        shape, step = product.array_shape, 1
        strides = [0] * shape.rank
        for d in reversed(loops):
            strides[d] = step
            step *= shape.dims[d]
        return Site(root, product, path_to(root, product, roles), tuple(strides))

    @property
    def result(self) -> StridedView:
        """The product's elements as what is stored has them."""
        shape = self.product.array_shape
        dims = tuple(((n, s),) for n, s in zip(shape.dims, self.strides, strict=True))
        return StridedView(self.root, shape.element_type, 0, dims)

    def operand(self, number: int, roles: Mapping[Instruction, Role]) -> tuple[StridedView, Source]:
        """Return an operand as a view of memory, or of what computes it, and where that is."""
        view = view_of(self.product.operands[number], roles)
        if view is None:
            return self.computed_operand(number)
        return view, source_of(view, self.root, roles)

    def computed_operand(self, number: int) -> tuple[StridedView, Source]:
        """Return an operand whose elements are computed, or loaded, one by one."""
        shape = self.product.operands[number].array_shape
        return whole_view(-1, shape), Source(Computed((*self.path, number)), shape.element_type)
