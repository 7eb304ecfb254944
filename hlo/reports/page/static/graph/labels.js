"use strict";
// What stands in a node, and how much room that takes.
((hlo) => {
  const LINE = 16, PAD_X = 10, PAD_Y = 7, LONGEST = 46, MOST_LINES = 4, TOGGLE = 20;

  /** Returns a text in lines of at most LONGEST characters, broken after marks where it has some;
   *  what does not fit into MOST_LINES ends in "…". */
  hlo.wrapped = (text, longest = LONGEST, mostLines = MOST_LINES) => {
    const lines = [];
    let rest = text;
    while (rest.length > longest) {
      const head = rest.slice(0, longest);
      const mark = Math.max(...["/", " ", "_", ".", ",", ":", "-"].map((m) => head.lastIndexOf(m)));
      const at = mark > longest / 3 ? mark + 1 : longest;
      lines.push(rest.slice(0, at).trimEnd());
      rest = rest.slice(at).trimStart();
    }
    lines.push(rest);
    if (lines.length <= mostLines) return lines;
    const kept = lines.slice(0, mostLines);
    kept[mostLines - 1] = `${kept[mostLines - 1].slice(0, longest - 1)}…`;
    return kept;
  };

  /** Returns a shape; of a long tuple how many elements it has, and the first. */
  hlo.shortShape = (shape) => {
    if (shape.length <= LONGEST || !shape.startsWith("(")) return shape;
    let depth = 0, count = 1, end = 0;
    for (let at = 0; at < shape.length; at++) {
      const c = shape[at];
      if ("([{<".includes(c)) depth++;
      else if (")]}>".includes(c)) depth--;
      else if (c === "," && depth === 1) {
        end ||= at;
        count++;
      }
    }
    return `${shape.slice(0, Math.min(end || LONGEST, LONGEST))}, … ${count} elements)`;
  };

  /** Returns the lines of a node: { text, style }, style "title", "name" or "shape". */
  hlo.labelOf = (item) => item.kind === "instruction" ? ofInstruction(item) : ofGroup(item);

  function ofInstruction({ module, id, inside }) {
    const name = module.names[id];
    const values = module.operands[id].map((o) => module.values[o] ?? "·");
    const told = values.some((v) => v !== "·") && values.length <= 4;
    const lines = hlo.wrapped(module.title(id) + (told ? ` (${values.join(", ")})` : ""))
      .map((text) => ({ text, style: "title" }));
    lines.push(...hlo.wrapped(name).map((text) => ({ text, style: "name" })));
    lines.push({ text: hlo.shortShape(module.shape(id)), style: "shape" });
    const of = module.operands[id][0];
    if (module.opcode(id) === "get-tuple-element" && module.isTold(of, id)) {
      lines.push(...hlo.wrapped(`of ${module.names[of]}`).map((text) => ({ text, style: "name" })));
    }
    for (const user of module.users[id]) {
      if (module.opcode(user) !== "tuple" || !module.isTold(id, user)) continue;
      lines.push({ text: `→ result ${module.operands[user].indexOf(id)}`, style: "name" });
    }
    if (inside.length > 0) lines.push({ text: sizeText(module, inside), style: "name" });
    return lines;
  }

  function sizeText(module, inside) {
    const count = inside.reduce((n, [, c]) => n + module.groupSize[module.rootGroup.get(c)], 0);
    return `${hlo.counted(count, "instruction")} inside`;
  }

  function ofGroup(item) {
    const { module } = item;
    const group = item.kind === "group" ? item.id : module.rootGroup.get(item.id);
    const { flops, bytes, seconds } = module.costOfGroup(group);
    const cost = [];
    if (seconds > 0) cost.push(hlo.secondsText(seconds));
    if (flops > 0) cost.push(hlo.flopsText(flops));
    if (bytes > 0) cost.push(hlo.bytesText(bytes));
    const lines = hlo.wrapped(hlo.titleOf(item)).map((text) => ({ text, style: "title" }));
    lines.push({ text: hlo.counted(item.size, "instruction"), style: "name" });
    if (cost.length > 0) lines.push({ text: cost.join(" · "), style: "shape" });
    return lines;
  }

  /** Returns the name of an item on one line, as long as it is. */
  hlo.titleOf = (item) => {
    const { module, kind, id, role } = item;
    if (kind === "group") return module.groups[id][2];
    if (kind === "computation") {
      return role === "" ? module.computations[id][0] : `${role}: ${module.computations[id][0]}`;
    }
    return `${module.title(id)} ${module.names[id]}`;
  };

  let context = null;
  const widths = new Map();

  /** Returns the width of a text in pixels, in the font that graph.css gives to a style. */
  hlo.textWidth = (text, style) => {
    const key = `${style} ${text}`;
    if (!widths.has(key)) {
      context ??= document.createElement("canvas").getContext("2d");
      context.font = fontOf(style);
      widths.set(key, context.measureText(text).width);
    }
    return widths.get(key);
  };

  const fonts = new Map();

  function fontOf(style) {
    if (!fonts.has(style)) {
      const probe = hlo.element("span", { class: `label ${style}`, hidden: true });
      document.body.append(probe);
      const { fontWeight, fontSize, fontFamily } = getComputedStyle(probe);
      fonts.set(style, `${fontWeight} ${fontSize} ${fontFamily}`);
      probe.remove();
    }
    return fonts.get(style);
  }

  /** Returns { lines, width, height } of a closed item. */
  hlo.measured = (item) => {
    const lines = hlo.labelOf(item);
    const toggle = item.canOpen ? TOGGLE : 0;
    const width = Math.max(...lines.map(({ text, style }, n) =>
      hlo.textWidth(text, style) + (n === 0 ? toggle : 0)));
    return { lines, width: Math.ceil(width) + 2 * PAD_X, height: lines.length * LINE + 2 * PAD_Y };
  };

  hlo.headerWidth = (item) =>
    item.parent === null ? 0 : hlo.textWidth(hlo.titleOf(item), "title") + 2 * PAD_X + TOGGLE + 8;

  hlo.labelSizes = { LINE, PAD_X, PAD_Y, TOGGLE };
})(globalThis.hlo ??= {});
