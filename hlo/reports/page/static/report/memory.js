"use strict";
// Live bytes over the steps of a run, with the buffers that are live at a step.
((hlo) => {
  const WIDTH = 1400, HEIGHT = 400, MOST = 40;

  /** data: points [step, instruction, live bytes], buffers, the peak, advice. */
  hlo.memoryChart = (holder, data, show) => {
    const points = data.points;
    const first = points[0]?.[0] ?? 0;
    const last = Math.max(first + 1, points.at(-1)?.[0] ?? 1);
    const measured = data.measured_bytes ?? null;
    const top = Math.max(data.peak_bytes, measured ?? 0) * 1.08 || 1;
    const chart = hlo.chart(WIDTH, HEIGHT,
      { label: "step of the program", ticks: hlo.ticks(first, last, 10).map((v) => [v, String(v)]),
        scaleOf: (a, b) => hlo.linearScale(first, last, a, b) },
      { label: "live bytes", ticks: hlo.byteTicks(top, 6).map((v) => [v, hlo.bytesText(v)]),
        scaleOf: (a, b) => hlo.linearScale(0, top, a, b) },
      `Live bytes by step, at most ${hlo.bytesText(data.peak_bytes)}`);
    const { xs, ys, plot } = chart;
    let path = `M${xs(points[0]?.[0] ?? 0)} ${chart.bottom}`;
    for (const [step, , bytes] of points) path += `H${xs(step)}V${ys(bytes)}`;
    plot.append(hlo.svg("path", { class: "area", d: `${path}H${chart.right}V${chart.bottom}Z` }));
    if (measured !== null) {
      plot.append(hlo.svg("path", { class: "measured",
                                    d: `M${chart.left} ${ys(measured)}H${chart.right}` }),
        hlo.svg("text", { class: "axis", x: chart.right, y: ys(measured) - 5,
                          "text-anchor": "end" }, `measured: ${hlo.bytesText(measured)}`));
    }
    const mark = hlo.svg("path", { class: "mark" });
    plot.append(mark);
    const at = hlo.element("h2");
    const list = hlo.element("tbody");
    const choose = (step) => {
      mark.setAttribute("d", `M${xs(step)} ${chart.top}V${chart.bottom}`);
      const point = points.findLast(([n]) => n <= step) ?? points[0];
      const live = data.buffers.filter((b) => b.begin <= step && step <= b.end)
        .sort((a, b) => b.bytes - a.bytes);
      at.textContent = `Step ${step}: ${hlo.bytesText(point[2])} live, ` +
        `${hlo.counted(live.length, "buffer")}, at ${point[1]}`;
      list.replaceChildren(...live.slice(0, MOST).map((buffer) => row(buffer, show)));
      if (live.length > MOST) {
        list.append(hlo.element("tr", {}, hlo.element("td", { colspan: 5, class: "muted" },
          `and ${live.length - MOST} smaller ones`)));
      }
    };
    chart.svg.addEventListener("click", (event) => {
      const box = chart.svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * WIDTH;
      choose(Math.min(last, Math.max(first, Math.round(xs.invert(x)))));
    });
    chart.svg.setAttribute("tabindex", "0");
    let step = data.peak_step;
    chart.svg.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (move === undefined) return;
      event.preventDefault();
      step = Math.min(last, Math.max(first, step + move));
      choose(step);
    });
    const advice = data.advice.map((text) => hlo.element("li", {}, text));
    holder.append(
      hlo.element("p", {}, `At most ${hlo.bytesText(data.peak_bytes)} are live, at step ` +
        `${data.peak_step}; allocated: ${hlo.bytesText(data.planned_bytes)}; ` +
        (measured === null ? "not measured; pass --profile FILE.json (from hlo-run --profile). "
          : `the high-water mark of a run: ${hlo.bytesText(measured)}. `) +
        "Click or use the arrow keys to select a step."),
      chart.svg, advice.length > 0 ? hlo.element("h2", {}, "How to lower it") : "",
      hlo.element("ul", {}, ...advice), at, hlo.element("div", { class: "scrolls" },
        hlo.element("table", {}, hlo.element("thead", {}, hlo.element("tr", {},
          ...["bytes", "buffer", "shape", "kind", "live at steps"].map((text, n) =>
            hlo.element("th", { class: n === 0 ? "number" : "" }, text)))), list)));
    choose(data.peak_step);
  };

  const row = (buffer, show) => hlo.element("tr", {},
    hlo.element("td", { class: "number" }, hlo.bytesText(buffer.bytes)),
    hlo.element("td", {}, hlo.element("button",
      { type: "button", class: "link", onclick: () => show(buffer.name) }, buffer.name)),
    hlo.element("td", {}, hlo.element("code", {}, hlo.shortShape(buffer.shape))),
    hlo.element("td", {}, buffer.kind),
    hlo.element("td", {}, `${buffer.begin} – ${buffer.end}`));
})(globalThis.hlo ??= {});
