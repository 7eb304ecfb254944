"""The error function."""

from __future__ import annotations

from hlo.codegen.scalar.math.exponential import exp
from hlo.codegen.scalar.math.expr import Num

# erf(x) / x - 1 by powers of x**2, for |x| <= 1, within 2**-29.3 and 2**-56.
_NEAR = {
    "float": (
        (7.842288e-05, -0.0008006793, 0.0051879627, -0.026853643, 0.112835824, -0.37612626,
         0.12837917)
    ),
    "double": (
        (-7.760672589541316e-10, 1.370019261179881e-08, -1.6203623389137775e-07,
         1.644674944815981e-06, -1.4924678264461123e-05, 0.00012055291603687321,
         -0.0008548325854537143, 0.00522397760430662, -0.02686617064284531, 0.11283791670942045,
         -0.37612638903183443, 0.12837916709551256)
    ),
}  # fmt: skip
# -log(1 - erf(x)) for x in [1, 4], within 2**-29.7 of erf(x).
_LOG_FAR = (
    (-0.00018640353, 0.0029478858, -0.021838926, 0.10310845, 0.638143, 1.1270902, 0.0003412898)
)  # fmt: skip
# (1 - erf(x)) exp(x**2) by powers of (x - 2.5) / (x + 2.5) for x in [1, 6], within 2**-60 of
# erf(x).
_FAR = (
    (7.526618032306569e-06, 1.675280653922907e-05, -3.5749692506969696e-05,
     -0.00012948928402547476, 0.00022826631647237936, 0.0008759133592093517,
     -0.0026423627513209756, -0.003993700618376748, 0.03992253909585057, -0.12503305238166235,
     0.251713193217189, -0.3717367339489767, 0.2108063640611437)
)  # fmt: skip


def erf(x: Num) -> Num:
    """Return the error function: f32 within 1.4 ulp, f64 within 0.9."""
    size = x.abs()
    z = x * x
    near = size * z.polynomial(_NEAR[x.type]) + size
    if x.type == "float":
        # From 4 on, erf is 1.
        y = size.at_most(4.0)
        rest = exp(-y.polynomial(_LOG_FAR))
    else:
        y = size.at_most(6.0)
        rest = exp(-(y * y)) * ((y - 2.5) / (y + 2.5)).polynomial(_FAR)
    return (size < 1.0).where(near, 1.0 - rest).copysign(x)
