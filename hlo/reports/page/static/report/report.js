"use strict";
// The tabs of the report; each is filled when it is first looked at.
((hlo) => {
  hlo.ready(() => {
    const panels = [...document.querySelectorAll('[role="tabpanel"]')];
    const filled = new Map();
    const modules = new Map();
    const moduleOf = (name) => {
      if (!modules.has(name)) modules.set(name, new hlo.Module(hlo.data(name)));
      return modules.get(name);
    };

    /** Shows an instruction of the module as given, by number or by name, in the graph. */
    const showInGraph = (which) => {
      const module = moduleOf("module");
      const inst = typeof which === "number" ? which : module.names.indexOf(which);
      if (inst < 0) return;
      open("graph");
      filled.get("graph").choose("module").show(inst);
    };
    const showInTable = (inst) => {
      open("instructions");
      filled.get("instructions").show(inst);
    };

    const fill = {
      summary: () => null,
      graph: (panel) => graphs(panel, moduleOf, showInTable),
      instructions: (panel) => hlo.instructionTable(panel, moduleOf("module"), showInGraph),
      roofline: (panel) =>
        hlo.rooflineChart(panel, hlo.data("roofline"), moduleOf("module"), showInGraph),
      memory: (panel) => hlo.memoryChart(panel, hlo.data("memory"), showInGraph),
      passes: (panel) => hlo.passChanges(panel, hlo.data("passes")),
      distribution: (panel) =>
        hlo.distributionTables(panel, hlo.data("distribution"), showInGraph),
    };

    function open(name) {
      for (const panel of panels) {
        const isShown = panel.id === name;
        panel.hidden = !isShown;
        const tab = document.getElementById(`tab-${panel.id}`);
        tab.setAttribute("aria-selected", String(isShown));
        tab.tabIndex = isShown ? 0 : -1;
      }
      if (!filled.has(name)) filled.set(name, fill[name](document.getElementById(name)));
      if (location.hash.slice(1) !== name) history.replaceState(null, "", `#${name}`);
    }

    for (const panel of panels) {
      const tab = document.getElementById(`tab-${panel.id}`);
      tab.addEventListener("click", () => open(panel.id));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step === undefined) return;
        const next = panels[(panels.indexOf(panel) + step + panels.length) % panels.length];
        open(next.id);
        document.getElementById(`tab-${next.id}`).focus();
      });
    }
    const asked = location.hash.slice(1);
    open(panels.some(({ id }) => id === asked) ? asked : "summary");
  });

  /** The graph of the module as given, and of what the passes made of it. */
  function graphs(panel, moduleOf, showInTable) {
    const made = new Map();
    const holders = new Map();
    const choose = (name) => {
      select.value = name;
      for (const [other, holder] of holders) holder.hidden = other !== name;
      if (!made.has(name)) {
        const holder = hlo.element("div", { class: "graph-panel" });
        holders.set(name, holder);
        panel.append(holder);
        const options = name === "module" ? { table: showInTable } : {};
        made.set(name, hlo.graphPanel(holder, moduleOf(name), options));
      }
      holders.get(name).querySelector(".tools").prepend(select);
      return made.get(name);
    };
    const select = hlo.element("select", { "aria-label": "Module", title: "Module",
      onchange: () => choose(select.value) },
      hlo.element("option", { value: "module" }, "As given"),
      hlo.element("option", { value: "optimized" }, "After the passes"));
    choose("module");
    return { choose };
  }
})(globalThis.hlo ??= {});
