"use strict";
// Shardings of instructions, and what collectives send.
((hlo) => {
  const MOST = 3000;

  hlo.distributionTables = (holder, data, show) => {
    if (data.error !== "") {
      holder.append(hlo.element("h2", { class: "warning" }, "It cannot be partitioned"),
                    hlo.element("pre", {}, data.error));
    }
    // Those of a program that has just been partitioned are in no graph of the page.
    const shown = data.shardings === null ? show : null;
    if (data.collectives !== null) collectives(holder, data.collectives, shown);
    if (data.shardings !== null) shardings(holder, data.shardings, show);
  };

  function collectives(holder, { network, rows }, show) {
    holder.append(hlo.element("h2", {}, "Collectives of each device's program"),
      hlo.element("p", { class: "muted" }, network),
      grid(["name", "opcode", "shape", "devices", "algorithm", "runs", "sent each run",
            "time each run"],
        rows.map(([name, opcode, shape, members, algorithm, runs, sent, seconds]) =>
          [name, opcode, shape, String(members), algorithm, String(runs), hlo.bytesText(sent),
           hlo.secondsText(seconds)]), new Set([3, 5, 6, 7]), show));
  }

  function shardings(holder, report, show) {
    const cut = report.instructions.filter((row) => row.sharding !== "{replicated}").length;
    holder.append(hlo.element("h2", {}, "Shardings"),
      hlo.element("p", {}, `${report.partitions} partitions` +
        (report.replicas > 1 ? `, ${report.replicas} replicas` : "") +
        `, mesh ${report.mesh.join(" × ")}: ${cut} of ` +
        `${hlo.counted(report.instructions.length, "instruction")} are distributed; ` +
        `${hlo.counted(report.collectives, "collective")} of ${hlo.bytesText(report.bytes)} ` +
        "on each device."));
    if (report.notes.length > 0) {
      holder.append(hlo.element("h2", { class: "warning" }, "Every device has to have all of"),
        grid(["instruction", "shape", "sharding", "bytes", "reason"], report.notes.map((note) =>
          [note.instruction, note.shape, note.sharding, hlo.bytesText(note.bytes), note.reason]),
          new Set([3]), show));
    }
    const changes = (row) => row.reshards.map((change) =>
      `${change.array}: ${change.from} → ${change.to}`).join("; ");
    const sent = (row) => row.collectives.map((c) =>
      `${c.opcode} ${hlo.bytesText(c.bytes)}`).join(", ");
    holder.append(grid(["instruction", "opcode", "shape", "sharding", "from", "changes", "sends"],
      report.instructions.map((row) => [row.name, row.opcode, row.shape, row.sharding, row.origin,
                                        changes(row), sent(row)]), new Set(), show));
  }

  /** Returns a table with a filter; the first column leads to the graph. */
  function grid(heads, rows, numbers, show) {
    const body = hlo.element("tbody");
    const note = hlo.element("span", { class: "muted" });
    const draw = (shown) => {
      body.replaceChildren(...shown.slice(0, MOST).map((row) => hlo.element("tr", {},
        ...row.map((text, n) => hlo.element("td", { class: numbers.has(n) ? "number" : "wraps" },
          n === 0 && show !== null ? hlo.element("button",
            { type: "button", class: "link", onclick: () => show(text) }, text) : text)))));
      note.textContent = shown.length > MOST ? `the first ${MOST} of ${shown.length}`
        : hlo.counted(shown.length, "row");
    };
    const input = hlo.element("input", { type: "search", placeholder: "Filter",
      "aria-label": "Filter the table", oninput: () => {
        const words = hlo.words(input.value);
        draw(rows.filter((row) => hlo.hasWords(row.join(" ").toLowerCase(), words)));
      } });
    draw(rows);
    return hlo.element("div", { class: "scrolls" }, hlo.element("p", {}, input, " ", note),
      hlo.element("table", {}, hlo.element("thead", {}, hlo.element("tr", {},
        ...heads.map((text, n) =>
          hlo.element("th", { class: numbers.has(n) ? "number" : "" }, text)))), body));
  }
})(globalThis.hlo ??= {});
