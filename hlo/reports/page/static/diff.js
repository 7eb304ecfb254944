// Two modules side by side: rows of partners, in which unchanged ones are folded. Rows are made when
// they are shown, so that the page of a large module opens at once.
hlo.ready(() => {
  "use strict";
  const CONTEXT = 3; // unchanged rows that stay beside a change
  const LEAST = 8; // fewer unchanged rows than this are not worth folding
  const MOST = 400; // results of a search that are shown
  const [ID, KIND, LEFT, LEFT_LINE, RIGHT, RIGHT_LINE, DETAILS] = [0, 1, 2, 3, 4, 5, 6];
  const CLASSES = {
    removed: ["removed", "removed"], added: ["added", "added"], changed: ["changed", "changed"],
    moved: ["changed", "changed"], swapped: ["changed", "changed"], same: ["", ""],
  };
  const changed = (row) => row[KIND] !== "same";
  // Computations without a change come last.
  const sections = hlo.data("sections").map((section) =>
    ({ ...section, changes: section.rows.filter(changed).length }));
  sections.sort((a, b) => (b.changes > 0) - (a.changes > 0));
  const place = document.getElementById("sections");
  const search = document.getElementById("search");
  const found = document.getElementById("found");

  const sectionOf = new Map(); // row id -> section
  const defined = [new Map(), new Map()]; // "section name" -> row id, of each side
  sections.forEach((section, n) => {
    section.open = section.changes > 0;
    section.number = n;
    for (const row of section.rows) {
      sectionOf.set(row[ID], section);
      [row[LEFT], row[RIGHT]].forEach((text, side) => {
        const name = /^(?:ROOT )?(%\S+) =/.exec(text);
        if (name) defined[side].set(`${n} ${name[1]}`, row[ID]);
      });
    }
  });

  function code(text, side, section) {
    const parts = [];
    let at = 0;
    for (const match of text.matchAll(/%[\w.-]+/g)) {
      const row = defined[side].get(`${section.number} ${match[0]}`);
      if (row === undefined) continue;
      parts.push(text.slice(at, match.index));
      parts.push(hlo.element("button", { class: "name", "data-row": row }, match[0]));
      at = match.index + match[0].length;
    }
    parts.push(text.slice(at));
    return hlo.element("span", { class: "code" }, ...parts);
  }

  function cell(row, text, line, side, section) {
    const place = side ? "cell right" : "cell";
    if (!text) return hlo.element("div", { class: `${place} empty` });
    return hlo.element(
      "div", { class: `${place} ${CLASSES[row[KIND]][side]}`, "data-id": row[ID] },
      hlo.element("span", { class: "at" }, line ? String(line) : ""), code(text, side, section));
  }

  function shown(row, section) {
    const cells = [
      cell(row, row[LEFT], row[LEFT_LINE], 0, section),
      cell(row, row[RIGHT], row[RIGHT_LINE], 1, section),
    ];
    for (const detail of row[DETAILS]) cells.push(hlo.element("div", { class: "note" }, detail));
    return cells;
  }

  // The rows of a section as runs: those to show, and those to fold.
  function runs(section) {
    const rows = section.rows;
    const near = new Uint8Array(rows.length);
    rows.forEach((row, n) => {
      if (!changed(row)) return;
      for (let m = Math.max(0, n - CONTEXT); m <= Math.min(rows.length - 1, n + CONTEXT); m++) {
        near[m] = 1;
      }
    });
    const result = [];
    for (let n = 0; n < rows.length;) {
      let end = n;
      while (end < rows.length && near[end] === near[n]) end++;
      result.push({ rows: rows.slice(n, end), folds: !near[n] && end - n >= LEAST });
      n = end;
    }
    return result;
  }

  function fold(run, section) {
    const button = hlo.element(
      "button", { class: "fold", "aria-expanded": "false" }, `${run.rows.length} unchanged`);
    button.addEventListener("click", () => button.replaceWith(...run.rows.flatMap((row) => shown(row, section))));
    for (const row of run.rows) section.folds.set(row[ID], button);
    return button;
  }

  function grid(section) {
    section.folds = new Map();
    const cells = runs(section).flatMap((run) =>
      run.folds ? [fold(run, section)] : run.rows.flatMap((row) => shown(row, section)));
    return hlo.element("div", { class: "rows" }, ...cells);
  }

  function title(section) {
    const names = [section.left, section.right].filter(Boolean);
    const name = names.length === 2 && names[0] !== names[1] ? names.join(" → ") : names[0];
    const note = section.changes ? `${section.changes} changed` : "unchanged";
    const only = !section.left ? ", added" : !section.right ? ", removed" : "";
    return hlo.element(
      "h3", { role: "button", tabindex: "0" }, `${section.entry ? "ENTRY " : ""}${name}`,
      hlo.element("span", { class: "muted" }, `${section.rows.length} instructions, ${note}${only}`));
  }

  function open(section) {
    if (!section.grid) {
      section.grid = grid(section);
      section.element.append(section.grid);
    }
    section.grid.hidden = false;
  }

  function toggle(section) {
    if (section.grid && !section.grid.hidden) section.grid.hidden = true;
    else open(section);
  }

  function showAll() {
    place.replaceChildren();
    for (const section of sections) {
      section.grid = null;
      const head = title(section);
      section.element = hlo.element("section", { class: "section" }, head);
      head.addEventListener("click", () => toggle(section));
      head.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(section); }
      });
      place.append(section.element);
      if (section.open) open(section);
    }
  }

  function showFound(words) {
    place.replaceChildren();
    let count = 0;
    for (const section of sections) {
      const rows = section.rows.filter((row) => {
        const text = `${row[LEFT]} ${row[RIGHT]}`.toLowerCase();
        return words.every((word) => text.includes(word));
      });
      count += rows.length;
      const left = MOST - (count - rows.length);
      if (!rows.length || left <= 0) continue;
      const cells = rows.slice(0, left).flatMap((row) => shown(row, section));
      place.append(hlo.element(
        "section", { class: "section" }, title(section),
        hlo.element("div", { class: "rows" }, ...cells)));
    }
    found.textContent = `${count} found${count > MOST ? `, the first ${MOST} are shown` : ""}`;
  }

  function go(id) {
    if (search.value) { search.value = ""; update(); }
    const section = sectionOf.get(id);
    open(section);
    section.folds.get(id)?.click();
    const cells = place.querySelectorAll(`[data-id="${id}"]`);
    for (const old of place.querySelectorAll(".target")) old.classList.remove("target");
    for (const cell of cells) cell.classList.add("target");
    cells[0]?.scrollIntoView({ block: "center" });
  }

  function update() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found.textContent = "";
    if (words.length) showFound(words);
    else showAll();
  }

  search.addEventListener("input", update);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-row]");
    if (button) go(Number(button.dataset.row));
  });
  showAll();
});
