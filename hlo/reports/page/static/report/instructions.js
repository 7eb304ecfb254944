"use strict";
// The table of all instructions.
((hlo) => {
  /** Fills an element; choose(inst) is told of a row that is clicked. Returns { show(inst) }. */
  hlo.instructionTable = (holder, module, choose) => {
    const rows = Array.from({ length: module.count }, (_, inst) => inst);
    const count = hlo.element("span", { class: "muted", "aria-live": "polite" },
                              hlo.counted(rows.length, "instruction"));
    const input = hlo.element("input", { type: "search", class: "find",
      placeholder: "Filter: name, opcode, shape, operation", "aria-label": "Filter the table" });
    const place = hlo.element("div", { class: "fills" });
    holder.append(hlo.element("div", { class: "tools" }, input, count,
      hlo.element("span", { class: "muted" }, "A click shows the instruction in the graph.")), place);
    const columns = columnsOf(module);
    const grid = new hlo.Grid(place, rows, columns, choose);
    grid.sort(columns.find(({ title }) => title === (module.seconds === null ? "FLOP" : "time")));
    const filter = () => {
      const words = hlo.words(input.value);
      const hits = new Set(words.length === 0 ? rows : hlo.found(module, words));
      grid.filter((inst) => hits.has(inst));
      count.textContent = words.length === 0 ? hlo.counted(rows.length, "instruction")
        : `${grid.rows.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
    };
    input.addEventListener("input", filter);
    const show = (inst) => {
      input.value = "";
      filter();
      grid.show(inst);
    };
    return { show };
  };

  function columnsOf(module) {
    const text = (title, width, value) => ({ title, width, value, text: value, isNumber: false });
    const number = (title, width, value, shown, hint) =>
      ({ title, width, value, text: (inst) => shown(value(inst)), isNumber: true, hint });
    const runs = (inst) => module.computations[module.comp[inst]][2];
    const hasSharding = Object.keys(module.shardings).length > 0;
    return [
      number("#", "56px", (inst) => inst, String, "Place in the module"),
      text("name", "minmax(190px, 2fr)", (inst) => module.names[inst]),
      text("opcode", "minmax(110px, 1fr)", (inst) => module.title(inst)),
      text("shape", "minmax(130px, 1.6fr)", (inst) => module.shape(inst)),
      number("FLOP", "84px", (inst) => module.flops[inst], hlo.countText, "Of one run"),
      number("bytes", "90px", (inst) => module.bytes[inst], hlo.bytesText,
             "Read and written in one run, unfused; inside fusions none"),
      module.seconds === null ? null
        : number("time", "80px", (inst) => module.seconds[inst],
                 (s) => s === 0 ? "" : hlo.secondsText(s), `Of one run of the program, ${module.times ?? "measured"}`),
      number("runs", "64px", runs, (n) => n.toLocaleString("en"),
             "How often its computation runs in one run of the program"),
      text("computation", "minmax(90px, 1fr)", (inst) => module.computationName(inst)),
      { ...text("source", "minmax(110px, 1.2fr)", (inst) => module.text("sources", inst)),
        text: (inst) => module.text("sources", inst).split("/").at(-1),
        full: (inst) => module.text("sources", inst) },
      number("HLO line", "72px", (inst) => module.hlo_lines[inst], (n) => n === 0 ? "" : String(n)),
      hasSharding ? text("sharding", "minmax(110px, 1fr)", (inst) => module.sharding(inst)) : null,
      { ...text("operation", "minmax(200px, 2.4fr)", (inst) => module.text("op_names", inst)),
        isPath: true },
    ].filter((column) => column !== null);
  }
})(globalThis.hlo ??= {});
