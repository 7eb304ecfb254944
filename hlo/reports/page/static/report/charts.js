"use strict";
// Axes and scales of charts.
((hlo) => {
  const LEFT = 84, RIGHT = 24, TOP = 20, BOTTOM = 52;

  hlo.linearScale = (low, high, from, to) => {
    const span = high - low || 1;
    const scale = (value) => from + (value - low) / span * (to - from);
    scale.invert = (at) => low + (at - from) / (to - from) * span;
    return scale;
  };

  hlo.logScale = (low, high, from, to) => {
    const inner = hlo.linearScale(Math.log10(low), Math.log10(high), from, to);
    return (value) => inner(Math.log10(value));
  };

  /** Returns round values between two bounds, some `count` of them. */
  hlo.ticks = (low, high, count) => {
    const rough = (high - low) / count || 1;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * unit).find((s) => s >= rough);
    const found = [];
    for (let n = Math.ceil(low / step); n * step <= high * (1 + 1e-9); n++) found.push(n * step);
    return found;
  };

  /** Returns round numbers of bytes from zero to a bound, in the unit that they are shown in. */
  hlo.byteTicks = (high, count) => {
    const unit = 1024 ** Math.max(0, Math.floor(Math.log(high / count) / Math.log(1024)));
    const steps = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].map((n) => n * unit);
    const step = steps.find((s) => s >= high / count);
    return Array.from({ length: Math.floor(high / step) + 1 }, (_, n) => n * step);
  };

  /** Returns the powers of ten between two bounds, every one or every second and so on. */
  hlo.decades = (low, high, most) => {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    const step = Math.max(1, Math.ceil((last - first + 1) / most));
    const found = [];
    for (let power = first; power <= last; power += step) found.push(10 ** power);
    return found;
  };

  /** Returns an SVG drawing with axes: { svg, plot, left, right, top, bottom }. x and y are
   *  { label, ticks: [[value, text]], scaleOf(from, to) }. */
  hlo.chart = (width, height, x, y, label) => {
    const right = width - RIGHT, bottom = height - BOTTOM;
    const xs = x.scaleOf(LEFT, right), ys = y.scaleOf(bottom, TOP);
    const plot = hlo.svg("g");
    const lines = [];
    for (const [value, text] of x.ticks) {
      lines.push(hlo.svg("path", { class: "tick", d: `M${xs(value)} ${TOP}V${bottom}` }),
        hlo.svg("text", { class: "axis", x: xs(value), y: bottom + 18, "text-anchor": "middle" },
                text));
    }
    for (const [value, text] of y.ticks) {
      lines.push(hlo.svg("path", { class: "tick", d: `M${LEFT} ${ys(value)}H${right}` }),
        hlo.svg("text", { class: "axis", x: LEFT - 8, y: ys(value) + 4, "text-anchor": "end" },
                text));
    }
    lines.push(hlo.svg("text", { class: "axis name", x: (LEFT + right) / 2, y: height - 8,
                                 "text-anchor": "middle" }, x.label),
      hlo.svg("text", { class: "axis name", x: 14, y: (TOP + bottom) / 2, "text-anchor": "middle",
                        transform: `rotate(-90 14 ${(TOP + bottom) / 2})` }, y.label));
    const svg = hlo.svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img",
                                 preserveAspectRatio: "xMinYMid meet",
                                 "aria-label": label }, ...lines, plot);
    return { svg, plot, xs, ys, left: LEFT, right, top: TOP, bottom };
  };
})(globalThis.hlo ??= {});
