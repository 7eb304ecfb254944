"use strict";
// The roofline: operations a second against operations a byte.
((hlo) => {
  const WIDTH = 1400, HEIGHT = 600, LINE = 15;
  // Of the names at points: how many there are, how long, and how wide a character is.
  const MOST_LABELS = 14, LONGEST = 28, CHARACTER = 7, NEAR = 6;

  hlo.rooflineChart = (holder, data, module, show) => {
    const { peaks, points, omitted } = data;
    if (points.length === 0) {
      holder.append(hlo.element("p", {}, "No instruction of this module has both operations and " +
                                         "memory traffic."));
      return;
    }
    const best = Math.max(...Object.values(peaks.flops));
    const rows = points.map(([name, flops, bytes, seconds, opcode, bound]) =>
      ({ name, opcode, seconds, bound, flops, bytes, intensity: flops / bytes, rate: flops / seconds }));
    const ridge = best / peaks.bytes;
    const low = 10 ** Math.floor(Math.log10(Math.min(ridge, ...rows.map((r) => r.intensity))));
    const high = 10 ** Math.ceil(Math.log10(Math.max(ridge * 4, ...rows.map((r) => r.intensity))));
    const bottom = 10 ** Math.floor(Math.log10(Math.min(...rows.map((r) => r.rate))));
    const top = 10 ** Math.ceil(Math.log10(best * 1.2));
    const chart = hlo.chart(WIDTH, HEIGHT,
      { label: "arithmetic intensity, FLOP a byte (logarithmic)",
        ticks: hlo.decades(low, high, 9).map((v) => [v, short(v)]),
        scaleOf: (a, b) => hlo.logScale(low, high, a, b) },
      { label: "FLOP a second (logarithmic)",
        ticks: hlo.decades(bottom, top, 9).map((v) => [v, hlo.countText(v)]),
        scaleOf: (a, b) => hlo.logScale(bottom, top, a, b) },
      "Roofline: the highest line is what the machine can do");
    const { xs, ys, plot } = chart;
    let above = -Infinity;
    Object.entries(peaks.flops).sort((a, b) => b[1] - a[1]).forEach(([type, flops], n) => {
      above = Math.max(ys(flops) - 6, above + LINE);
      const bend = flops / peaks.bytes;
      const from = Math.max(low, bottom / peaks.bytes);
      plot.append(hlo.svg("path", { class: `roof${n > 0 ? " lower" : ""}`,
        d: `M${xs(from)} ${ys(from * peaks.bytes)}L${xs(bend)} ${ys(flops)}H${chart.right}` }),
        hlo.svg("text", { class: "axis", x: chart.right - 4, y: above, "text-anchor": "end" }, `${type} ${hlo.countText(flops)}FLOP/s`));
    });
    const total = rows.reduce((sum, row) => sum + row.seconds, 0);
    for (const row of rows) {
      const size = 3 + 13 * Math.sqrt(row.seconds / total);
      plot.append(hlo.svg("circle", { class: "point", cx: xs(row.intensity), cy: ys(row.rate),
        r: size, tabindex: "0", role: "button", "aria-label": spoken(row, total),
        onclick: () => show(row.name),
        onkeydown: (event) => event.key === "Enter" ? show(row.name) : undefined },
        hlo.svg("title", {}, spoken(row, total))));
    }
    labels(plot, rows, xs, ys, chart);
    const what = data.is_estimate ? "Each point is a kernel as estimated for this device, its size the share of the time. " +
        "Points lie below the roofline where something else takes the time: the launch, few threads, a cache."
      : data.is_profile ? "Each point is a kernel, its size the share of the time. Points above the roofline read " +
        "their data from a cache."
      : "Each point is an unfused instruction at its lower-bound time, so all lie on the " +
        "roofline. Pass a profile (--profile FILE.json, from hlo-run --profile) for measured points.";
    holder.append(
      hlo.element("p", {}, what, omitted > 0 ? ` The ${omitted.toLocaleString("en")} cheapest are omitted.` : ""),
      hlo.element("p", { class: "muted" },
        `Roofline: ${peaks.is_measured ? "" : "stated, not measured, "}${peaks.from}`),
      chart.svg, table(rows, total, peaks, best, show));
  };

  /** Names the costliest points, where there is room; points at one position share a name. */
  function labels(plot, rows, xs, ys, chart) {
    const spots = [];
    for (const row of rows) {
      const x = xs(row.intensity), y = ys(row.rate);
      const spot = spots.find((s) => Math.abs(s.x - x) < NEAR && Math.abs(s.y - y) < NEAR);
      if (spot === undefined) spots.push({ x, y, name: row.name, count: 1 });
      else spot.count++;
    }
    const boxes = [];
    for (const { x, y, name, count } of spots) {
      if (boxes.length >= MOST_LABELS) break;
      const text = name.slice(0, LONGEST) + (count > 1 ? ` + ${count - 1}` : "");
      const width = text.length * CHARACTER;
      // Below to the right, or above to the left: on neither side is the line.
      const places = [{ left: x + 14, base: y + 12 }, { left: x - 14 - width, base: y - 4 }];
      const overlaps = ({ left, base }) => left < chart.left || left + width > chart.right ||
        boxes.some((b) => left < b.left + b.width && b.left < left + width &&
                          Math.abs(base - b.base) < LINE);
      const place = places.find((p) => !overlaps(p));
      if (place === undefined) continue;
      boxes.push({ ...place, width });
      plot.append(hlo.svg("text", { class: "axis label", x: place.left, y: place.base }, text));
    }
  }

  const short = (v) => v >= 1 && v < 1e4 ? String(v) : v >= 1e-3 && v < 1 ? String(v)
    : v.toExponential(0);

  const spoken = (row, total) => `${row.name} ${row.opcode}: ` +
    `${row.intensity.toPrecision(3)} FLOP/byte, ${hlo.countText(row.rate)}FLOP/s, ` +
    `${hlo.secondsText(row.seconds)}, ${hlo.percentText(row.seconds / total)} of the time`;

  function table(rows, total, peaks, best, show) {
    const head = ["name", "opcode", "time", "share", "FLOP/byte", "FLOP/s", "bound by"];
    const body = rows.slice(0, 30).map((row) => hlo.element("tr", {},
      hlo.element("td", {}, hlo.element("button",
        { type: "button", class: "link", onclick: () => show(row.name) }, row.name)),
      hlo.element("td", {}, row.opcode), cell(hlo.secondsText(row.seconds)),
      cell(hlo.percentText(row.seconds / total)), cell(row.intensity.toPrecision(3)),
      cell(hlo.countText(row.rate)),
      hlo.element("td", {}, row.bound !== "" ? row.bound : row.intensity < best / peaks.bytes ? "memory" : "arithmetic")));
    return hlo.element("div", { class: "scrolls" }, hlo.element("table", {},
      hlo.element("thead", {}, hlo.element("tr", {}, ...head.map((text, n) =>
        hlo.element("th", { class: n >= 2 && n <= 5 ? "number" : "" }, text)))),
      hlo.element("tbody", {}, ...body)));
  }

  const cell = (text) => hlo.element("td", { class: "number" }, text);
})(globalThis.hlo ??= {});
