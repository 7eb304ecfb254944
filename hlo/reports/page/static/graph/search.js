"use strict";
// Search in names, opcodes, shapes, computations, operations and source lines.
((hlo) => {
  const MOST = 60;

  /** Returns the numbers of the instructions that have every word somewhere. */
  hlo.found = (module, words) => {
    if (words.length === 0) return [];
    module.searched ??= module.names.map((name, inst) =>
      [name, module.title(inst), module.opcode(inst), module.shape(inst),
       module.computationName(inst), module.text("op_names", inst), module.text("sources", inst)]
        .join("\n").toLowerCase());
    const hits = [];
    module.searched.forEach((text, inst) => {
      if (hlo.hasWords(text, words)) hits.push(inst);
    });
    return hits;
  };

  /** Makes a search field with a list of hits; show(inst) is called with the one that is chosen. */
  hlo.searchField = (module, show) => {
    let hits = [], at = -1;
    const list = hlo.element("ul", { class: "hits", role: "listbox", id: "hits", hidden: true });
    const count = hlo.element("span", { class: "muted count", "aria-live": "polite" });
    const input = hlo.element("input", { type: "search", class: "find", role: "combobox",
      "aria-controls": "hits", "aria-expanded": "false", autocomplete: "off",
      "aria-label": "Search in the graph",
      placeholder: "Search: name, opcode, shape, operation" });
    const choose = (n) => {
      at = n;
      show(hits[n]);
      count.textContent = `${n + 1} of ${hits.length}`;
      [...list.children].forEach((row, k) => row.classList.toggle("chosen", k === n));
    };
    const close = () => {
      list.hidden = true;
      input.setAttribute("aria-expanded", "false");
    };
    input.addEventListener("input", () => {
      hits = hlo.found(module, hlo.words(input.value));
      at = -1;
      count.textContent = input.value.trim() === "" ? "" : `${hits.length} found`;
      list.replaceChildren(...hits.slice(0, MOST).map((inst, n) => hlo.element("li",
        { role: "option", onclick: () => { choose(n); close(); } },
        hlo.element("b", {}, module.names[inst]), ` ${module.title(inst)} `,
        hlo.element("span", { class: "muted" }, hlo.shortShape(module.shape(inst))))));
      if (hits.length > MOST) {
        list.append(hlo.element("li", { class: "muted" }, `and ${hits.length - MOST} more`));
      }
      list.hidden = hits.length === 0;
      input.setAttribute("aria-expanded", String(hits.length > 0));
    });
    input.addEventListener("keydown", (event) => {
      const step = { Enter: event.shiftKey ? -1 : 1, ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") close();
      if (step === undefined || hits.length === 0) return;
      event.preventDefault();
      choose((at + step + hits.length) % hits.length);
      if (event.key === "Enter") close();
      input.focus();
    });
    input.addEventListener("blur", () => setTimeout(close, 200));
    return hlo.element("div", { class: "search" }, input, count, list);
  };
})(globalThis.hlo ??= {});
