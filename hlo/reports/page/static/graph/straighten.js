"use strict";
// The x of nodes and of the lanes of edges, in rows whose order is known: edges become as straight
// as the room in the rows allows.
((hlo) => {
  const STEPS = 600_000, MOST_SWEEPS = 400, STILL = 0.3;

  /** Moves elements { x, half, row, links: [{ to, weight, shift }] } in rows. A link wants
   *  `to.x + shift` for x. In a row elements keep their order, and a gap between their halves.
   *
   *  What is minimized is the sum of weight * (x - wanted)^2 over all links. Row by row, with the
   *  others fixed, each step has an exact solution, and as no two rows constrain each other the
   *  steps lead to the best of all. */
  hlo.straighten = (rows, gap) => {
    for (const row of rows) row.sort((a, b) => a.x - b.x);
    const count = rows.reduce((sum, row) => sum + row.length, 1);
    const sweeps = Math.min(MOST_SWEEPS, STEPS / count);
    for (let sweep = 0; sweep < sweeps; sweep++) {
      let moved = 0;
      const order = sweep % 2 === 0 ? rows : [...rows].reverse();
      for (const row of order) moved = Math.max(moved, settle(row, gap));
      if (moved < STILL) return;
    }
  };

  /** Gives the elements of one row their best places; returns how far one of them moved. */
  function settle(row, gap) {
    // With the room that everything to its left needs taken off, each x is at least the one before:
    // neighbours that want to be the other way round share their mean.
    const blocks = [];
    let room = 0;
    row.forEach((element, n) => {
      if (n > 0) room += row[n - 1].half + gap + element.half;
      let weight = 0, sum = 0;
      for (const link of element.links) {
        weight += link.weight;
        sum += link.weight * (link.to.x + link.shift);
      }
      if (weight === 0) {
        weight = 1e-3;
        sum = weight * element.x;
      }
      let block = { weight, at: sum / weight - room, members: [[element, room]] };
      while (blocks.length > 0 && blocks.at(-1).at >= block.at) {
        const before = blocks.pop();
        const both = before.weight + block.weight;
        block = { weight: both, members: before.members.concat(block.members),
                  at: (before.at * before.weight + block.at * block.weight) / both };
      }
      blocks.push(block);
    });
    let moved = 0;
    for (const { at, members } of blocks) {
      for (const [element, offset] of members) {
        moved = Math.max(moved, Math.abs(at + offset - element.x));
        element.x = at + offset;
      }
    }
    return moved;
  }
})(globalThis.hlo ??= {});
