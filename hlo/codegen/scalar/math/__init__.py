"""Mathematical functions as inline, branch-free LLVM IR.

None calls a library: the code vectorizes and links on every target. Each states the greatest error
measured, in units in the last place (ulp), with and without fused multiply-add: f32 on every 1021st
of all numbers against f64, f64 on some millions, dense where a function changes its way, against
80-bit floats. Functions of doubles alone serve f32 too, rounded once at the end: half an ulp there.
"""
