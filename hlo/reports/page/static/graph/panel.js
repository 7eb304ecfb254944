"use strict";
// The graph with its tools: search, zoom, colours, computations, details.
((hlo) => {
  /** Fills an element with the graph of a module. table(inst), if given, shows it in a table. */
  hlo.graphPanel = (holder, module, { table } = {}) => {
    const stage = hlo.element("div", { class: "stage" });
    const details = hlo.element("aside", { class: "details", "aria-label": "Details" });
    const tip = hlo.element("div", { class: "tip", role: "tooltip", hidden: true });
    const note = hlo.element("span", { class: "muted", "aria-live": "polite" });
    let view = null;
    const actions = {
      module, table,
      computation: (comp) => {
        view.showComputation(comp);
        select.value = String(comp);
      },
      show: (inst) => {
        const first = module.isShown(inst) ? inst : module.users[inst][0];
        if (first === undefined || !view.reveal(first)) {
          note.textContent = `${module.names[inst]} is not drawn`;
        }
        if (first !== inst) {
          details.replaceChildren();
          hlo.instructionDetails(details, module, inst, actions);
        }
        select.value = String(view.tree.root.id);
      },
    };
    const select = computations(module, actions);
    const tools = hlo.element("div", { class: "tools" },
      hlo.searchField(module, actions.show), select, colours(module, () => view),
      button("−", "Zoom out", () => view.viewport.zoomOut()),
      button("+", "Zoom in", () => view.viewport.zoomIn()),
      button("Fit", "Show all of the graph", () => view.viewport.fit()),
      button("Open level", "Open all groups by one level", () => {
        note.textContent = view.openLevel() ? "" : "More than can be read: open single groups.";
      }),
      button("Close all", "Close all groups", () => view.closeAll()), note);
    holder.append(tools, hlo.element("div", { class: "split" }, stage, details), tip);
    view = new hlo.GraphView(stage, module, {
      onSelect: (item) => {
        note.textContent = "";
        hlo.showDetails(details, item, actions);
      },
      onHover: (item, event) => showTip(tip, item, event),
    });
    stage.addEventListener("pointerleave", () => { tip.hidden = true; });
    stage.addEventListener("pointerdown", () => { tip.hidden = true; });
    document.addEventListener("keydown", (event) => {
      const isTyping = event.target.closest?.("input, select, textarea") !== null;
      if (event.key === "/" && !isTyping && holder.offsetParent !== null) {
        event.preventDefault();
        holder.querySelector("input.find").focus();
      }
    });
    return { view, show: actions.show };
  };

  const button = (text, title, act) =>
    hlo.element("button", { type: "button", title, "aria-label": title, onclick: act }, text);

  function computations(module, actions) {
    const label = ([name], comp) => {
      const size = module.groupSize[module.rootGroup.get(comp)];
      return `${comp === module.entry ? "ENTRY " : ""}${name} (${size})`;
    };
    const options = module.computations.map((row, comp) =>
      hlo.element("option", { value: comp, selected: comp === module.entry }, label(row, comp)));
    options.sort((a, b) => (Number(b.value) === module.entry) - (Number(a.value) === module.entry));
    return hlo.element("select", { title: "Computation", "aria-label": "Computation",
      onchange: (event) => actions.computation(Number(event.target.value)) }, ...options);
  }

  function colours(module, view) {
    const options = [["category", "Colour: kind"], ["flops", "Colour: flops"],
                     ["bytes", "Colour: bytes"]];
    if (module.seconds !== null) options.push(["seconds", "Colour: time"]);
    return hlo.element("select", { title: "Colour nodes by", "aria-label": "Colour nodes by",
      onchange: (event) => view().colourBy(event.target.value) },
      ...options.map(([value, text]) => hlo.element("option", { value }, text)));
  }

  function showTip(tip, item, event) {
    tip.hidden = item === null || item.isOpen;
    if (tip.hidden) return;
    tip.replaceChildren(...hlo.tipOf(item).map((line) => hlo.element("div", {}, line)));
    const { innerWidth, innerHeight } = window;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.min(event.clientX + 16, innerWidth - width - 8)}px`;
    tip.style.top = event.clientY + 20 + height > innerHeight
      ? `${event.clientY - height - 12}px` : `${event.clientY + 20}px`;
  }
})(globalThis.hlo ??= {});
