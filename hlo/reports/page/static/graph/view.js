"use strict";
// The drawing: nodes, open items around them, edges, selection, and what keys and clicks do.
((hlo) => {
  const { LINE, PAD_X, PAD_Y } = hlo.labelSizes;
  const MOST_VISIBLE = 400, LEGIBLE = 0.9, LEAST = 0.4, MOST_LOOK = 2000;

  let count = 0;

  hlo.GraphView = class {
    /** holder: an element that the drawing fills. onSelect(item or null) is told what is chosen. */
    constructor(holder, module, { onSelect = () => {}, onHover = () => {} } = {}) {
      Object.assign(this, { holder, module, onSelect, onHover, selected: null, heat: "category" });
      // Of each drawing its own: those of one that is hidden are not drawn elsewhere either.
      count += 1;
      this.heads = { plain: `url(#head-${count})`, strong: `url(#strong-${count})` };
      this.layer = hlo.svg("g");
      this.svg = hlo.svg("svg", { class: "graph", tabindex: "0", role: "application",
        "aria-label": "Graph. Arrows: next node along edges. Enter: open or close. " +
          "Plus and minus: zoom. 0: all of it." },
        hlo.svg("defs", {}, arrowHead(`head-${count}`, "head"),
                             arrowHead(`strong-${count}`, "head-strong")), this.layer);
      holder.append(this.svg);
      this.viewport = new hlo.Viewport(this.svg, this.layer);
      this.svg.addEventListener("keydown", (event) => this.#key(event));
      this.svg.addEventListener("click", (event) => this.#click(event));
      this.svg.addEventListener("dblclick", (event) => this.#doubleClick(event));
      this.svg.addEventListener("pointerover", (event) => this.#hover(event));
      this.svg.addEventListener("pointerleave", () => this.#highlight(null));
      this.cache = new Map();
      this.showComputation(module.entry);
    }

    showComputation(comp) {
      this.tree = new hlo.Tree(this.module, comp);
      this.tree.openSome();
      this.selected = null;
      this.draw();
      this.viewport.fit(LEGIBLE, this.#start());
      this.onSelect(null);
    }

    /** Draws everything anew; a box that is given stays where it is on the screen. */
    draw(anchor = null) {
      const before = anchor === null ? null : this.places.get(anchor.key);
      this.edges = this.tree.edges();
      const levels = hlo.levelsOf(this.tree.root, this.edges);
      this.layout = hlo.layOut(this.tree.root, levels, hlo.measured, hlo.headerWidth, this.cache);
      this.places = new Map();
      this.paths = new Map();
      this.nodes = new Map();
      this.#locate(this.layout, 0, 0);
      this.layer.replaceChildren(this.#level(this.layout));
      this.viewport.setContent(this.layout.width, this.layout.height);
      const after = anchor === null ? undefined : this.places.get(anchor.key);
      if (before !== null && after !== undefined) {
        this.viewport.x += (before.x - after.x) * this.viewport.scale;
        this.viewport.y += (before.y - after.y) * this.viewport.scale;
      }
      this.viewport.apply();
      this.#mark();
    }

    /** Returns the x of what is drawn on top. */
    #start() {
      const top = [...this.layout.boxes.values()].sort((a, b) => a.y - b.y || b.width - a.width)[0];
      return top === undefined ? 0 : top.x + top.width / 2;
    }

    #locate(layout, x, y) {
      for (const box of layout.boxes.values()) {
        const { item, width, height } = box;
        this.places.set(item.key, { item, x: x + box.x, y: y + box.y, width, height });
        if (box.inner !== null) this.#locate(box.inner, x + box.x, y + box.y);
      }
    }

    #level(layout) {
      const group = hlo.svg("g", { class: "level" });
      for (const { path, piece, isBack, isFar, hasHead } of layout.routes) {
        const isControl = piece.edges.every((edge) => edge.isControl);
        const style = ["edge", isBack && "back", isFar && "far", isControl && "control"]
          .filter(Boolean).join(" ");
        const node = hlo.svg("path", { d: path, class: style,
                                       "marker-end": hasHead ? this.heads.plain : null });
        for (const edge of piece.edges) {
          for (const end of [edge.from.key, edge.to.key]) {
            if (!this.paths.has(end)) this.paths.set(end, new Set());
            this.paths.get(end).add(node);
          }
        }
        group.append(node);
      }
      for (const box of layout.boxes.values()) {
        group.append(box.inner === null ? this.#node(box) : this.#openBox(box));
      }
      return group;
    }

    #frame(box, style, children) {
      const { item, x, y } = box;
      const node = hlo.svg("g", { class: style, transform: `translate(${x} ${y})`,
        "data-key": item.key, tabindex: "-1", role: "button",
        "aria-label": hlo.spokenOf(item),
        "aria-expanded": item.canOpen ? String(item.isOpen) : null }, ...children);
      this.nodes.set(item.key, node);
      return node;
    }

    #node(box) {
      const { item, width, height } = box;
      const { lines } = hlo.measured(item);
      const category = item.kind === "instruction"
        ? this.module.text("categories", item.id) : "group";
      const rect = hlo.svg("rect", { width, height, rx: item.kind === "instruction" ? 4 : 10 });
      const isResult = item.kind === "instruction" && this.module.isRoot(item.id);
      const style = `node ${item.kind} ${category}${isResult ? " result" : ""}`;
      const text = lines.map(({ text: words, style: font }, n) =>
        hlo.svg("text", { class: `label ${font}`, x: PAD_X, y: PAD_Y + LINE * (n + 0.76) }, words));
      const node = this.#frame(box, style, [rect, ...text, this.#toggle(item, width)]);
      const share = this.#share(item);
      if (share !== null) node.style.setProperty("--heat", `${Math.round(share * 100)}%`);
      return node;
    }

    #openBox(box) {
      const { item, width, height, inner } = box;
      const title = hlo.svg("text", { class: "label title", x: PAD_X, y: 20 }, hlo.titleOf(item));
      const odd = item.depth % 2 === 1 ? " odd" : "";
      return this.#frame(box, `open ${item.kind}${odd}`, [
        hlo.svg("rect", { width, height, rx: 10 }), this.#level(inner), title,
        this.#toggle(item, width),
      ]);
    }

    #toggle(item, width) {
      if (!item.canOpen) return null;
      const bars = item.isOpen ? "M-4 0H4" : "M-4 0H4M0 -4V4";
      return hlo.svg("g", { class: "toggle", transform: `translate(${width - 14} 14)` },
                     hlo.svg("circle", { r: 8 }), hlo.svg("path", { d: bars }));
    }

    // --- heat ------------------------------------------------------------------------------------

    /** Colours nodes by `category`, or by their share of `flops`, `bytes` or `seconds`. */
    colourBy(heat) {
      this.heat = heat;
      this.svg.classList.toggle("heated", heat !== "category");
      this.draw(this.selected);
    }

    /** Returns the share of an item in the largest cost that is visible, null without heat. */
    #share(item) {
      if (this.heat === "category") return null;
      if (this.heatOf !== this.layout || this.heatBy !== this.heat) {
        Object.assign(this, { heatOf: this.layout, heatBy: this.heat });
        this.hottest = Math.max(0, ...[...this.places.values()]
          .filter(({ item: i }) => !i.isOpen).map(({ item: i }) => this.#cost(i)));
      }
      return this.hottest > 0 ? this.#cost(item) / this.hottest : 0;
    }

    #cost(item) {
      const { module } = this;
      if (item.kind === "instruction") return module.cost(item.id)[this.heat];
      const group = item.kind === "group" ? item.id : module.rootGroup.get(item.id);
      return module.costOfGroup(group)[this.heat];
    }

    // --- selection -------------------------------------------------------------------------------

    select(item, { focus = false } = {}) {
      this.selected = item;
      this.#mark();
      if (focus && item !== null) this.nodes.get(item.key)?.focus({ preventScroll: true });
      this.onSelect(item);
    }

    /** Shows an instruction, opening what is around it; false if it is nowhere to be seen. */
    reveal(inst) {
      const comp = this.module.comp[inst];
      let item = this.tree.reveal(inst);
      if (item === null && this.tree.root.id !== this.module.entry) {
        this.tree = new hlo.Tree(this.module, this.module.entry);
        item = this.tree.reveal(inst);
      }
      if (item === null && this.tree.root.id !== comp) {
        this.tree = new hlo.Tree(this.module, comp);
        item = this.tree.reveal(inst);
      }
      if (item === null) return false;
      this.draw();
      this.viewport.centre(this.places.get(item.key));
      this.select(item, { focus: true });
      return true;
    }

    toggle(item) {
      this.tree.toggle(item);
      this.draw(item);
      this.select(item, { focus: true });
    }

    /** Opens what is closed, as far as it fits; returns whether that was everything. */
    openLevel() {
      const isAll = this.tree.openLevel(MOST_VISIBLE);
      this.draw(this.selected);
      this.viewport.fit(LEAST, this.#start());
      return isAll;
    }

    closeAll() {
      this.tree.closeAll();
      this.selected = null;
      this.draw();
      this.viewport.fit(LEGIBLE, this.#start());
      this.onSelect(null);
    }

    #mark() {
      this.layer.querySelectorAll(".selected").forEach((n) => n.classList.remove("selected"));
      if (this.selected !== null) this.nodes.get(this.selected.key)?.classList.add("selected");
      this.#highlight(this.selected);
    }

    #highlight(item) {
      const shown = item ?? this.selected;
      for (const path of this.lit ?? []) {
        path.classList.remove("strong");
        if (path.hasAttribute("marker-end")) path.setAttribute("marker-end", this.heads.plain);
      }
      this.lit = shown === null ? [] : [...this.paths.get(shown.key) ?? []];
      for (const path of this.lit) {
        path.classList.add("strong");
        if (path.hasAttribute("marker-end")) path.setAttribute("marker-end", this.heads.strong);
      }
    }

    // --- mouse -----------------------------------------------------------------------------------

    #itemAt(event) {
      const node = event.target.closest?.("[data-key]");
      return node === null || node === undefined ? null : this.places.get(node.dataset.key).item;
    }

    #click(event) {
      if (this.svg.classList.contains("drags")) return;
      const item = this.#itemAt(event);
      if (item !== null && event.target.closest(".toggle") !== null) this.toggle(item);
      else this.select(item, { focus: true });
    }

    #doubleClick(event) {
      const item = this.#itemAt(event);
      if (item?.canOpen && event.target.closest(".toggle") === null) this.toggle(item);
    }

    #hover(event) {
      const item = this.#itemAt(event);
      this.#highlight(item);
      this.onHover(item, event);
    }

    // --- keys ------------------------------------------------------------------------------------

    #key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const act = this.#action(event.key, event.shiftKey);
      if (act === null) return;
      event.preventDefault();
      act();
    }

    #action(key, shift) {
      const arrows = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [1, 0],
                       ArrowRight: [-1, 0] };
      if (key in arrows && shift) return () => this.viewport.pan(...arrows[key]);
      if (key in arrows) return () => this.#go(key);
      const { viewport } = this;
      switch (key) {
        case "+": case "=": return () => viewport.zoomIn();
        case "-": return () => viewport.zoomOut();
        case "0": return () => viewport.fit();
        case "Enter": case " ":
          return () => this.selected?.canOpen ? this.toggle(this.selected) : undefined;
        case "Escape": return () => this.select(null);
        default: return null;
      }
    }

    /** Selects the next node: up to an operand, down to a user, or the nearest to the side. */
    #go(key) {
      const from = this.selected === null ? undefined : this.places.get(this.selected.key);
      const shown = [...this.places.values()].slice(0, MOST_LOOK);
      if (from === undefined) {
        if (shown.length > 0) this.#goTo(shown[0]);
        return;
      }
      const isUp = key === "ArrowUp", isDown = key === "ArrowDown";
      if (isUp || isDown) {
        const near = this.edges
          .filter((edge) => (isUp ? edge.to : edge.from) === this.selected)
          .map((edge) => this.places.get((isUp ? edge.from : edge.to).key))
          .sort((a, b) => distance(a, from) - distance(b, from));
        if (near.length > 0) return this.#goTo(near[0]);
      }
      const side = { ArrowLeft: (b) => b.x + b.width <= from.x,
                     ArrowRight: (b) => b.x >= from.x + from.width,
                     ArrowUp: (b) => b.y + b.height <= from.y,
                     ArrowDown: (b) => b.y >= from.y + from.height }[key];
      const near = shown.filter((box) => box !== from && side(box))
        .sort((a, b) => distance(a, from) - distance(b, from));
      if (near.length > 0) this.#goTo(near[0]);
    }

    #goTo(place) {
      this.viewport.show(place);
      this.select(place.item, { focus: true });
    }
  };

  /** Returns the label of an item for those who hear it. */
  hlo.spokenOf = (item) => hlo.labelOf(item).map(({ text }) => text).join(", ");

  function distance(a, b) {
    return Math.abs(a.x + a.width / 2 - b.x - b.width / 2) +
      2 * Math.abs(a.y + a.height / 2 - b.y - b.height / 2);
  }

  function arrowHead(id, kind) {
    return hlo.svg("marker", { id, class: kind, viewBox: "0 0 8 8", refX: 7.5, refY: 4,
                               markerWidth: 7, markerHeight: 7, orient: "auto",
                               markerUnits: "userSpaceOnUse" },
                   hlo.svg("path", { d: "M0 0L8 4L0 8Z" }));
  }
})(globalThis.hlo ??= {});
