"use strict";
// The runs of the passes, and what each changed.
((hlo) => {
  hlo.passChanges = (holder, { pipeline, runs }) => {
    const total = runs.reduce((sum, run) => sum + run.seconds, 0);
    const changed = runs.filter((run) => run.rewrites > 0);
    const detail = hlo.element("div", { class: "changes", tabindex: "0" });
    const table = hlo.element("tbody");
    let all = false;
    const draw = () => table.replaceChildren(...(all ? runs : changed).map((run) => row(run)));
    const row = (run) => hlo.element("tr", { class: run.rewrites > 0 ? "" : "muted" },
      hlo.element("td", { class: "number" }, String(run.number)),
      hlo.element("td", {}, run.rewrites === 0 ? run.step : hlo.element("button",
        { type: "button", class: "link", onclick: (event) => choose(run, event) }, run.step)),
      hlo.element("td", { class: "number" }, run.rewrites.toLocaleString("en")),
      hlo.element("td", { class: "number" }, run.before === run.after ? String(run.after)
        : `${run.before} → ${run.after}`),
      hlo.element("td", { class: "number" }, (run.seconds * 1e3).toFixed(1)));
    const choose = (run, event) => {
      table.querySelector(".chosen")?.classList.remove("chosen");
      event?.target.closest("tr").classList.add("chosen");
      showRun(detail, run);
    };
    const toggle = hlo.element("label", {}, hlo.element("input", { type: "checkbox",
      onchange: (event) => { all = event.target.checked; draw(); } }), " also without changes");
    holder.append(
      hlo.element("p", {}, `Pipeline `, hlo.element("code", {}, pipeline || "(empty)"),
        `: ${hlo.counted(runs.length, "run")} of passes, ${changed.length} of them changed the ` +
        `module, in ${hlo.secondsText(total)}. `, toggle),
      hlo.element("div", { class: "split-passes" }, hlo.element("div", { class: "runs" },
        hlo.element("table", {}, hlo.element("thead", {}, hlo.element("tr", {},
          ...["#", "pass", "rewrites", "instructions", "ms"].map((text, n) =>
            hlo.element("th", { class: n === 1 ? "" : "number" }, text)))), table)), detail));
    draw();
    if (changed.length > 0) {
      table.firstElementChild.classList.add("chosen");
      choose(changed[0]);
    } else {
      detail.append(hlo.element("p", {}, "No pass changed the module."));
    }
  };

  function showRun(detail, run) {
    const rules = run.rules.map(([name, count]) => `${count} × ${name}`).join(", ");
    detail.replaceChildren(hlo.element("h2", {}, run.step), hlo.element("p", {}, rules,
      run.approximate > 0 ? `; ${run.approximate} of them round elsewhere` : ""));
    for (const { computation, rows } of run.computations) {
      detail.append(hlo.element("h3", {}, computation), sideBySide(rows));
    }
    if (run.omitted > 0) {
      detail.append(hlo.element("p", { class: "warning" },
        `${hlo.counted(run.omitted, "more changed line")} left out, so that this file stays small: ` +
        "hlo-opt --dump-dir writes the whole module before and after each pass."));
    } else if (run.computations.length === 0) {
      detail.append(hlo.element("p", { class: "muted" },
        "No line of an instruction differs: layouts, order or what is around them changed."));
    }
    detail.scrollTop = 0;
  }

  const marked = ({ same, differs, rest }) => [same, hlo.element("b", {}, differs), rest];

  function sideBySide(rows) {
    return hlo.element("table", { class: "sides" },
      hlo.element("thead", {}, hlo.element("tr", {}, hlo.element("th", {}, "before"),
                                           hlo.element("th", {}, "after"))),
      hlo.element("tbody", {}, ...rows.map(([kind, before, after]) => {
        if (kind === "gap") {
          return hlo.element("tr", {}, hlo.element("td", { colspan: 2, class: "gap" }, "⋮"));
        }
        const [left, right] = kind === "changed" ? hlo.differing(before, after).map(marked)
          : [[before], [after]];
        return hlo.element("tr", { class: kind === "" ? "muted" : "" },
          hlo.element("td", { class: kind !== "" && before !== "" ? "removed" : "" }, ...left),
          hlo.element("td", { class: kind !== "" && after !== "" ? "added" : "" }, ...right));
      })));
  }

  /** Returns two texts as { same, differs, rest } each: what differs between the same words at the
   *  beginning and at the end. */
  hlo.differing = (before, after) => {
    let head = 0, tail = 0;
    const least = Math.min(before.length, after.length);
    while (head < least && before[head] === after[head]) head++;
    while (tail < least - head && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
    const isWord = (text, at) => /[\w.-]/.test(text[at] ?? " ");
    const isInside = (text, at) => isWord(text, at - 1) && isWord(text, at);
    const both = [before, after];
    while (both.some((text) => isInside(text, head))) head--;
    while (both.some((text) => isInside(text, text.length - tail))) tail--;
    return both.map((text) => ({ same: text.slice(0, head),
                                 differs: text.slice(head, text.length - tail),
                                 rest: text.slice(text.length - tail) }));
  };
})(globalThis.hlo ??= {});
