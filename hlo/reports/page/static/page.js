"use strict";
// What every page has: its data, elements made of text that is never read as HTML, and tables.
((hlo) => {
  const parsed = new Map();

  /** Returns the value that the page was given as NAME; parsed when it is first asked for. */
  hlo.data = (name) => {
    if (!parsed.has(name)) {
      const holder = document.getElementById(`data-${name}`);
      parsed.set(name, holder === null ? null : JSON.parse(holder.textContent));
    }
    return parsed.get(name);
  };

  const SVG = "http://www.w3.org/2000/svg";

  function filled(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value === true) node.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) {
        node.setAttribute(name, value);
      }
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return node;
  }

  /** Returns an element; attributes `onclick` and the like are listeners, children text or nodes. */
  hlo.element = (tag, attributes, ...children) =>
    filled(document.createElement(tag), attributes, children);

  hlo.svg = (tag, attributes, ...children) =>
    filled(document.createElementNS(SVG, tag), attributes, children);

  // --- tables ------------------------------------------------------------------------------------

  /** Returns what a cell sorts by: its `data-value`, else a number if it is one, else its text. */
  function key(row, column) {
    const cell = row.cells[column];
    const text = cell?.dataset.value ?? cell?.textContent.trim() ?? "";
    const number = Number(text);
    return text !== "" && !Number.isNaN(number) ? number : text;
  }

  /** Orders numbers before text, each among themselves. */
  hlo.compare = (a, b) => {
    const isNumber = typeof a === "number";
    if (isNumber !== (typeof b === "number")) return isNumber ? -1 : 1;
    return isNumber ? a - b : a.localeCompare(b, "en", { numeric: true });
  };

  function sortBy(table, head) {
    const ascends = head.getAttribute("aria-sort") === "descending";
    const sign = ascends ? 1 : -1;
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", ascends ? "ascending" : "descending");
    for (const body of table.tBodies) {
      const rows = [...body.rows].map((row) => [key(row, head.cellIndex), row]);
      rows.sort((a, b) => sign * hlo.compare(a[0], b[0]));
      body.append(...rows.map(([, row]) => row));
    }
  }

  function makeSortable(table) {
    for (const head of table.tHead?.rows[0]?.cells ?? []) {
      const button = hlo.element("button", { type: "button", class: "sort",
                                             onclick: () => sortBy(table, head) });
      button.append(...head.childNodes);
      head.append(button);
    }
  }

  /** True if a text has every word. */
  hlo.hasWords = (text, words) => words.every((word) => text.includes(word));

  hlo.words = (text) => text.toLowerCase().split(/\s+/).filter((word) => word !== "");

  function makeFilter(input) {
    const table = document.getElementById(input.dataset.table);
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
    input.addEventListener("input", () => {
      const words = hlo.words(input.value);
      for (const row of rows) row.hidden = !hlo.hasWords(row.textContent.toLowerCase(), words);
    });
  }

  // --- light and dark ----------------------------------------------------------------------------

  function makeThemeButton(button) {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    button.addEventListener("click", () => {
      const now = document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
      document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
    });
  }

  /** Runs a function once the page is there. */
  hlo.ready = (run) => document.addEventListener("DOMContentLoaded", run);

  if (typeof document !== "undefined") {
    hlo.ready(() => {
      document.querySelectorAll("table.sortable").forEach(makeSortable);
      document.querySelectorAll("input.filter").forEach(makeFilter);
      document.querySelectorAll("button.theme").forEach(makeThemeButton);
    });
  }
})(globalThis.hlo ??= {});
