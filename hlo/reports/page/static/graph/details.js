"use strict";
// All there is to know of one instruction or group, as a panel and as a line under the mouse.
((hlo) => {
  const MOST_LINKS = 30, COSTLIEST = 8;
  // What a machine computes in the time that it takes to read a byte, for a rank without times.
  const FLOPS_A_BYTE = 16;

  /** Fills a panel. actions: { show(inst), table(inst) or null }. */
  hlo.showDetails = (panel, item, actions) => {
    panel.replaceChildren();
    if (item === null) {
      overview(panel, actions);
      panel.append(hlo.element("p", { class: "muted" },
        "Click a node for details; double-click it or click + to expand. " +
        "Arrow keys follow edges, Enter expands and collapses, + − 0 zoom."));
    } else if (item.kind === "instruction") {
      hlo.instructionDetails(panel, item.module, item.id, actions);
    } else {
      groupDetails(panel, item);
    }
  };

  hlo.instructionDetails = (panel, module, inst, actions) => {
    const isInexact = module.inexactSet.has(inst);
    const cost = `${hlo.flopsText(module.flops[inst])}, ${hlo.bytesText(module.bytes[inst])}` +
      (isInexact ? " or more" : "");
    const list = hlo.element("dl");
    panel.append(hlo.element("h3", {}, module.names[inst]), list);
    const add = (name, ...value) => {
      list.append(hlo.element("dt", {}, name), hlo.element("dd", {}, ...value));
    };
    add("opcode", module.title(inst));
    add("shape", code(module.shape(inst)));
    add("cost of a run", cost);
    if (module.seconds !== null && module.seconds[inst] > 0) {
      add("time", hlo.secondsText(module.seconds[inst]));
    }
    const opName = module.text("op_names", inst);
    if (opName !== "") add("operation", code(opName));
    const source = module.text("sources", inst);
    if (source !== "") add("source", code(source));
    if (module.hlo_lines[inst] > 0) add("HLO line", String(module.hlo_lines[inst]));
    if (module.sharding(inst) !== "") add("sharding", code(module.sharding(inst)));
    add("computation", code(module.computationName(inst)));
    links(add, "operands", module.operands[inst], module, actions);
    links(add, "users", module.users[inst], module, actions);
    const applied = module.applied[inst] ?? [];
    if (applied.length > 0) {
      add("applies", ...applied.flatMap((comp) => [
        link(module.computations[comp][0], () => actions.computation(comp)), " "]));
    }
    panel.append(hlo.element("pre", { class: "line" }, module.lines[inst]));
    if (actions.table !== undefined) {
      panel.append(hlo.element("button", { type: "button", onclick: () => actions.table(inst) },
                               "Show in the table"));
    }
  };

  /** The module as a whole, and the instructions that cost most in it. */
  function overview(panel, actions) {
    const { module } = actions;
    const rank = (inst) => module.seconds !== null ? module.seconds[inst]
      : Math.max(module.flops[inst], FLOPS_A_BYTE * module.bytes[inst]);
    const costliest = module.names.map((_, inst) => inst)
      .filter((inst) => rank(inst) > 0 && module.isShown(inst))
      .sort((a, b) => rank(b) - rank(a)).slice(0, COSTLIEST);
    panel.append(hlo.element("h3", {}, module.name),
      hlo.element("p", {}, `${hlo.counted(module.names.length, "instruction")} in ` +
        hlo.counted(module.computations.length, "computation")));
    if (costliest.length === 0) return;
    panel.append(hlo.element("h4", {}, "Costliest instructions"),
      hlo.element("ol", {}, ...costliest.map((inst) => hlo.element("li", {},
        link(module.names[inst], () => actions.show(inst)), hlo.element("div",
          { class: "muted" }, module.seconds !== null ? hlo.secondsText(module.seconds[inst])
            : `${hlo.flopsText(module.flops[inst])}, ${hlo.bytesText(module.bytes[inst])}`)))));
  }

  function groupDetails(panel, item) {
    const { module } = item;
    const group = item.kind === "group" ? item.id : module.rootGroup.get(item.id);
    const cost = module.costOfGroup(group);
    const list = hlo.element("dl");
    const add = (name, value) =>
      list.append(hlo.element("dt", {}, name), hlo.element("dd", {}, value));
    add("instructions", item.size.toLocaleString("en"));
    add("cost", `${hlo.flopsText(cost.flops)}, ${hlo.bytesText(cost.bytes)}`);
    if (cost.seconds > 0) add("time", hlo.secondsText(cost.seconds));
    const around = [];
    for (let at = item.parent; at !== null && at.parent !== null; at = at.parent) {
      around.unshift(hlo.titleOf(at));
    }
    if (around.length > 0) add("inside", code(around.join(" › ")));
    panel.append(hlo.element("h3", {}, hlo.titleOf(item)), list);
  }

  const code = (text) => hlo.element("code", {}, text);
  const link = (text, act) =>
    hlo.element("button", { type: "button", class: "link", onclick: act }, text);

  function links(add, name, instructions, module, actions) {
    if (instructions.length === 0) return;
    const some = instructions.slice(0, MOST_LINKS).flatMap((inst) =>
      [link(module.names[inst], () => actions.show(inst)),
       inst in module.values ? ` = ${module.values[inst]} ` : " "]);
    const rest = instructions.length - MOST_LINKS;
    add(`${name} (${instructions.length})`, ...some, rest > 0 ? `and ${rest} more` : null);
  }

  /** Returns what a tooltip says of an item, as lines. */
  hlo.tipOf = (item) => {
    const { module, id, kind } = item;
    if (kind !== "instruction") {
      return [hlo.titleOf(item), ...hlo.labelOf(item).slice(1).map(({ text }) => text)];
    }
    const { flops, bytes, seconds } = module.cost(id);
    const cost = [seconds > 0 ? hlo.secondsText(seconds) : null, hlo.flopsText(flops),
                  hlo.bytesText(bytes)].filter((text) => text !== null).join(" · ");
    const where = [module.text("op_names", id), module.text("sources", id)]
      .filter((text) => text !== "");
    return [module.lines[id].slice(0, 400), cost, ...where];
  };
})(globalThis.hlo ??= {});
