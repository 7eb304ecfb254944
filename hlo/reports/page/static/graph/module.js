"use strict";
// The module that a page was given: columns by instruction, as hlo/reports/graph/data.py has them.
((hlo) => {
  hlo.Module = class {
    constructor(data) {
      Object.assign(this, data);
      this.count = data.names.length;
      this.users = Array.from({ length: this.count }, () => []);
      data.operands.forEach((operands, user) => {
        for (const operand of new Set(operands)) this.users[operand].push(user);
      });
      this.groupCost = new Map();
      this.inexactSet = new Set(data.inexact);
      this.#makeGroups();
    }

    /** Gives each group its parts in order: { group } or { instruction }. */
    #makeGroups() {
      this.parts = this.groups.map(() => []);
      this.groupSize = this.groups.map(() => 0);
      this.rootGroup = new Map();
      const seen = new Set();
      this.groups.forEach(([around, comp], group) => {
        if (around < 0) this.rootGroup.set(comp, group);
      });
      for (let inst = 0; inst < this.count; inst++) {
        const own = this.group[inst];
        this.parts[own].push({ instruction: inst });
        for (let group = own; group >= 0; group = this.groups[group][0]) {
          this.groupSize[group]++;
          const around = this.groups[group][0];
          if (around >= 0 && !seen.has(group)) {
            seen.add(group);
            this.parts[around].push({ group });
          }
        }
      }
    }

    text(column, inst) { return this.texts[this[column][inst]]; }
    opcode(inst) { return this.text("opcodes", inst); }
    shape(inst) { return this.text("shapes", inst); }
    title(inst) { return this.titles[inst] ?? this.opcode(inst); }
    sharding(inst) { return inst in this.shardings ? this.texts[this.shardings[inst]] : ""; }
    isRoot(inst) { return this.computations[this.comp[inst]][1] === inst; }
    isShown(inst) { return !(inst in this.values); }
    computationName(inst) { return this.computations[this.comp[inst]][0]; }

    /** Returns the groups around an instruction, from that of the whole computation inwards. */
    groupsAround(inst) {
      const found = [];
      for (let group = this.group[inst]; group >= 0; group = this.groups[group][0]) {
        found.push(group);
      }
      return found.reverse();
    }

    parameters(comp) {
      this.parametersOf ??= this.#parametersByComputation();
      return this.parametersOf[comp];
    }

    #parametersByComputation() {
      const found = this.computations.map(() => []);
      for (let inst = 0; inst < this.count; inst++) {
        if (this.opcode(inst) !== "parameter") continue;
        found[this.comp[inst]][Number(this.titles[inst].split(" ")[1])] = inst;
      }
      return found;
    }

    /** Returns flops, bytes and seconds of all that is in a group, each instruction once. */
    costOfGroup(group) {
      if (!this.groupCost.has(group)) {
        const sum = { flops: 0, bytes: 0, seconds: 0 };
        for (const part of this.parts[group]) {
          const cost = part.group === undefined ? this.cost(part.instruction)
                                                : this.costOfGroup(part.group);
          for (const name of Object.keys(sum)) sum[name] += cost[name];
        }
        this.groupCost.set(group, sum);
      }
      return this.groupCost.get(group);
    }

    cost(inst) {
      return { flops: this.flops[inst], bytes: this.bytes[inst],
               seconds: this.seconds?.[inst] ?? 0 };
    }
  };
})(globalThis.hlo ??= {});
