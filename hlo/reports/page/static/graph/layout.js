"use strict";
// Places of the visible items, and the routes of the edges between them.
//
// Each open item is laid out by itself, and then stands in the one around it as a box of known
// size. Where an edge crosses the border of an open item it passes through a port: a point on the
// upper border for each item outside that is read inside, one on the lower border for each item
// inside that is read outside. dagre says which row a node is in, its order there and its x; rows
// are as high as their highest node, an edge is vertical where it passes a row, in a lane of its
// own, and bends between rows only, so that no edge crosses a node.
((hlo) => {
  const GAP_X = 22, LANE = 10, GAP_Y = 30, MARGIN = 16, HEADER = 30;
  const TOP = "^top", BOTTOM = "^bottom", TIGHT = 50, FAR = 2, NEXT = 6;

  /** Returns for each open item { edges, ins, outs }: the pieces of edges right inside it. */
  hlo.levelsOf = (root, edges) => {
    const levels = new Map();
    const levelOf = (item) => {
      if (!levels.has(item)) {
        levels.set(item, { pieces: new Map(), ins: new Set(), outs: new Set() });
      }
      return levels.get(item);
    };
    const add = (level, piece, edge) => {
      const key = [piece.from, piece.fromPort, piece.to, piece.toPort].join(" ");
      const known = level.pieces.get(key) ?? { ...piece, edges: [] };
      known.edges.push(edge);
      level.pieces.set(key, known);
    };
    for (const edge of edges) {
      const meets = meeting(edge.from, edge.to);
      if (meets === null) continue;
      const { level, from, to } = meets;
      const out = `out ${edge.from.key}`, into = `in ${edge.from.key}`;
      for (let item = edge.from; item !== from; item = item.parent) {
        levelOf(item.parent).outs.add(out);
        add(levelOf(item.parent),
            { from: item.key, fromPort: item === edge.from ? "" : out, to: out, toPort: "" }, edge);
      }
      for (let item = edge.to; item !== to; item = item.parent) {
        levelOf(item.parent).ins.add(into);
        add(levelOf(item.parent),
            { from: into, fromPort: "", to: item.key, toPort: item === edge.to ? "" : into }, edge);
      }
      add(levelOf(level), { from: from.key, fromPort: from === edge.from ? "" : out,
                            to: to.key, toPort: to === edge.to ? "" : into }, edge);
    }
    levelOf(root);
    return levels;
  };

  /** Returns the innermost item around both, and what in it is or holds each of them. */
  function meeting(a, b) {
    let from = a, to = b;
    while (from.depth > to.depth) from = from.parent;
    while (to.depth > from.depth) to = to.parent;
    if (from === to) return null;
    while (from.parent !== to.parent) {
      from = from.parent;
      to = to.parent;
    }
    return { level: from.parent, from, to };
  }

  /** Lays out an open item and those inside. measure(item) returns the { width, height } of a
   *  closed one; headerWidth(item) that of an open one's title. Returns { width, height, boxes,
   *  routes, ports }: boxes by key with x and y in the item, and their own layout where they are
   *  open; routes: { path, piece, isBack, isFar, hasHead }. */
  hlo.layOut = (item, levels, measure, headerWidth, cache = new Map()) => {
    const boxes = new Map();
    for (const child of item.children) {
      const inner = child.isOpen
        ? hlo.layOut(child, levels, measure, headerWidth, cache) : null;
      const { width, height } = inner ?? measure(child);
      boxes.set(child.key, { item: child, inner, width, height, x: 0, y: 0 });
    }
    const level = levels.get(item) ?? { pieces: new Map(), ins: new Set(), outs: new Set() };
    const pieces = [...level.pieces.values()];
    const head = item.parent === null ? 0 : HEADER;
    const placed = place(boxes, pieces, level, cache);
    const width = Math.max(placed.width + 2 * MARGIN, headerWidth(item));
    const height = placed.height + 2 * MARGIN + head;
    const dx = (width - placed.width) / 2, dy = MARGIN + head;
    for (const [key, box] of boxes) {
      const { x, y } = placed.at.get(key);
      box.x = x + dx;
      box.y = y + dy;
    }
    const ports = new Map([...placed.ports].map(([key, x]) => [key, x + dx]));
    const frame = { height, dx, dy };
    const routes = pieces.map((piece) => route(piece, boxes, ports, placed, frame));
    return { width, height, boxes, routes, ports };
  };

  // --- one level ---------------------------------------------------------------------------------

  /** Returns the corners of boxes, the x of ports, the rows, and the lanes of each pair of ends. */
  function place(boxes, pieces, level, cache) {
    const order = new Map([...boxes.keys()].map((key, n) => [key, n]));
    const pairs = new Map();
    for (const piece of pieces) {
      const { from, to } = piece;
      // Groups that follow each other stand below each other.
      const isNext = order.get(to) - order.get(from) === 1 &&
        boxes.get(from).item.kind === "group" && boxes.get(to).item.kind === "group";
      const key = `${from} ${to}`;
      const pair = pairs.get(key) ?? { from, to, weight: isNext ? NEXT : 1, out: 0, into: 0 };
      // Where the edge leaves and enters, from the middle of the boxes.
      if (boxes.has(from)) pair.out = exit(boxes.get(from), piece) - boxes.get(from).width / 2;
      if (boxes.has(to)) pair.into = entrance(boxes.get(to), piece) - boxes.get(to).width / 2;
      pairs.set(key, pair);
    }
    const sizes = [...boxes].map(([key, { width, height }]) => [key, width, height]);
    const known = JSON.stringify([sizes, [...pairs.values()], [...level.ins], [...level.outs]]);
    if (!cache.has(known)) cache.set(known, arranged(sizes, [...pairs.values()], level));
    return cache.get(known);
  }

  function arranged(sizes, pairs, level) {
    const touched = new Set(pairs.flatMap(({ from, to }) => [from, to]));
    const linked = sizes.filter(([key]) => touched.has(key));
    const alone = sizes.filter(([key]) => !touched.has(key));
    const parts = level.ins.size + level.outs.size > 0
      ? [{ sizes: linked, pairs }] : components(linked, pairs);
    const done = parts.filter((part) => part.sizes.length > 0 || part.pairs.length > 0)
      .map((part) => layered(part.sizes, part.pairs, level));
    done.push(...alone.map(([key, width, height]) => single(key, width, height)));
    return shelved(done);
  }

  function single(key, width, height) {
    return { width, height, at: new Map([[key, { x: 0, y: 0, row: 0 }]]), ports: new Map(),
             rows: [{ top: 0, bottom: height }], lanes: new Map() };
  }

  function components(sizes, pairs) {
    const group = new Map(sizes.map(([key]) => [key, key]));
    const find = (key) => {
      while (group.get(key) !== key) {
        group.set(key, group.get(group.get(key)));
        key = group.get(key);
      }
      return key;
    };
    for (const { from, to } of pairs) group.set(find(from), find(to));
    const found = new Map();
    for (const size of sizes) {
      const key = find(size[0]);
      if (!found.has(key)) found.set(key, { sizes: [], pairs: [] });
      found.get(key).sizes.push(size);
    }
    for (const pair of pairs) found.get(find(pair.from)).pairs.push(pair);
    return [...found.values()];
  }

  /** Puts parts that have nothing to do with each other beside each other, in shelves. */
  function shelved(parts) {
    const area = parts.reduce((sum, p) => sum + (p.width + GAP_X) * (p.height + GAP_Y), 0);
    const limit = Math.max(Math.sqrt(area) * 1.5, ...parts.map((p) => p.width));
    const all = { width: 0, height: 0, at: new Map(), ports: new Map(), lanes: new Map(),
                  rows: [] };
    let x = 0, y = 0, high = 0;
    for (const part of parts) {
      if (x > 0 && x + part.width > limit) {
        x = 0;
        y += high + GAP_Y;
        high = 0;
      }
      const first = all.rows.length;
      for (const { top, bottom } of part.rows) all.rows.push({ top: top + y, bottom: bottom + y });
      for (const [key, spot] of part.at) {
        all.at.set(key, { x: spot.x + x, y: spot.y + y, row: spot.row + first });
      }
      for (const [key, at] of part.ports) all.ports.set(key, at + x);
      for (const [key, lanes] of part.lanes) {
        all.lanes.set(key, lanes.map((lane) => ({ x: lane.x + x, row: lane.row + first })));
      }
      all.width = Math.max(all.width, x + part.width);
      all.height = Math.max(all.height, y + part.height);
      x += part.width + GAP_X * 2;
      high = Math.max(high, part.height);
    }
    return all;
  }

  /** Lays out nodes in rows by dagre. */
  function layered(sizes, pairs, level) {
    const graph = new globalThis.dagre.graphlib.Graph();
    const isLarge = sizes.length > 300;
    graph.setGraph({ rankdir: "TB", nodesep: GAP_X, edgesep: LANE, ranksep: 20,
                     ranker: isLarge ? "longest-path" : "network-simplex" });
    for (const [key, width, height] of sizes) graph.setNode(key, { width, height });
    const ins = [...level.ins], outs = [...level.outs];
    for (const port of [...ins, ...outs]) graph.setNode(port, { width: LANE, height: 0 });
    for (const { from, to } of pairs) graph.setEdge(from, to, { weight: 1, minlen: 1 });
    hold(graph, ins, outs, sizes);
    globalThis.dagre.layout(graph);
    return spread(graph, sizes, pairs, ins, outs);
  }

  /** Holds ports above and below all nodes. */
  function hold(graph, ins, outs, sizes) {
    if (ins.length > 0) {
      graph.setNode(TOP, { width: 0, height: 0 });
      for (const port of ins) graph.setEdge(TOP, port, { weight: TIGHT, minlen: 1 });
      for (const [key] of sizes) {
        if (graph.inEdges(key).length === 0) graph.setEdge(TOP, key, { weight: 0, minlen: 2 });
      }
    }
    if (outs.length > 0) {
      graph.setNode(BOTTOM, { width: 0, height: 0 });
      for (const port of outs) graph.setEdge(port, BOTTOM, { weight: TIGHT, minlen: 1 });
      for (const [key] of sizes) {
        if (graph.outEdges(key).length === 0) {
          graph.setEdge(key, BOTTOM, { weight: 0, minlen: 2 });
        }
      }
    }
  }

  /** Returns the layout with rows as high as their nodes, and gaps as the edges between need. */
  function spread(graph, sizes, pairs, ins, outs) {
    const heights = new Map();
    for (const [key, , height] of sizes) {
      const y = Math.round(graph.node(key).y);
      heights.set(y, Math.max(heights.get(y) ?? 0, height));
    }
    const levels = [...heights.keys()].sort((a, b) => a - b);
    const rowAt = new Map(levels.map((y, row) => [y, row]));
    const elements = new Map();
    const add = (key, x, half, row) =>
      elements.set(key, { x, half, row, links: [] });
    for (const [key, width] of sizes) {
      const { x, y } = graph.node(key);
      add(key, x, width / 2, rowAt.get(Math.round(y)));
    }
    for (const port of ins) add(port, graph.node(port).x, LANE / 2, -1);
    for (const port of outs) add(port, graph.node(port).x, LANE / 2, levels.length);
    const chains = pairs.map((pair) => chainOf(graph, pair, elements, rowAt));
    const lanes = chains.map(({ stops }) => stops.slice(1, -1));
    const all = [...elements.values(), ...lanes.flat()];
    const byRow = Array.from({ length: levels.length + 2 }, () => []);
    for (const element of all) byRow[element.row + 1].push(element);
    hlo.straighten(byRow, LANE);
    const shift = Math.min(...all.map((e) => e.x - e.half));
    for (const element of all) element.x -= shift;
    const gaps = gapsBetween(chains, levels.length);
    let y = ins.length > 0 ? GAP_Y / 2 : 0;
    const rows = levels.map((level, row) => {
      const top = y, bottom = y + heights.get(level);
      y = bottom + gaps[row];
      return { top, bottom };
    });
    const at = new Map(sizes.map(([key, width, height]) => {
      const { x, row } = elements.get(key);
      const { top, bottom } = rows[row];
      return [key, { x: x - width / 2, y: top + (bottom - top - height) / 2, row }];
    }));
    return {
      width: Math.max(0, ...all.map((e) => e.x + e.half)),
      height: (rows.at(-1)?.bottom ?? 0) + (outs.length > 0 ? GAP_Y / 2 : 0),
      at, rows,
      ports: new Map([...ins, ...outs].map((port) => [port, elements.get(port).x])),
      lanes: new Map(pairs.map(({ from, to }, n) => [`${from} ${to}`, lanes[n]])),
    };
  }

  /** Returns the stops of an edge, { stops }: its ends, and between them its lane in each row that
   *  it passes; each is linked to the next. */
  function chainOf(graph, { from, to, weight, out, into }, elements, rowAt) {
    const passed = [];
    for (const { x, y } of graph.edge(from, to).points.slice(1, -1)) {
      const row = rowAt.get(Math.round(y));
      if (row !== undefined) passed.push({ x, half: LANE / 2, row, links: [] });
    }
    const stops = [elements.get(from), ...passed, elements.get(to)];
    for (let n = 1; n < stops.length; n++) {
      const a = stops[n - 1], b = stops[n];
      const isInner = n > 1 && n < stops.length - 1;
      const strength = weight * (isInner ? 8 : stops.length > 2 ? 2 : 1);
      const shift = (n === 1 ? out : 0) - (n === stops.length - 1 ? into : 0);
      a.links.push({ to: b, weight: strength, shift: -shift });
      b.links.push({ to: a, weight: strength, shift });
    }
    return { stops };
  }

  /** Returns the height of the gap below each row: more where edges go far to the side. */
  function gapsBetween(chains, count) {
    const far = new Array(count).fill(0);
    for (const { stops } of chains) {
      for (let n = 1; n < stops.length; n++) {
        const row = Math.min(stops[n - 1].row, stops[n].row);
        if (row < 0 || row >= count) continue;
        far[row] = Math.max(far[row], Math.abs(stops[n - 1].x - stops[n].x));
      }
    }
    return far.map((distance) => GAP_Y + Math.min(70, distance / 14));
  }

  // --- routes ------------------------------------------------------------------------------------

  /** Returns the path of a piece in the coordinates of the open item that it is in. */
  function route(piece, boxes, ports, placed, frame) {
    const { dx, dy } = frame;
    const rows = placed.rows.map(({ top, bottom }) => ({ top: top + dy, bottom: bottom + dy }));
    const lanes = (placed.lanes.get(`${piece.from} ${piece.to}`) ?? [])
      .map((lane) => ({ x: lane.x + dx, row: lane.row }));
    const from = boxes.get(piece.from), to = boxes.get(piece.to);
    const fromRow = placed.at.get(piece.from)?.row, toRow = placed.at.get(piece.to)?.row;
    const isBack = from !== undefined && to !== undefined && fromRow > toRow;
    const points = [];
    if (from === undefined) {
      points.push({ x: ports.get(piece.from), y: 0 });
    } else {
      const x = from.x + (isBack ? from.width / 2 : exit(from, piece));
      points.push({ x, y: isBack ? from.y : from.y + from.height });
      points.push({ x, y: isBack ? rows[fromRow].top : rows[fromRow].bottom });
    }
    for (const { x, row } of lanes) {
      const { top, bottom } = rows[row];
      points.push({ x, y: isBack ? bottom : top }, { x, y: isBack ? top : bottom });
    }
    if (to === undefined) {
      points.push({ x: ports.get(piece.to), y: frame.height });
    } else {
      const x = to.x + (isBack ? to.width / 2 : entrance(to, piece));
      points.push({ x, y: isBack ? rows[toRow].bottom : rows[toRow].top });
      points.push({ x, y: isBack ? to.y + to.height : to.y });
    }
    return { path: hlo.pathThrough(points), piece, isBack, isFar: lanes.length > FAR,
             hasHead: to !== undefined && piece.toPort === "" };
  }

  const exit = (box, { fromPort }) => box.inner?.ports.get(fromPort) ?? box.width / 2;
  const entrance = (box, { toPort }) => box.inner?.ports.get(toPort) ?? box.width / 2;

  /** Returns an SVG path: straight where two points have one x, else a curve with vertical ends. */
  hlo.pathThrough = (all) => {
    const text = (n) => String(Math.round(n * 10) / 10);
    // An arrowhead has the direction of the last piece, which therefore is no point.
    const points = all.filter((p, n) => n === 0 ||
      Math.abs(p.x - all[n - 1].x) + Math.abs(p.y - all[n - 1].y) > 0.5);
    let path = `M${text(points[0].x)} ${text(points[0].y)}`;
    for (let n = 1; n < points.length; n++) {
      const a = points[n - 1], b = points[n];
      if (Math.abs(a.x - b.x) < 0.5) {
        path += `V${text(b.y)}`;
      } else {
        const middle = (a.y + b.y) / 2;
        path += `C${text(a.x)} ${text(middle)} ${text(b.x)} ${text(middle)} ` +
          `${text(b.x)} ${text(b.y)}`;
      }
    }
    return path;
  };
})(globalThis.hlo ??= {});
