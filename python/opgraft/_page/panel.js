// Fills the panel beside the graph. All texts of a model go through `textContent`, never as HTML.

function make(tag, className, ...parts) {
  const one = document.createElement(tag);
  if (className) one.className = className;
  one.append(...parts.filter((part) => part !== null && part !== undefined && part !== ""));
  return one;
}

function table(heads, rows) {
  const isNumber = (i) => heads[i].startsWith("#");
  const line = (tag, cells) => make("tr", "", ...cells.map((cell, i) => make(tag, isNumber(i) ? "number" : "", cell)));
  const head = line("th", heads.map((one) => one.replace("#", "")));
  return make("table", "", make("thead", "", head), make("tbody", "", ...rows.map((row) => line("td", row))));
}

function duration(us) {
  if (us >= 1e6) return (us / 1e6).toPrecision(3) + " s";
  return us >= 1000 ? (us / 1000).toPrecision(3) + " ms" : (us >= 10 ? us.toFixed(0) : us.toPrecision(2)) + " µs";
}

const list = (texts) => make("ul", "", ...texts.map((one) => make("li", "", one)));
const square = (kind) => make("i", "square " + kind);

function findingCard(finding) {
  const card = make("div", "card " + finding.kind, make("div", "", make("b", "", finding.operator), ` · ${finding.count} ${finding.count === 1 ? "node" : "nodes"}`));
  card.append(...remedyOf(finding));
  return card;
}

function remedyOf(finding) {
  const parts = [];
  if (finding.problem) parts.push(make("p", "", finding.problem));
  if (finding.remedy) parts.push(make("p", "", make("b", "", "Fix: "), finding.remedy));
  if (finding.stub) parts.push(make("p", "soft", finding.stub.file), make("pre", "", finding.stub.text));
  return parts;
}

function overview(data) {
  const parts = [];
  const missing = data.findings.filter((one) => one.problem);
  if (missing.length) parts.push(make("h2", "", "To fix"), ...missing.map(findingCard));
  for (const [title, texts] of data.lines) parts.push(make("h2", "", title), list(texts));
  const counts = new Map();
  for (const graph of data.graphs) for (const node of graph.nodes) {
    const key = node.op + " " + node.kind;
    counts.set(key, (counts.get(key) || 0) + 1);
  }
  const rows = [...counts].sort((a, b) => b[1] - a[1]).map(([key, count]) => {
    const [op, kind] = key.split(" ").map(Number);
    return [make("span", "", square(data.kinds[kind][0]), data.operators[op].title), data.kinds[kind][1], String(count)];
  });
  if (rows.length) parts.push(make("h2", "", "Operators"), table(["operator", "run by", "#nodes"], rows));
  parts.push(make("p", "soft", `made by opgraft ${data.version}`));
  return parts;
}

function exportTab(data) {
  const { rows, differs } = data.export;
  const parts = [];
  if (differs.length) parts.push(make("h2", "", "Differences from torch, by operator"), ...differs.map(([operator, what]) =>
    make("div", "card missing", make("b", "", operator), make("p", "", what))));
  parts.push(make("h2", "", "What became of torch's operators"));
  for (const row of rows) {
    const card = make("div", "card " + row.tone, make("div", "", make("b", "", row.operator), ` × ${row.count}`), make("p", "", row.rung));
    if (row.because) card.append(make("p", "soft", "Why not better: " + row.because));
    if (row.advice) card.append(make("p", "", make("b", "", "Portable with: "), row.advice));
    parts.push(card);
  }
  return parts;
}

function timeTab(data, go) {
  const { drawn, optimised, inputs } = data.times;
  const figure = (label, one) => make("div", "", make("div", "big", duration(one.microseconds)), make("div", "soft", `${label}, mean of ${one.runs} runs`));
  const parts = [make("div", "pair", figure("one run as programs open it", optimised), figure("without the optimiser", drawn)),
    make("h2", "", "Inputs"), list(inputs.length ? inputs : ["none"])];
  const chart = (title, note, kernels) => {
    const top = [...kernels].sort((a, b) => b[3] - a[3]).slice(0, 25);
    const most = top.length ? top[0][3] : 1;
    parts.push(make("h2", "", title), make("p", "soft", note));
    for (const [name, operator, , us, , place] of top) {
      const node = place && data.graphs[place[0]].nodes[place[1]];
      const bar = make("i", node ? data.kinds[node.kind][0] : "runtime");
      bar.style.width = Math.max(0.5, (100 * us) / most) + "%";
      const button = make("button", "bar", make("span", "", make("span", "", operator + (name ? " · " + name : "")), make("em", "", duration(us))), bar);
      button.type = "button";
      button.disabled = !node;
      if (node) button.addEventListener("click", () => go(place[0], place[1]));
      parts.push(button);
    }
  };
  chart("Slowest nodes", "without the optimiser, each node runs as it is drawn; nodes with a body include its time", drawn.kernels);
  chart("Slowest kernels of the optimised model", "nodes may be fused, or folded into constants", optimised.kernels);
  return parts;
}

function nodeTab(data, item, tools) {
  if (!item) return [make("p", "soft", "Click a node, or search for one.")];
  const graph = data.graphs[item.graph], types = tools.types(item.graph);
  if (item.value !== undefined) {
    return [make("div", "what", item.value), make("p", "mono", types.get(item.value) || "type not known"), make("p", "soft", graph.in.includes(item.value) ? "an input of " + graph.title : "an output of " + graph.title)];
  }
  const { node } = item, operator = data.operators[node.op], [kind, label, meaning] = data.kinds[node.kind];
  const body = operator.body === undefined ? null : data.graphs[operator.body];
  const text = (number) => data.texts[number];
  const parts = [make("div", "what", make("span", "", operator.type), make("span", "tag " + kind, label)), make("p", "soft", operator.title + (operator.since ? `, since opset ${operator.since}` : "")), make("p", "mono", node.name || "(no name)")];
  const doc = operator.doc || (body && body.doc);
  if (doc) parts.push(make("p", "soft", doc));
  const finding = node.finding === undefined ? null : data.findings[node.finding];
  const who = make("div", "card " + kind, make("b", "", finding ? finding.runBy : label), make("p", "soft", meaning));
  if (finding && finding.module) who.append(make("p", "", "module " + finding.module));
  if (finding && finding.pack) who.append(make("p", "mono", finding.pack));
  if (finding && kind === "missing") who.append(...remedyOf(finding));
  parts.push(make("h2", "", "Who runs it"), who);
  const torch = node.torch === undefined ? "" : text(node.torch);
  const row = data.export && data.export.rows.find((one) => one.operator === torch);
  if (torch) {
    const card = make("div", "card " + (row ? row.tone : ""), make("b", "", torch));
    if (row) {
      card.append(make("p", "", row.rung));
      if (row.because) card.append(make("p", "soft", "Why not better: " + row.because));
      if (row.advice) card.append(make("p", "", make("b", "", "Portable with: "), row.advice));
      for (const [operator, what] of data.export.differs) if (operator === torch) card.append(make("p", "", "Differs: " + what));
    }
    parts.push(make("h2", "", "In torch"), card);
  }
  if (node.scope !== undefined) parts.push(make("p", "soft", "module " + text(node.scope)));
  if (node.trace !== undefined) parts.push(make("h2", "", "Source"), make("pre", "", text(node.trace)));
  const time = tools.time(item.graph, item.at);
  if (time !== null) parts.push(make("h2", "", "Time"), make("div", "big", duration(time)), make("p", "soft", "of one run without the optimiser"));
  const values = (names, formal, repeats) => table(["name", "value", "type"], names.map((name, i) => {
    const last = formal.length - 1;
    const said = formal[i] || (repeats && last >= 0 ? formal[last] : String(i));
    return [said, name || "(left out)", make("span", "mono", types.get(name) || (name ? "?" : ""))];
  }));
  const formalIn = body ? body.in : operator.in || [], formalOut = body ? body.out : operator.out || [];
  if (node.in.length) parts.push(make("h2", "", "Inputs"), values(node.in, formalIn, operator.repeats));
  if (node.out.length) parts.push(make("h2", "", "Outputs"), values(node.out, formalOut, false));
  if (node.attributes) parts.push(make("h2", "", "Attributes"), table(["name", "value"], node.attributes.map(([name, value]) => [name, make("span", "mono", value)])));
  if (node.doc !== undefined) parts.push(make("h2", "", "Notes in the model"), make("pre", "", text(node.doc)));
  if (node.inside) {
    const button = make("button", "", tools.isUnfolded(item.id) ? "Fold" : "Unfold");
    button.type = "button";
    button.id = "unfold";
    button.addEventListener("click", () => tools.toggle(item.id));
    parts.splice(1, 0, make("p", "", button));
  }
  return parts;
}
