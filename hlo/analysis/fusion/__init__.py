"""Fusion: what is computed in one kernel, what it costs there, and what kernels read.

It is decided here once, for two drivers: code generation carries it out on the flattened tree
(`hlo.codegen.plan.roles`), passes write it into the module as `fusion` instructions
(`hlo.passes.fusion`). In the order to read them:

  operations       single operations: computed at any index? how costly? how do they read operands?
  accesses         how the loops of a kernel run through what it reads
  post_dominators  values that are computed once though they have several users
  roles            a role for each instruction: a kernel, fused into its users, a scalar, ...
  rows             kernels that go row by row absorb reductions of these rows
  chains           products absorb others, with what is computed of their rows
  weights          rows of chains that are computed part by part, as softmax
  siblings         kernels that become one of several results
"""
