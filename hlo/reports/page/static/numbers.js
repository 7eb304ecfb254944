"use strict";
// Numbers as people read them.
((hlo) => {
  function scaled(value, step, units) {
    let at = 0;
    while (Math.abs(value) >= step && at < units.length - 1) {
      value /= step;
      at++;
    }
    const digits = Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
    return `${value.toFixed(digits)}${units[at]}`;
  }

  hlo.countText = (n) => scaled(n, 1000, ["", " k", " M", " G", " T", " P", " E"]);
  hlo.bytesText = (n) => scaled(n, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
  hlo.flopsText = (n) => `${hlo.countText(n)}${n < 1000 ? " " : ""}FLOP`;

  hlo.secondsText = (s) => {
    if (s === 0) return "0 s";
    if (s < 1e-6) return `${(s * 1e9).toFixed(0)} ns`;
    if (s < 1e-3) return `${(s * 1e6).toPrecision(3)} us`;
    if (s < 1) return `${(s * 1e3).toPrecision(3)} ms`;
    return `${s.toPrecision(4)} s`;
  };

  hlo.counted = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;

  hlo.percentText = (share) => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
})(globalThis.hlo ??= {});
