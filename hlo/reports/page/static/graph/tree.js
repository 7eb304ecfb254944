"use strict";
// What of a module is visible: items in items, those that are closed and those that are open, and
// the edges between the closed ones.
((hlo) => {
  /** A group, an instruction, or a computation that runs inside one of several of an instruction. */
  class Item {
    constructor(tree, parent, kind, id, role = "") {
      Object.assign(this, { tree, parent, kind, id, role });
      const letter = { group: "g", instruction: "i", computation: "c" }[kind];
      this.local = `${letter}${id}${role}`;
      this.key = parent === null ? this.local : `${parent.key}/${this.local}`;
      this.depth = parent === null ? 0 : parent.depth + 1;
      this.made = null;
    }

    get module() { return this.tree.module; }
    get inside() { return this.kind === "instruction" ? this.module.inside[this.id] ?? [] : []; }
    get isOpen() { return this.parent === null || this.tree.open.has(this.key); }
    get canOpen() { return this.kind !== "instruction" || this.inside.length > 0; }

    /** The number of the computation whose instructions are right inside, or null. */
    get computation() {
      if (this.kind === "computation") return this.id;
      return this.inside.length === 1 ? this.inside[0][1] : null;
    }

    get children() {
      this.made ??= this.#makeChildren();
      return this.made;
    }

    #makeChildren() {
      if (this.inside.length > 1) {
        return this.inside.map(([role, comp]) =>
          new Item(this.tree, this, "computation", comp, role));
      }
      const { module } = this;
      const group = this.kind === "group" ? this.id : module.rootGroup.get(this.computation);
      const found = [];
      for (const part of module.parts[group]) {
        if (part.group !== undefined) {
          if (!module.isEmpty(part.group)) {
            found.push(new Item(this.tree, this, "group", part.group));
          }
        } else if (module.isShown(part.instruction)) {
          found.push(new Item(this.tree, this, "instruction", part.instruction));
        }
      }
      return found;
    }

    child(local) {
      this.byLocal ??= new Map(this.children.map((child) => [child.local, child]));
      return this.byLocal.get(local);
    }

    get size() {
      const { module } = this;
      if (this.kind === "group") return module.groupSize[this.id];
      return this.computations().reduce((n, c) => n + module.groupSize[module.rootGroup.get(c)], 0);
    }

    computations() {
      return this.kind === "computation" ? [this.id] : this.inside.map(([, comp]) => comp);
    }
  }

  /** True if a group has nothing but values that stand at their users. */
  hlo.Module.prototype.isEmpty = function (group) {
    return this.parts[group].every((part) =>
      part.group === undefined ? !this.isShown(part.instruction) : this.isEmpty(part.group));
  };

  /** True for an edge that is not drawn, since it would be one of dozens of one node: the label of
   *  the element, or of the result, says it. */
  hlo.Module.prototype.isTold = function (from, to) {
    const MANY = 8;
    if (this.opcode(from) === "parameter" && this.opcode(to) === "get-tuple-element") {
      return this.users[from].length > MANY;
    }
    return this.opcode(to) === "tuple" && this.isRoot(to) && this.operands[to].length > MANY;
  };

  hlo.Tree = class {
    constructor(module, computation) {
      this.module = module;
      this.open = new Set();
      this.root = new Item(this, null, "computation", computation);
    }

    /** Opens or closes an item; what is open inside it stays so. */
    toggle(item) {
      if (!item.canOpen || item.parent === null) return;
      if (!this.open.delete(item.key)) this.open.add(item.key);
    }

    /** Yields the items that are visible, parents first. */
    *visible(item = this.root) {
      for (const child of item.children) {
        yield child;
        if (child.isOpen) yield* this.visible(child);
      }
    }

    /** Opens the largest items as long as no more than LIMIT are visible, FEW at least. */
    openSome(few = 12, limit = 36) {
      let shown = [...this.visible()];
      while (shown.length < few) {
        const room = limit - shown.length;
        const next = shown.filter((i) => i.canOpen && !i.isOpen && i.children.length <= room)
          .sort((a, b) => b.size - a.size)[0];
        if (next === undefined) return;
        this.open.add(next.key);
        shown = [...this.visible()];
      }
    }

    /** Opens all closed items, the smallest first, while at most LIMIT are visible; returns
     *  whether that were all. */
    openLevel(limit) {
      let count = [...this.visible()].length;
      const closed = this.#closed().sort((a, b) => a.children.length - b.children.length);
      for (const item of closed) {
        count += item.children.length;
        if (count > limit) return false;
        this.open.add(item.key);
      }
      return true;
    }

    #closed() { return [...this.visible()].filter((item) => item.canOpen && !item.isOpen); }

    closeAll() { this.open.clear(); }

    /** Returns the item of an instruction of the root computation or of one that runs inside it,
     *  opening what is around it; null where it cannot be shown here. */
    reveal(inst) {
      const scope = this.#scopeOf(this.module.comp[inst]);
      if (scope === null) return null;
      let at = scope;
      for (const group of this.module.groupsAround(inst).slice(1)) {
        const child = at.child(`g${group}`);
        if (child === undefined) return null;
        this.open.add(child.key);
        at = child;
      }
      return at.child(`i${inst}`) ?? null;
    }

    /** Returns an open item right inside which are the instructions of a computation. */
    #scopeOf(comp) {
      if (comp === this.root.id) return this.root;
      this.callers ??= this.module.callers();
      for (const [caller, role] of this.callers.get(comp) ?? []) {
        const item = this.reveal(caller);
        if (item === null) continue;
        this.open.add(item.key);
        if (item.inside.length === 1) return item;
        const scope = item.child(`c${comp}${role}`);
        this.open.add(scope.key);
        return scope;
      }
      return null;
    }

    /** Returns the edges between visible items: { from, to, isControl, pairs }, where pairs are the
     *  edges of the module that it stands for. */
    edges() {
      const found = new Map();
      const scopes = [this.root];
      for (const item of this.visible()) {
        if (item.isOpen && item.computation !== null) scopes.push(item);
      }
      for (const scope of scopes) this.#edgesOf(scope, found);
      return [...found.values()];
    }

    #edgesOf(scope, found) {
      const { module } = this;
      const at = new Map();
      const place = (inst) => {
        if (!at.has(inst)) at.set(inst, this.#visibleItem(scope, inst));
        return at.get(inst);
      };
      const add = (from, to, pair, isControl) => {
        if (from === to || from === null || to === null) return;
        const key = `${from.key}>${to.key}`;
        const edge = found.get(key) ?? { key, from, to, isControl: true, pairs: [] };
        edge.isControl &&= isControl;
        edge.pairs.push(pair);
        found.set(key, edge);
      };
      for (const user of module.instructionsOf(scope.computation)) {
        const item = place(user);
        if (item === null) continue;
        module.operands[user].forEach((operand, n) => {
          // What stands at its users has no place that they could be joined to.
          if (!module.isShown(operand)) return;
          const from = place(operand);
          if (from === null || (from === item && !item.isOpen)) return;
          if (from.kind === "instruction" && module.isTold(operand, user)) return;
          add(this.#result(from, operand), this.#entry(item, user, n), [operand, user], false);
        });
        for (const before of module.control[user] ?? []) {
          add(place(before), item, [before, user], true);
        }
      }
    }

    /** Returns the innermost visible item that shows an instruction, null for one not shown. */
    #visibleItem(scope, inst) {
      let at = scope;
      for (const group of this.module.groupsAround(inst).slice(1)) {
        const child = at.child(`g${group}`);
        if (child === undefined) return null;
        at = child;
        if (!at.isOpen) return at;
      }
      return at.child(`i${inst}`) ?? null;
    }

    /** Where an open call hands out its result: at the root of what it calls. */
    #result(item, inst) {
      if (item.kind !== "instruction" || !item.isOpen || item.inside.length !== 1) return item;
      const root = this.module.computations[item.computation][1];
      const inner = this.#visibleItem(item, root);
      return inner === null ? item : this.#result(inner, root);
    }

    /** Where an open call takes an operand: at the parameter of what it calls. */
    #entry(item, inst, operand) {
      if (item.kind !== "instruction" || !item.isOpen || item.inside.length !== 1) return item;
      const parameter = this.module.parameters(item.computation)[operand];
      return (parameter === undefined ? null : this.#visibleItem(item, parameter)) ?? item;
    }
  };

  /** Returns for each computation the instructions inside which it runs, with its role there. */
  hlo.Module.prototype.callers = function () {
    const found = new Map();
    for (const [inst, rows] of Object.entries(this.inside)) {
      for (const [role, comp] of rows) {
        if (!found.has(comp)) found.set(comp, []);
        found.get(comp).push([Number(inst), role]);
      }
    }
    return found;
  };

  /** Returns the instructions of a computation, which are consecutive. */
  hlo.Module.prototype.instructionsOf = function (comp) {
    if (this.byComputation === undefined) {
      this.byComputation = this.computations.map(() => []);
      this.comp.forEach((c, inst) => this.byComputation[c].push(inst));
    }
    return this.byComputation[comp];
  };
})(globalThis.hlo ??= {});
