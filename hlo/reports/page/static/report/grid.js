"use strict";
// A table of any number of rows, of which only those in sight exist.
((hlo) => {
  const ROW = 26, SPARE = 12;

  hlo.Grid = class {
    /** columns: [{ title, width, value(row), text(row), full(row), isNumber, isPath, hint }]; value is
     *  what sorts, full the text of the tooltip if it is not `text`; of a path that is too long the
     *  end is shown. onChoose(row) is told of a click or the enter key. */
    constructor(holder, rows, columns, onChoose = () => {}) {
      Object.assign(this, { all: rows, rows, columns, onChoose, chosen: null, by: null, sign: 1 });
      const template = columns.map(({ width }) => width).join(" ");
      this.heads = columns.map((column) => hlo.element("button",
        { type: "button", class: column.isNumber ? "number" : "", role: "columnheader",
          title: column.hint ?? null, onclick: () => this.sort(column) }, column.title));
      this.head = hlo.element("div", { class: "grid-head", role: "row" }, ...this.heads);
      this.body = hlo.element("div", { class: "grid-body", role: "rowgroup" });
      this.view = hlo.element("div", { class: "grid", role: "grid", tabindex: "0",
        "aria-rowcount": String(rows.length), onscroll: () => this.#draw(),
        onkeydown: (event) => this.#key(event) }, this.head, this.body);
      this.view.style.setProperty("--columns", template);
      holder.append(this.view);
      new ResizeObserver(() => this.#draw()).observe(this.view);
      this.#draw();
    }

    filter(accepts) {
      this.rows = this.all.filter(accepts);
      this.view.scrollTop = 0;
      this.#order();
    }

    sort(column, sign = this.by === column ? -this.sign : column.isNumber ? -1 : 1) {
      Object.assign(this, { by: column, sign });
      this.#order();
    }

    /** Shows a row in the middle, and marks it. */
    show(row) {
      this.chosen = row;
      this.view.scrollTop = this.rows.indexOf(row) * ROW - this.view.clientHeight / 2;
      this.#draw();
    }

    #order() {
      const { by, sign } = this;
      if (by !== null) {
        this.rows = this.rows.map((row) => [by.value(row), row])
          .sort((a, b) => sign * hlo.compare(a[0], b[0])).map(([, row]) => row);
      }
      this.heads.forEach((head, n) => {
        const isBy = this.columns[n] === by;
        head.setAttribute("aria-sort", isBy ? (sign > 0 ? "ascending" : "descending") : "none");
      });
      this.#draw();
    }

    #draw() {
      this.body.style.height = `${this.rows.length * ROW}px`;
      const first = Math.max(0, Math.floor(this.view.scrollTop / ROW) - SPARE);
      const last = Math.min(this.rows.length,
                            first + Math.ceil(this.view.clientHeight / ROW) + 2 * SPARE);
      this.body.replaceChildren(...this.rows.slice(first, last)
        .map((row, n) => this.#row(row, first + n)));
    }

    #row(row, at) {
      const cells = this.columns.map((column) => {
        const text = column.text(row);
        return hlo.element("span",
          { role: "gridcell", class: column.isPath ? "path" : column.isNumber ? "number" : "",
            title: column.full?.(row) ?? text },
          column.isPath ? hlo.element("bdi", {}, text) : text);
      });
      const node = hlo.element("div", { role: "row", "aria-rowindex": String(at + 1),
        class: `grid-row${row === this.chosen ? " chosen" : ""}`,
        onclick: () => this.#choose(row) }, ...cells);
      node.style.top = `${at * ROW}px`;
      return node;
    }

    #choose(row) {
      this.chosen = row;
      this.#draw();
      this.onChoose(row);
    }

    #key(event) {
      const page = Math.max(1, Math.floor(this.view.clientHeight / ROW) - 2);
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
                     Home: -Infinity, End: Infinity }[event.key];
      if (event.key === "Enter" && this.chosen !== null) this.onChoose(this.chosen);
      if (step === undefined || this.rows.length === 0 || event.target !== this.view) return;
      event.preventDefault();
      const at = this.rows.indexOf(this.chosen);
      const next = Math.min(this.rows.length - 1, Math.max(0, at + step));
      this.chosen = this.rows[next];
      const top = next * ROW, { scrollTop, clientHeight } = this.view;
      if (top < scrollTop) this.view.scrollTop = top;
      if (top + 2 * ROW > scrollTop + clientHeight) this.view.scrollTop = top + 2 * ROW - clientHeight;
      this.#draw();
    }
  };
})(globalThis.hlo ??= {});
