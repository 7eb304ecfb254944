"""Inverse trigonometric functions, in f64."""

from __future__ import annotations

from hlo.codegen.scalar.math.expr import INF, NAN, Num, split

# (asin(x) - x) / x**3 by powers of x**2 for |x| <= 1/2, within 2**-59.8 of asin(x).
_ASIN = (
    (0.03260895568032059, -0.02096772682822354, 0.021685430440173056, 0.0037153820175521864,
     0.010777905232973594, 0.011399324181679694, 0.013980771339007362, 0.017351615990611222,
     0.022372214775775515, 0.030381942714849706, 0.04464285717447747, 0.07499999999970922,
     0.1666666666666676)
)  # fmt: skip
# (atan(x) - x) / x**3 by powers of x**2 for |x| <= tan(pi / 8), within 2**-59.4 of atan(x).
_ATAN = (
    (-0.01790646670637633, 0.03806376285180819, -0.05039269272643819, 0.05847880783883969,
     -0.06663102837895292, 0.07692060112060717, -0.09090897752874444, 0.11111110783368522,
     -0.14285714280197942, 0.19999999999953666, -0.333333333333332)
)  # fmt: skip
_PI = (3.141592653589793, 1.2246467991473532e-16)
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
# The head has three zero bits at its end, so that a few times it is exact.
_QUARTER_PI = (0.7853981633974483, 3.061616997868383e-17)
_TAN_EIGHTH = 0.41421356237309503


def _half_angle(x: Num) -> tuple[Num, Num, Num, Num]:
    """Return what asin and acos are made of.

    far: |x| > 1/2. Then p + tail is asin(sqrt((1 - |x|) / 2)), else asin(|x|): p a part of few
    bits, twice which is exact.
    """
    size = x.abs()
    far = size > 0.5
    z = far.where((1.0 - size) * 0.5, size * size)
    root = z.sqrt()
    s = far.where(root, size)
    head, _ = split(s, 27)
    # What the head of the root lacks: (z - head**2) / (root + head) is it exactly.
    lack = (z.strict - head * head).loose / (root + head.loose)
    lack = far.where((z == 0).where(0.0, lack), s - head.loose)
    return far, head.loose, lack, s * z * z.polynomial(_ASIN)


def asin(x: Num) -> Num:
    """Return the inverse sine of a double, within 0.7 ulp; NaN beyond 1."""
    far, head, lack, cubic = _half_angle(x)
    near = head + (lack + cubic)
    complement = _HALF_PI[0] - 2.0 * head
    beyond = complement + (_HALF_PI[1] - 2.0 * (lack + cubic))
    return far.where(beyond, near).copysign(x)


def acos(x: Num) -> Num:
    """Return the inverse cosine of a double, within 1 ulp; NaN beyond 1."""
    far, head, lack, cubic = _half_angle(x)
    rest = lack + cubic
    high = 2.0 * head + 2.0 * rest
    low = (_PI[0] - 2.0 * head) + (_PI[1] - 2.0 * rest)
    signed_head, signed_rest = head.copysign(x), rest.copysign(x)
    middle = (_HALF_PI[0] - signed_head) + (_HALF_PI[1] - signed_rest)
    return far.where((x < 0).where(low, high), middle)


def atan2(y: Num, x: Num, rough: bool = False) -> Num:
    """Return the angle of the point (x, y) of doubles, between -pi and pi, within 1.9 ulp.

    rough: leave the sums in the quotient as they are rounded, which is enough for f32.
    """
    ax, ay = x.abs(), y.abs()
    steep = ay > ax
    large, small = steep.where(ay, ax), steep.where(ax, ay)
    # Sums of the two must not overflow.
    down = (large > 2.0**1000).where(x.lift(2.0**-100), 1.0)
    large, small = large * down, small * down
    # Above pi / 8 the quotient is that of the angle less pi / 4.
    past = (small > large * _TAN_EIGHTH) | (small == INF)
    difference, total = small - large, small + large
    above, below = past.where(difference, small), past.where(total, large)
    above = (small == INF).where(0.0, above)
    below = (large == 0).where(1.0, below)
    q = above / below
    if not rough:
        lost = (small - (difference + large)) - q * (small - (total - large))
        q = (past & (small < INF)).where(q + lost / below, q)
    z = q * q
    angle = q * z * z.polynomial(_ATAN) + q
    # The rest is a multiple of pi / 4, and the angle counts up or down from it.
    back = x.bits() < 0
    turns = past.where(x.lift(1.0), 0.0)
    turns = steep.where(2.0 - turns, turns)
    turns = back.where(4.0 - turns, turns)
    angle = (steep ^ back).where(-angle, angle)
    result = turns * _QUARTER_PI[0] + (angle + turns * _QUARTER_PI[1])
    return (x.is_nan() | y.is_nan()).where(NAN, result.copysign(y))
