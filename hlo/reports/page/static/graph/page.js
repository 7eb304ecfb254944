"use strict";
// The page of `hlo-opt --stage=html`: nothing but the graph.
((hlo) => {
  hlo.ready(() => {
    const module = new hlo.Module(hlo.data("module"));
    hlo.graphPanel(document.getElementById("graph"), module);
  });
})(globalThis.hlo ??= {});
