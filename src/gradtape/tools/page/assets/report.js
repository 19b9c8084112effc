"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  // The parser knows the name of SVG's namespace.
  const template = document.createElement("template");
  template.innerHTML = "<svg></svg>";
  const SVG = template.content.firstChild.namespaceURI;
  window.gradtapeProfile = data;

  // Elements.
  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    return fill(made, attributes, children);
  }
  function drawn(tag, attributes = {}, ...children) {
    return fill(document.createElementNS(SVG, tag), attributes, children);
  }
  function fill(made, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (name === "text") made.textContent = value;
      else made.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
    return made;
  }
  const body = (id) => document.querySelector(`#${id} .body`);
  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  // Numbers.
  function digits(value) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
  }
  function seconds(value) {
    if (value === null || value === undefined) return "–";
    if (value >= 60) return `${digits(value / 60)} min`;
    if (value >= 1) return `${digits(value)} s`;
    if (value >= 1e-3) return `${digits(value * 1e3)} ms`;
    return value > 0 ? `${digits(value * 1e6)} µs` : "0";
  }
  function scaled(value, units) {
    let at = 0;
    while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
    return `${digits(value)} ${units[at]}`;
  }
  const bytes = (value) => scaled(value, ["B", "kB", "MB", "GB", "TB"]);
  const flops = (value) => scaled(value, ["flop", "kflop", "Mflop", "Gflop", "Tflop"]);
  const percent = (value) => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;
  const count = (value) => value.toLocaleString("en-US");
  function place(row) {
    if (!row.file) return "unknown line";
    const short = row.file.split(/[\\/]/).slice(-2).join("/");
    return `${short}:${row.line}`;
  }
  const wall = data.wall_seconds || 1e-9;

  // What was clicked.
  const detail = document.getElementById("detail");
  let opener = null;
  function show(from, title, row, facts, more = null) {
    opener = from;
    const list = element("dl", { class: "facts" });
    for (const [name, value] of facts) {
      if (value === null || value === undefined) continue;
      list.append(element("dt", { text: name }), element("dd", { text: value }));
    }
    const close = element("button", { class: "close", type: "button", "aria-label": "Close the details", text: "×", onclick: hide });
    detail.replaceChildren(
      close, element("h3", { text: title }),
      element("div", { class: "where", text: row && row.file ? `${row.file}:${row.line}${row.function ? ` in ${row.function}` : ""}` : "the line is not known: it was recorded before the profile began" }),
      ...(row && row.source ? [element("pre", { text: row.source })] : []), list, ...(more ? [more] : []));
    detail.hidden = false;
  }
  function hide() {
    detail.hidden = true;
    if (opener && opener.focus) opener.focus();
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !detail.hidden) hide(); });
  function clickable(open) {
    return {
      tabindex: 0, role: "button", onclick: open,
      onkeydown: (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(event); }
      },
    };
  }
  function table(columns, rows, caption) {
    const head = element("tr", {}, columns.map(([name, , kind]) => element("th", { text: name, class: kind, scope: "col" })));
    const lines = rows.map((row) => element("tr", {}, columns.map(([, value, kind]) => {
      const found = value(row);
      return found instanceof Node ? element("td", { class: kind }, found) : element("td", { class: kind, text: found });
    })));
    return element("div", { class: "tablewrap" }, element("table", {},
      element("caption", { class: "skip", text: caption }), element("thead", {}, head), element("tbody", {}, lines)));
  }
  const code = (row) => element("span", {}, element("span", { class: "code", text: row.source || "" }));

  // Summary.
  const PHASE_COLOURS = {
    "running plans": "forward", compiling: "building", differentiating: "backward", recording: "recording",
    "calling functions": "accent", running: "reading", Python: "python", waiting: "waiting",
  };
  const CAUSES = { "new structure": "new", "its structure was seen at other sizes": "known at other sizes", "too long to compare its structure": "too long to compare" };
  const PHASE_FLAME = { running: "running plans" };
  const PHASE_NAMES = { running: "starting plans" };
  function summary() {
    const into = body("summary");
    const counts = data.counters;
    document.getElementById("subtitle").textContent =
      `${seconds(data.wall_seconds)} on ${data.made.slice(0, 10)} · ${data.machine.threads} ${data.machine.threads === 1 ? "thread" : "threads"}, Python ${data.machine.python}, NumPy ${data.machine.numpy}`;
    if (data.advice.length) {
      const list = element("ol", { class: "advice" });
      for (const found of data.advice) {
        const open = (event) => show(event.currentTarget, found.sentence, found, [
          ["would save", `${seconds(found.seconds)}, ${percent(found.share)} of the time`], ["measured as", found.how], ["what to do", found.remedy],
        ]);
        list.append(element("li", {}, element("button", { class: "finding", type: "button", "data-kind": found.kind, onclick: open },
          element("span", {}, element("b", { text: seconds(found.seconds) }), element("span", { class: "share", text: `${percent(found.share)} less` })),
          element("span", {}, element("span", { class: "what", text: found.sentence }), " ", element("span", { class: "remedy", text: found.remedy }),
            element("span", { class: "code" }, element("span", { class: "where", text: place(found) }), "  ", found.source || "")))));
      }
      into.append(element("h3", { text: `${data.advice.length} ${data.advice.length === 1 ? "finding" : "findings"}` }), list);
    } else {
      into.append(element("p", { class: "empty", text: "Nothing was found that would save more than 1 % of the time." }), element("h3", {}));
    }
    const directions = data.directions.forward + data.directions.backward;
    const misses = data.caches.plans.misses;
    const tile = (name, value, note, key) => element("div", { class: "tile" }, element("dt", { text: name }),
      element("dd", { text: value, "data-number": key }, ...(note ? [element("small", { text: note })] : [])));
    into.append(element("dl", { class: "tiles" },
      tile("wall time", seconds(data.wall_seconds), `${seconds(data.cpu_seconds)} of processor time`, "wall"),
      tile("plans run", count(counts.plans_run), `${count(counts.ops_run)} ops`, "plans"),
      tile("backward", directions ? percent(data.directions.backward / directions) : "–", "of the time in plans", "backward"),
      tile("plans built", count(misses), Object.entries(data.caches.plans.causes).map(([why, n]) => `${n} ${CAUSES[why] || why}`).join(", ") || `${count(data.caches.plans.hits)} found`, "built"),
      tile("kernels compiled", count(counts.kernels_compiled), `${count(counts.kernels_loaded)} from disk, ${count(counts.kernels_reused)} reused`, "kernels"),
      tile("peak memory", bytes(data.memory.peak), "resident", "peak")));
    into.append(element("h3", { text: "Where the time went" }));
    const bar = element("div", { class: "phases", role: "img", "aria-label": data.phases.map((p) => `${p.name} ${seconds(p.seconds)}`).join(", ") });
    const legend = element("ul", { class: "legend" });
    const drawnPhases = data.phases.filter((phase) => phase.seconds > 0.0005 * wall);
    const inAll = drawnPhases.reduce((sum, phase) => sum + phase.seconds, 0) || 1;
    for (const phase of drawnPhases) {
      const name = PHASE_NAMES[phase.name] || phase.name;
      bar.append(element("span", { style: `width:${(100 * phase.seconds) / inAll}%;background:var(--${PHASE_COLOURS[phase.name]})`, title: `${name}: ${seconds(phase.seconds)}, ${percent(phase.seconds / inAll)}` }));
      legend.append(element("li", { title: phase.what }, element("i", { style: `background:var(--${PHASE_COLOURS[phase.name]})` }), name, element("b", { text: seconds(phase.seconds) })));
    }
    into.append(bar, legend);
    if (data.functions.length) {
      into.append(element("h3", { text: "Functions" }), table([
        ["function", (row) => row.name], ["kinds of arguments", (row) => count(row.kinds), "n"], ["calls", (row) => count(row.calls), "n"], ["captures", (row) => count(row.captures), "n"],
        ["time of captures", (row) => seconds(row.capture_seconds), "n"],
        ["runs as", (row) => (row.refused ? "Python" : row.native ? "native call" : "replay")],
        ["why", (row) => row.refused || row.why || ""],
      ], data.functions.slice(0, 30), "Functions and their captures"));
    }
  }

  // Time by line and by group.
  const COLUMNS = [["forward", "plans, forward"], ["backward", "plans, backward"], ["python", "Python"], ["recording", "recording"], ["reading", "reading values"], ["building", "building plans"]];
  function bars(rows, most, make) {
    const list = element("ul", { class: "bars" });
    let shown = 0;
    const more = element("button", { class: "more", type: "button" });
    function add() {
      for (const row of rows.slice(shown, shown + most)) list.append(element("li", {}, make(row)));
      shown = Math.min(rows.length, shown + most);
      more.textContent = `Show ${Math.min(most, rows.length - shown)} more of ${rows.length - shown}`;
      more.hidden = shown >= rows.length;
    }
    more.addEventListener("click", add);
    add();
    return [list, more];
  }
  function time() {
    const into = body("time");
    const lines = data.lines.filter((row) => row.seconds > 0);
    const groups = data.groups.filter((row) => row.seconds > 0);
    if (!lines.length && !groups.length) { into.append(element("p", { class: "empty", text: "No plan ran." })); return; }
    const longest = Math.max(...lines.map((row) => row.seconds), 1e-12);
    const left = element("div", {}, element("h3", { text: "Lines" }), bars(lines, 12, (row) => {
      const open = (event) => show(event.currentTarget, seconds(row.seconds), row, COLUMNS.map(([key, name]) => [name, row[key] > 0 ? `${seconds(row[key])}, ${percent(row[key] / wall)}` : null]), row.layers.length ? split(row.layers) : null);
      return element("button", { class: "bar", type: "button", "data-seconds": row.seconds, "aria-label": `${place(row)}, ${seconds(row.seconds)}`, onclick: open },
        element("span", { class: "row" }, element("span", { class: "label" }, element("span", { class: "where", text: row.file ? place(row) : "" }), element("span", { class: "code", text: row.source || (row.file ? "" : "lines that are not known") })), element("span", { class: "value", text: seconds(row.seconds) })),
        element("span", { class: "track" }, COLUMNS.map(([key]) => element("span", { style: `width:${(100 * row[key]) / longest}%;background:var(--${key})` }))));
    }), element("ul", { class: "legend" }, COLUMNS.map(([key, name]) => element("li", {}, element("i", { style: `background:var(--${key})` }), name))));
    const most = Math.max(...groups.map((row) => row.seconds), 1e-12);
    const right = element("div", {}, element("h3", { text: "Fused loops and library calls" }), bars(groups, 12, (row) => {
      const open = (event) => showGroup(event.currentTarget, row);
      return element("button", { class: "bar", type: "button", "data-seconds": row.seconds, "aria-label": `${row.kind} ${row.title}, ${seconds(row.seconds)}`, onclick: open },
        element("span", { class: "row" }, element("span", { class: "label" }, element("span", { class: "tag", text: row.kind }), element("span", { text: row.title }), element("span", { class: "where after", text: `${row.dtype}[${row.shape.join(", ")}]${row.file ? ` · ${place(row)}` : ""}` })), element("span", { class: "value", text: seconds(row.seconds) })),
        element("span", { class: "track" },
          element("span", { style: `width:${(100 * row.seconds * (1 - row.backward)) / most}%;background:var(--forward)` }),
          element("span", { style: `width:${(100 * row.seconds * row.backward) / most}%;background:var(--backward)` })));
    }));
    into.append(element("div", { class: "two" }, left, right));
    if (data.layers.length) {
      const top = Math.max(...data.layers.map((row) => row.seconds), 1e-12);
      into.append(element("h3", { text: "Layers: the time of plans by the module that recorded the op" }), ...bars(data.layers, 12, (row) => element("div", { class: "bar" },
        element("span", { class: "row" }, element("span", { class: "label", text: row.name || "outside of layers" }), element("span", { class: "value", text: `${seconds(row.seconds)} · ${percent(row.seconds / wall)}` })),
        element("span", { class: "track" }, ["forward", "backward"].map((key) => element("span", { style: `width:${(100 * row[key]) / top}%;background:var(--${key})` }))))));
    }
    into.append(element("details", {}, element("summary", { text: "Where values were read, and what that took" }), table([
      ["line", (row) => place(row)], ["", code], ["reads", (row) => count(row.count), "n"], ["all", (row) => seconds(row.seconds), "n"],
      ["in plans", (row) => seconds(row.running), "n"], ["building", (row) => seconds(row.building), "n"],
    ], data.readings.slice(0, 60), "Reads of values by line")));
    into.append(element("details", {}, element("summary", { text: "Plans" }), table([
      ["plan", (row) => `${row.number}`], ["of", (row) => row.owner || place(row)], ["tier", (row) => row.tier], ["runs", (row) => count(row.runs), "n"],
      ["time", (row) => seconds(row.seconds), "n"], ["ops", (row) => count(row.ops), "n"], ["groups", (row) => count(row.groups), "n"], ["arena", (row) => bytes(row.arena), "n"],
    ], data.plans.slice(0, 100), "Plans")));
  }
  function split(layers) {
    return element("div", {}, element("h3", { text: "Layers that this line calls" }), table([
      ["layer", (each) => each.name || "outside of layers"], ["forward", (each) => seconds(each.forward), "n"], ["backward", (each) => seconds(each.backward), "n"],
    ], layers.slice(0, 30), "Layers of this line"));
  }
  function showGroup(from, row) {
    const each = row.seconds / Math.max(row.runs, 1);
    const limits = data.machine.limits;
    const more = row.lines && row.lines.length > 1 ? element("div", {}, element("h3", { text: "Lines in this group" }), element("ul", { class: "legend" }, row.lines.map((line) => element("li", {}, element("i", { style: `background:var(--${line.backward ? "backward" : "forward"})` }), `${place(line)} `, element("b", { text: percent(line.share) }))))) : null;
    show(from, `${row.kind}: ${row.title}`, row, [
      ["time", `${seconds(row.seconds)} in ${count(row.runs)} runs, ${seconds(each)} each`],
      ["of the wall time", percent(row.seconds / wall)],
      ["shape", `${row.dtype} [${row.shape.join(", ")}], ${row.ops} ops`],
      ["work", `${flops(row.flops)}, ${flops(row.flops / Math.max(each, 1e-12))}/s`],
      ["memory", `${bytes(row.bytes)}, ${bytes(row.bytes / Math.max(each, 1e-12))}/s, ${percent(row.bytes / Math.max(each, 1e-12) / limits.bytes_per_second)} of what memory can`],
      ["direction", row.backward > 0.99 ? "backward" : row.backward < 0.01 ? "forward" : `${percent(row.backward)} backward`],
      ["threads", row.serial_seconds ? `${seconds(row.shared_seconds)} with ${data.machine.threads}, ${seconds(row.serial_seconds)} with one` : row.parallel ? "several" : "one"],
    ], more);
  }

  // Flame graph.
  function flame() {
    const into = body("flame");
    const found = data.flame.boxes;
    if (!found.length) { into.append(element("p", { class: "empty", text: "No stack was sampled: the profile was too short, ran in another thread than the main one, or the system has no timer of processor time." })); return; }
    const depth = [], left = [], used = found.map(() => 0);
    let sum = 0;
    found.forEach((box, n) => {
      const outer = box.inside;
      depth.push(outer < 0 ? 0 : depth[outer] + 1);
      left.push(outer < 0 ? sum : left[outer] + used[outer]);
      if (outer < 0) sum += box.seconds; else used[outer] += box.seconds;
    });
    const high = 24, host = element("div", { class: "flame", style: `height:${high * (Math.max(...depth) + 1)}px` });
    const all = sum || 1;
    const title = (box) => (box.phase ? PHASE_FLAME[box.phase] || box.phase : box.source || `${box.function} ${place(box)}`) + (box.phase && box.inside < 0 ? ", on no line of yours" : "");
    const made = found.map((box, n) => element("button", {
      type: "button", title: `${title(box)}\n${seconds(box.seconds)}, ${percent(box.seconds / all)}${box.file ? `\n${place(box)} in ${box.function}` : ""}`,
      "aria-label": `${title(box)}, ${seconds(box.seconds)}`, text: title(box),
      onclick: (event) => {
        zoom(n);
        show(event.currentTarget, title(box), box.phase ? (found[box.inside] || box) : box, [["time", `${seconds(box.seconds)}, ${percent(box.seconds / all)}`], ["of it on this line itself", box.phase ? null : seconds(Math.max(0, box.seconds - used[n]))]]);
      },
    }));
    function zoom(n) {
      const from = n < 0 ? 0 : left[n], span = n < 0 ? all : found[n].seconds;
      made.forEach((button, m) => {
        const begin = Math.max(0, (left[m] - from) / span), end = Math.min(1, (left[m] + found[m].seconds - from) / span);
        const style = button.style;
        style.display = end - begin > 0.0008 ? "" : "none";
        style.left = `${100 * begin}%`; style.width = `${100 * (end - begin)}%`; style.top = `${high * depth[m]}px`;
      });
    }
    found.forEach((box, n) => {
      const tone = box.phase ? PHASE_COLOURS[box.phase === "running" ? "running plans" : box.phase] || "waiting" : "flame";
      made[n].className = `tone-${tone}`;
      made[n].style.setProperty("--tone", `var(--${tone})`);
      host.append(made[n]);
    });
    const kinds = [["flame", "a line of yours, with what it calls"], ["forward", "running plans"], ["building", "compiling"], ["backward", "differentiating"], ["recording", "recording"], ["accent", "calling functions"]];
    into.append(element("div", { class: "controls" }, element("button", { type: "button", text: "all", "aria-label": "Show all", onclick: () => zoom(-1) }), element("span", { text: `${seconds(sum)} without waiting; a click on a box makes it as wide as the page` })), host,
      element("ul", { class: "legend" }, kinds.map(([tone, name]) => element("li", {}, element("i", { style: `background:var(--${tone})` }), name))));
    zoom(-1);
  }

  // Roofline.
  function roofline() {
    const into = body("roofline");
    const limits = data.machine.limits;
    const rows = data.groups.filter((row) => row.flops > 0 && row.bytes > 0 && row.seconds > 0).slice(0, 150);
    if (!rows.length) { into.append(element("p", { class: "empty", text: "No group with flops ran." })); return; }
    const width = Math.max(340, Math.min(1080, into.clientWidth || 1080)), height = width < 700 ? 330 : 430, pad = { left: 66, right: 20, top: 16, bottom: 46 };
    const points = rows.map((row) => ({ row, x: row.flops / row.bytes, y: (row.flops * row.runs) / row.seconds }));
    const decade = (value, up) => 10 ** (up ? Math.ceil(Math.log10(value)) : Math.floor(Math.log10(value)));
    const xs = points.map((p) => p.x), ys = points.map((p) => p.y);
    const x0 = decade(Math.min(...xs, 0.05), false), x1 = decade(Math.max(...xs, 50), true);
    const y1 = decade(Math.max(limits.flops_float32, limits.flops_float64) * 1.2, true), y0 = Math.min(decade(Math.max(Math.min(...ys), y1 * 1e-5), false), y1 * 1e-3);
    const sx = (value) => pad.left + ((Math.log10(value) - Math.log10(x0)) / (Math.log10(x1) - Math.log10(x0))) * (width - pad.left - pad.right);
    const sy = (value) => height - pad.bottom - ((Math.log10(Math.max(value, y0)) - Math.log10(y0)) / (Math.log10(y1) - Math.log10(y0))) * (height - pad.top - pad.bottom);
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Work per second of each group over its work per byte, under the limits of this machine" });
    for (let x = x0; x <= x1 * 1.01; x *= 10) svg.append(drawn("line", { class: "axis", x1: sx(x), x2: sx(x), y1: pad.top, y2: height - pad.bottom }), drawn("text", { x: sx(x), y: height - pad.bottom + 18, "text-anchor": "middle", text: x >= 1 ? count(x) : `${x.toPrecision(1)}` }));
    for (let y = y0; y <= y1 * 1.01; y *= 10) svg.append(drawn("line", { class: "axis", x1: pad.left, x2: width - pad.right, y1: sy(y), y2: sy(y) }), drawn("text", { x: pad.left - 8, y: sy(y) + 4, "text-anchor": "end", text: scaled(y, ["", "k", "M", "G", "T"]) }));
    svg.append(drawn("text", { x: (width + pad.left) / 2, y: height - 8, "text-anchor": "middle", text: "flops per byte of memory" }), drawn("text", { x: 16, y: (height - pad.bottom) / 2, transform: `rotate(-90 16 ${(height - pad.bottom) / 2})`, "text-anchor": "middle", text: "flop/s" }));
    for (const [name, peak, dash] of [["float64 products", limits.flops_float64, ""], ["float32 products", limits.flops_float32, "6 4"]]) {
      const knee = peak / limits.bytes_per_second;
      svg.append(drawn("path", { class: "roof", "stroke-dasharray": dash, d: `M${sx(x0)},${sy(x0 * limits.bytes_per_second)} L${sx(Math.min(knee, x1))},${sy(Math.min(knee, x1) * limits.bytes_per_second)} L${sx(x1)},${sy(peak)}` }),
        drawn("text", { x: sx(x1) - 4, y: sy(peak) - 6, "text-anchor": "end", text: `${name}: ${flops(peak)}/s` }));
    }
    const at = x0 * 2.2;
    const slope = (Math.atan2(sy(at * limits.bytes_per_second) - sy(at * 2 * limits.bytes_per_second), sx(at * 2) - sx(at)) * 180) / Math.PI;
    svg.append(drawn("text", { x: sx(at), y: sy(at * limits.bytes_per_second) - 8, transform: `rotate(${-slope} ${sx(at)} ${sy(at * limits.bytes_per_second) - 8})`, text: `memory: ${bytes(limits.bytes_per_second)}/s` }));
    const longest = Math.max(...rows.map((row) => row.seconds));
    for (const { row, x, y } of points.reverse()) {
      const open = (event) => showGroup(event.currentTarget, row);
      svg.append(drawn("circle", { class: `point${row.seconds < 0.003 * longest ? " dim" : ""}`, cx: sx(x), cy: sy(y), r: 4 + 13 * Math.sqrt(row.seconds / longest), fill: `var(--${row.backward > 0.5 ? "backward" : "forward"})`, "fill-opacity": 0.8, "aria-label": `${row.title}: ${flops(y)}/s, ${digits(x)} flops per byte`, ...clickable(open) }, drawn("title", { text: `${row.kind}: ${row.title}\n${flops(y)}/s, ${seconds(row.seconds)}` })));
    }
    into.append(element("p", { class: "empty", text: "Each circle is a group; its area is its time. The closer to the line above it, the less there is to gain." }), svg,
      element("ul", { class: "legend" }, element("li", {}, element("i", { style: "background:var(--forward)" }), "forward"), element("li", {}, element("i", { style: "background:var(--backward)" }), "backward")));
  }

  // Memory.
  let memoryPlot = null;
  function memory() {
    const into = body("memory");
    into.replaceChildren();
    const over = data.memory.over_time;
    const host = element("div", { role: "img", "aria-label": `Memory over time, at most ${bytes(data.memory.peak)} resident` });
    into.append(host);
    const mega = (values) => values.map((value) => value / 1e6);
    const line = (label, name) => ({ label, stroke: colour(name), width: 1.8, value: (_, value) => (value === null ? "–" : `${digits(value)} MB`) });
    const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") }, font: "12px system-ui" };
    if (over.time.length > 1) {
      if (memoryPlot) memoryPlot.destroy();
      memoryPlot = new uPlot({
        width: Math.max(280, host.clientWidth || 600), height: 250, scales: { x: { time: false } }, cursor: { y: false }, legend: { show: false },
        axes: [{ ...axis, values: (_, ticks) => ticks.map((t) => `${t} s`) }, { ...axis, size: 64, values: (_, ticks) => ticks.map((t) => `${t} MB`) }],
        series: [{ label: "time", value: (_, value) => (value === null ? "–" : seconds(value)) }, line("resident", "python"), line("pool, in use", "forward"), line("pool, idle", "waiting"), line("kept by tapes", "backward")],
      }, [over.time, mega(over.resident), mega(over.used), mega(over.idle), mega(over.kept)], host);
      const at = element("b", { text: "" });
      const names = [["resident", "python"], ["pool, in use", "forward"], ["pool, idle", "waiting"], ["kept by tapes", "backward"]];
      const values = names.map(() => element("b", { text: "" }));
      into.append(element("ul", { class: "legend" }, names.map(([name, tone], n) => element("li", {}, element("i", { style: `background:var(--${tone})` }), name, values[n])), element("li", {}, at)));
      memoryPlot.over.addEventListener("mousemove", () => {
        const index = memoryPlot.cursor.idx;
        if (index === null || index === undefined) return;
        at.textContent = `at ${seconds(over.time[index])}`;
        [over.resident, over.used, over.idle, over.kept].forEach((series, n) => { values[n].textContent = series[index] === null ? "" : bytes(series[index]); });
      });
    } else host.append(element("p", { class: "empty", text: "The profile was too short to see memory change." }));
    if (data.memory.kept.length) {
      into.append(element("h3", { text: "What tapes kept for the backward pass, at its largest" }));
      for (const kept of data.memory.kept) {
        into.append(element("details", { open: kept === data.memory.kept[0] }, element("summary", { text: `${bytes(kept.bytes)} after the values were read at ${place(kept)}` }), table([
          ["value", (row) => (row.count > 1 ? `${count(row.count)} × ${row.op}` : row.op)], ["", (row) => row.spec], ["size", (row) => bytes(row.bytes), "n"], ["recorded at", (row) => place(row)], ["", code], ["why", (row) => row.why],
        ], kept.values, "Values kept")));
      }
    } else into.append(element("p", { class: "empty", text: "No tape was open when values were read, so nothing was kept." }));
  }

  // Graph.
  function graph() {
    const into = body("graph");
    if (!data.graphs.length) { into.append(element("p", { class: "empty", text: "No plan has a group that reads the result of another." })); return; }
    const choice = element("select", { "aria-label": "Plan" }, data.graphs.map((each, index) => element("option", { value: index, text: `plan ${each.plan} of ${each.owner || place(each)}: ${seconds(each.seconds)}, ${each.nodes.length} groups${each.tier === "NumPy" ? ", in NumPy" : ""}` })));
    const host = element("div", { class: "scroll graph", tabindex: 0, "aria-label": "Groups of the plan and what they read" });
    const note = element("p", { class: "empty" });
    into.append(element("div", { class: "controls" }, choice, element("span", { text: "drag to move; a thick edge at the left: time; a filled foot: results that stay in memory" })), host, note);
    let controls = null;
    const button = (text, name, act) => element("button", { type: "button", text, "aria-label": name, onclick: act });
    into.querySelector(".controls").append(button("+", "Zoom in", () => controls.zoom(1.4)), button("−", "Zoom out", () => controls.zoom(1 / 1.4)), button("all", "Show the whole graph", () => controls.fit(0)));
    const draw = () => { controls = layout(data.graphs[Number(choice.value)], host); const left = data.graphs[Number(choice.value)].left_out; note.textContent = left ? `${left} short groups are left out.` : ""; };
    choice.addEventListener("change", draw);
    draw();
  }
  function layout(found, host) {
    const laid = new dagre.graphlib.Graph();
    laid.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 46, marginx: 16, marginy: 16 });
    laid.setDefaultEdgeLabel(() => ({}));
    const width = 190, height = 62;
    for (const node of found.nodes) laid.setNode(String(node.number), { width, height });
    for (const [from, to] of found.edges) laid.setEdge(String(from), String(to));
    dagre.layout(laid);
    const size = laid.graph();
    const svg = drawn("svg", {});
    svg.append(drawn("defs", {}, drawn("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, drawn("path", { d: "M0,0 L8,4 L0,8 z", fill: "var(--waiting)" }))));
    for (const edge of laid.edges()) {
      const points = laid.edge(edge).points.map((p) => `${p.x},${p.y}`);
      svg.append(drawn("path", { class: "edge", d: `M${points.join(" L")}`, "marker-end": "url(#arrow)" }));
    }
    const longest = Math.max(...found.nodes.map((node) => node.seconds), 1e-12);
    for (const node of found.nodes) {
      const at = laid.node(String(node.number));
      const x = at.x - width / 2, y = at.y - height / 2;
      const tone = node.backward > 0.5 ? "backward" : "forward";
      const open = (event) => show(event.currentTarget, `${node.kind}: ${node.title}`, node, [
        ["time", `${seconds(node.seconds)}, ${percent(node.seconds / wall)}`], ["shape", `${node.dtype} [${node.shape.join(", ")}]`],
        ["results that stay", node.keeps ? bytes(node.keeps) : "none: they are used inside the plan only"], ["direction", tone],
      ]);
      const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
      svg.append(drawn("g", { class: "node", "aria-label": `${node.kind} ${node.title}, ${seconds(node.seconds)}`, ...clickable(open) },
        drawn("rect", { x, y, width, height, rx: 8 }),
        drawn("rect", { class: "heat", x, y, width: 3 + 9 * (node.seconds / longest), height, rx: 3, style: `fill:var(--${tone});stroke:none` }),
        node.keeps ? drawn("rect", { x: x + 14, y: y + height - 4, width: width - 20, height: 4, rx: 2, style: "fill:var(--reading);stroke:none" }) : null,
        drawn("text", { class: "name", x: x + 18, y: y + 18, text: clip(node.title, 25) }),
        drawn("text", { x: x + 18, y: y + 35, text: clip(`${node.kind} · ${seconds(node.seconds)}`, 30) }),
        drawn("text", { x: x + 18, y: y + 51, text: clip(`${node.dtype}[${node.shape.join(",")}] ${node.file ? `line ${node.line}` : ""}`, 28) })));
    }
    host.replaceChildren(svg);
    const hottest = found.nodes.reduce((one, other) => (other.seconds > one.seconds ? other : one));
    return pannable(svg, host, size, laid.node(String(hottest.number)));
  }
  // The first view holds the whole graph or, if that could not be read, the longest group and its neighbours.
  function pannable(svg, host, size, hottest) {
    const wide = Math.max(280, host.clientWidth || 800), high = Math.min(560, Math.max(220, size.height));
    svg.setAttribute("width", wide);
    svg.setAttribute("height", high);
    const view = { x: 0, y: 0, scale: 1 };
    const update = () => svg.setAttribute("viewBox", `${view.x} ${view.y} ${wide / view.scale} ${high / view.scale}`);
    const fit = (least) => {
      view.scale = Math.min(1.4, Math.max(least, Math.min(wide / size.width, high / size.height)));
      view.x = Math.min(0, (size.width - wide / view.scale) / 2);
      view.y = (size.height - high / view.scale) / 2;
      if (size.height * view.scale > high) view.y = 0;
      update();
    };
    const zoom = (factor, px = wide / 2, py = high / 2) => {
      const next = Math.min(4, Math.max(0.05, view.scale * factor));
      view.x += px / view.scale - px / next;
      view.y += py / view.scale - py / next;
      view.scale = next;
      update();
    };
    let from = null;
    svg.addEventListener("pointerdown", (event) => { from = { x: event.clientX, y: event.clientY, moved: false }; });
    svg.addEventListener("pointermove", (event) => {
      if (!from || !event.buttons) return;
      const dx = event.clientX - from.x, dy = event.clientY - from.y;
      if (!from.moved && Math.hypot(dx, dy) < 4) return;
      if (!from.moved) svg.setPointerCapture(event.pointerId);
      view.x -= dx / view.scale; view.y -= dy / view.scale;
      from = { x: event.clientX, y: event.clientY, moved: true };
      update();
    });
    // The end of a drag is not a click on the group below the pointer.
    svg.addEventListener("click", (event) => { if (from && from.moved) event.stopPropagation(); from = null; }, true);
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      const at = svg.getBoundingClientRect();
      zoom(event.deltaY > 0 ? 0.8 : 1.25, event.clientX - at.left, event.clientY - at.top);
    }, { passive: false });
    host.onkeydown = (event) => {
      const step = 60 / view.scale;
      const act = {
        ArrowLeft: () => { view.x -= step; update(); }, ArrowRight: () => { view.x += step; update(); }, ArrowUp: () => { view.y -= step; update(); }, ArrowDown: () => { view.y += step; update(); },
        "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), "0": () => fit(0),
      }[event.key];
      if (act && event.target === host) { event.preventDefault(); act(); }
    };
    fit(0);
    if (view.scale < 0.6) {
      view.scale = 0.85;
      const inside = (middle, length, all) => Math.max(0, Math.min(middle - length / 2, all - length));
      view.x = inside(hottest.x, wide / view.scale, size.width);
      view.y = inside(hottest.y, high / view.scale, size.height);
      update();
    }
    return { zoom, fit };
  }

  // Timeline.
  function timeline() {
    const into = body("timeline");
    const runs = data.timeline.runs, events = data.timeline.events;
    if (!runs.length && !events.length) { into.append(element("p", { class: "empty", text: "No plan ran." })); return; }
    const rows = ["making plans"].concat(Array.from({ length: Math.max(1, data.timeline.threads) }, (_, n) => `thread ${n + 1}`));
    const end = Math.max(...runs.map((run) => run[1] + run[2]), ...events.map((event) => event.begin + event.seconds), 1e-6);
    let from = 0, to = end;
    const canvas = element("canvas", { tabindex: 0, role: "img", "aria-label": `Timeline of ${runs.length} runs of plans and ${events.length} other events; arrow keys move, plus and minus zoom` });
    const label = element("span", {});
    const zoom = (factor, middle = (from + to) / 2) => {
      const span = Math.min(end, Math.max(1e-6, (to - from) * factor));
      from = Math.max(0, Math.min(end - span, middle - (middle - from) * (span / (to - from)))); to = from + span; draw();
    };
    const move = (share) => { const span = to - from; from = Math.max(0, Math.min(end - span, from + share * span)); to = from + span; draw(); };
    const button = (text, name, act) => element("button", { type: "button", text, "aria-label": name, onclick: act });
    into.append(element("div", { class: "timeline" }, element("div", { class: "controls" }, button("+", "Zoom in", () => zoom(0.5)), button("−", "Zoom out", () => zoom(2)), button("←", "Earlier", () => move(-0.5)), button("→", "Later", () => move(0.5)), button("all", "Show all", () => { from = 0; to = end; draw(); }), label), canvas));
    into.append(element("ul", { class: "legend" }, [["building", "building plans, compiling"], ["backward", "differentiating"], ["accent", "capturing a function"]].map(([tone, name]) => element("li", {}, element("i", { style: `background:var(--${tone})` }), name)), element("li", {}, element("i", { class: "box native" }), "run of native code"), element("li", {}, element("i", { class: "box numpy" }), "run in NumPy, before the plan was compiled"), element("li", { text: "one colour for each plan; click a box for its name" })));
    if (data.timeline.left_out) into.append(element("p", { class: "empty", text: `The first ${count(runs.length)} runs are shown; ${count(data.timeline.left_out)} more are counted in the tables.` }));
    const tones = ["forward", "recording", "building", "reading", "backward", "python"];
    let boxes = [];
    function draw() {
      const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth || 600, height = 40 + 54 * rows.length;
      canvas.style.height = `${height}px`;
      canvas.width = width * ratio; canvas.height = height * ratio;
      const context = canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, height);
      context.font = "12px system-ui, sans-serif";
      const left = 92, lane = 54;
      const sx = (t) => left + ((t - from) / (to - from)) * (width - left - 8);
      context.fillStyle = colour("soft");
      const step = 10 ** Math.floor(Math.log10((to - from) / 4));
      const ticks = Math.max(2, Math.min(8, (width - left) / 75));
      const nice = [1, 2, 5, 10, 20].map((n) => n * step).find((n) => (to - from) / n <= ticks) || 50 * step;
      for (let t = Math.ceil(from / nice) * nice; t <= to; t += nice) {
        context.fillStyle = colour("line"); context.fillRect(sx(t), 24, 1, height - 24);
        context.fillStyle = colour("soft"); context.fillText(seconds(Math.round(t / nice) * nice), sx(t) + 3, 16);
      }
      rows.forEach((name, n) => { context.fillStyle = colour("soft"); context.fillText(name, 8, 36 + n * lane + lane / 2); });
      boxes = [];
      const shades = Object.fromEntries([...tones, "accent"].map((tone) => [tone, colour(tone)]));
      // Runs in NumPy are lower and paler than native ones.
      const box = (row, begin, length, tone, thing, inNumpy = false) => {
        if (begin + length < from || begin > to) return;
        const x = Math.max(left, sx(begin)), w = Math.max(1.2, sx(Math.min(to, begin + length)) - x);
        const full = lane - 8, h = inNumpy ? full / 2 : full, y = 30 + row * lane + full - h;
        context.fillStyle = shades[tone];
        context.globalAlpha = inNumpy ? 0.4 : 1;
        context.fillRect(x, y, w, h);
        context.globalAlpha = 1;
        if (inNumpy) context.fillRect(x, y, w, 2);
        boxes.push([x, y, w, h, thing]);
      };
      for (const event of events) box(0, event.begin, event.seconds, event.kind === "derive" ? "backward" : event.kind === "capture" ? "accent" : "building", event);
      for (const run of runs) box(1 + run[3], run[1], run[2], tones[run[0] % tones.length], run, run[4] === 1);
      label.textContent = `${seconds(from)} to ${seconds(to)}`;
    }
    canvas.addEventListener("click", (event) => {
      const at = canvas.getBoundingClientRect(), x = event.clientX - at.left, y = event.clientY - at.top;
      const hit = boxes.filter((b) => x >= b[0] - 1.5 && x <= b[0] + b[2] + 1.5 && y >= b[1] && y <= b[1] + b[3]).pop();
      if (!hit) return;
      const thing = hit[4];
      if (Array.isArray(thing)) {
        const plan = data.plans.find((each) => each.number === thing[0]) || {};
        show(canvas, `plan ${thing[0]}${plan.owner ? ` of ${plan.owner}` : ""}`, plan, [["ran", thing[4] ? "op by op in NumPy" : "as native code"], ["began", seconds(thing[1])], ["took", seconds(thing[2])], ["ops", plan.ops ? count(plan.ops) : null], ["runs in all", plan.runs ? count(plan.runs) : null]]);
      } else show(canvas, `${thing.kind}: ${thing.text}`, thing, [["began", seconds(thing.begin)], ["took", seconds(thing.seconds)]]);
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      const at = canvas.getBoundingClientRect();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, from + ((event.clientX - at.left - 92) / (at.width - 100)) * (to - from));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const act = { ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2) }[event.key];
      if (act) { event.preventDefault(); act(); }
    });
    redraws.push(draw);
    draw();
  }

  // Jacobians.
  function jacobians() {
    const into = body("jacobians");
    if (!data.jacobians.length) { into.append(element("p", { class: "empty", text: "No sparse Jacobian or Hessian was computed." })); return; }
    for (const found of data.jacobians) {
      const picture = found.picture;
      const scale = Math.max(1, Math.floor(300 / Math.max(picture.rows, picture.columns)));
      const canvas = element("canvas", { width: picture.columns * scale, height: picture.rows * scale, role: "img", "aria-label": `Pattern of ${found.rows} by ${found.columns} with ${found.entries} entries` });
      into.append(element("div", { class: "jacobian" }, canvas, element("div", {}, element("dl", { class: "facts" },
        ...[["requested at", place(found)], ["matrix", `${count(found.rows)} × ${count(found.columns)}, ${count(found.entries)} entries (${percent(found.entries / (found.rows * found.columns))})`],
          ["mode", found.method], ["why", found.why], ["products", `${found.forward} forward, ${found.reverse} reverse`], ["computed", found.count === 1 ? "once" : `${count(found.count)} times`], ["one square", picture.shrink > 1 ? `${picture.shrink} × ${picture.shrink} entries` : "one entry"], ["colours", `of ${picture.by}: entries of one colour come from one product`]]
          .flatMap(([name, value]) => [element("dt", { text: name }), element("dd", { text: value })])),
      found.source ? element("pre", { class: "code", text: found.source }) : null)));
      const draw = () => {
        const context = canvas.getContext("2d");
        context.clearRect(0, 0, canvas.width, canvas.height);
        for (const block of picture.blocks) {
          const row = Math.floor(block / picture.columns), column = block % picture.columns;
          const number = picture.colours[picture.by === "columns" ? column : row];
          context.fillStyle = number === undefined || number < 0 ? colour("ink") : `hsl(${(number * 137.5 + 195) % 360} 62% ${root.dataset.theme === "dark" ? 62 : 44}%)`;
          context.fillRect(column * scale, row * scale, scale, scale);
        }
      };
      redraws.push(draw);
      draw();
    }
  }

  // The page.
  const redraws = [];
  const preferred = window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)");
  function setTheme(name) { root.dataset.theme = name; redraws.forEach((draw) => draw()); if (memoryPlot) memory(); }
  root.dataset.theme = location.hash === "#dark" || (preferred && preferred.matches) ? "dark" : "light";
  document.getElementById("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
  if (preferred && preferred.addEventListener) preferred.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
  const parts = { summary, time, flame, roofline, memory, graph, timeline, jacobians };
  const names = { time: "Time", flame: "Flame graph", roofline: "Roofline", summary: "Summary", memory: "Memory", graph: "Graph", timeline: "Timeline", jacobians: "Jacobians" };
  const tabs = document.getElementById("tabs");
  for (const [id, build] of Object.entries(parts)) {
    tabs.append(element("li", {}, element("a", { href: `#${id}`, text: names[id] })));
    build();
  }
  const links = [...tabs.querySelectorAll("a")];
  // A tab that was clicked stays lit until the reader scrolls: the last parts cannot reach the top.
  let chosen = null;
  for (const link of links) link.addEventListener("click", () => { chosen = link; here(); });
  for (const kind of ["wheel", "touchmove", "keydown"]) document.addEventListener(kind, () => { chosen = null; }, { passive: true });
  function here() {
    let current = links[0];
    for (const link of links) if (document.querySelector(link.getAttribute("href")).getBoundingClientRect().top < 120) current = link;
    if (chosen) current = chosen;
    else if (window.scrollY > 0 && window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 2) current = links[links.length - 1];
    for (const link of links) link.setAttribute("aria-current", link === current ? "true" : "false");
  }
  document.addEventListener("scroll", here, { passive: true });
  let waiting = 0;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => { redraws.forEach((draw) => draw()); if (memoryPlot) memory(); }, 120); });
  here();
  root.dataset.ready = "true";
})();
