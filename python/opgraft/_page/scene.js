// Draws the graphs on a canvas: what is unfolded is laid out inside its node. Only what the window
// shows is drawn, so that large models stay usable.

const HEAD = 34, PAD = 16, BUCKET = 400, NODE_H = 42, VALUE_H = 26;
const LEAST_SCALE = 0.0005; // at which even a chain of 10,000 nodes fits into a window
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

function makeScene(data, canvas, onSelect) {
  const pen = canvas.getContext("2d");
  const unfolded = new Set();
  const view = { x: 0, y: 0, scale: 1 };
  const state = { selected: null, kind: null, mode: "who", heat: null };
  const kinds = data.kinds.map((one) => one[0]);
  let colours = {}, nodes = [], segments = [], buckets = new Map(), byId = new Map(), size = {};
  let frame = 0, stamp = 0, width = 1, height = 1;

  const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  const fit = (text, font) => { pen.font = font; return pen.measureText(text).width; };

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const names = ["back", "card", "line", "text", "soft", "accent", "edge", "dot", "value", ...kinds];
    for (const name of names) colours[name] = style.getPropertyValue("--" + name).trim();
    redraw();
  }

  // One graph: its inputs, nodes and outputs as items with places relative to the graph.
  function arrange(number, path, above) {
    const graph = data.graphs[number], items = [], edges = [], makers = new Map();
    const value = (name, role) => {
      const label = cut(name, 28);
      items.push({ id: path + role + name, value: name, label, w: fit(label, "12px " + FONT) + 24, h: VALUE_H, graph: number });
      return items.length - 1;
    };
    for (const name of graph.in) makers.set(name, value(name, "<"));
    const first = items.length;
    graph.nodes.forEach((node, at) => {
      const id = path + number + ":" + at;
      const label = cut(data.operators[node.op].type, 32);
      const name = cut(node.name.split("/").filter(Boolean).pop() || "", 24);
      const item = { id, node, at, graph: number, label, name, w: 0, h: NODE_H, kind: node.kind };
      const wide = Math.max(fit(label, "600 13px " + FONT), fit(name, "11px " + FONT));
      item.w = Math.max(72, wide + 26 + (node.inside ? 24 : 0));
      if (node.inside && unfolded.has(id) && above.length < 20) {
        item.inner = node.inside.map(([title, inner]) => {
          const made = arrange(inner, id + "/", [...above, number]);
          made.title = title;
          return made;
        });
        let across = PAD, tall = 0;
        for (const one of item.inner) {
          one.left = across;
          across += Math.max(one.width, fit(one.title, "12px " + FONT)) + PAD;
          tall = Math.max(tall, one.height);
        }
        item.w = Math.max(item.w, across);
        item.h = HEAD + 22 + tall + PAD;
      }
      items.push(item);
      for (const name of node.out) if (name) makers.set(name, items.length - 1);
    });
    graph.nodes.forEach((node, at) => {
      const from = new Set();
      for (const name of used(node, new Set())) if (makers.has(name)) from.add(makers.get(name));
      from.delete(first + at);
      for (const one of from) edges.push([one, first + at]);
    });
    for (const name of graph.out) {
      const maker = makers.get(name), to = value(name, ">");
      if (maker !== undefined) edges.push([maker, to]);
    }
    return { items, edges, ...layOut(items, edges) };
  }

  // What a node takes, and what the graphs inside it take from around them.
  function used(node, seen) {
    const names = node.in.filter(Boolean);
    for (const [title, inner] of node.inside || []) {
      if (!title || seen.has(inner)) continue; // functions take nothing from around them
      seen.add(inner);
      const graph = data.graphs[inner], own = new Set(graph.in);
      for (const one of graph.nodes) for (const name of one.out) own.add(name);
      for (const one of graph.nodes) names.push(...used(one, seen).filter((name) => !own.has(name)));
      names.push(...graph.out.filter((name) => !own.has(name)));
    }
    return names;
  }

  function flatten(part, left, top, depth) {
    for (const item of part.items) {
      const one = { ...item, x: left + item.x - item.w / 2, y: top + item.y, depth };
      nodes.push(one);
      byId.set(one.id, one);
      for (const inner of item.inner || []) {
        flatten(inner, one.x + inner.left, one.y + HEAD + 22, depth + 1);
      }
    }
    part.routes.forEach((points, i) => {
      const [from, to] = part.edges[i].map((at) => part.items[at].id);
      for (let k = 1; k < points.length; k++) {
        const [a, b] = [points[k - 1], points[k]];
        segments.push({ x0: left + a[0], y0: top + a[1], x1: left + b[0], y1: top + b[1], from, to, isLast: k === points.length - 1 });
      }
    });
  }

  function rebuild() {
    nodes = []; segments = []; buckets = new Map(); byId = new Map();
    const whole = arrange(0, "", []);
    flatten(whole, 0, 0, 0);
    nodes.sort((a, b) => a.depth - b.depth);
    size = { width: whole.width, height: whole.height };
    const put = (list, one, top, bottom) => {
      for (let b = Math.floor(top / BUCKET); b <= Math.floor(bottom / BUCKET); b++) {
        if (!buckets.has(b)) buckets.set(b, { nodes: [], segments: [] });
        buckets.get(b)[list].push(one);
      }
    };
    for (const one of nodes) put("nodes", one, one.y, one.y + one.h);
    for (const one of segments) put("segments", one, Math.min(one.y0, one.y1), Math.max(one.y0, one.y1));
    redraw();
  }

  function visible(list, test) {
    const top = -view.y / view.scale, bottom = (height - view.y) / view.scale, found = [];
    stamp++;
    for (let b = Math.floor(top / BUCKET); b <= Math.floor(bottom / BUCKET); b++) {
      for (const one of (buckets.get(b) || { [list]: [] })[list]) {
        if (one.stamp === stamp) continue;
        one.stamp = stamp;
        if (test(one)) found.push(one);
      }
    }
    return found;
  }

  function redraw() {
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); });
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colours.back;
    pen.fillRect(0, 0, width, height);
    pen.translate(view.x, view.y);
    pen.scale(view.scale, view.scale);
    const left = -view.x / view.scale, right = (width - view.x) / view.scale;
    const inside = (one) => one.x <= right && one.x + one.w >= left;
    const shown = visible("nodes", inside).sort((a, b) => a.depth - b.depth);
    for (const one of shown) if (one.inner) drawBox(one);
    const lines = visible("segments", (one) => Math.min(one.x0, one.x1) <= right && Math.max(one.x0, one.x1) >= left);
    stroke(lines, colours.edge, 1.3 / Math.min(1, Math.max(view.scale, 0.35)));
    if (state.selected) stroke(lines.filter((one) => one.from === state.selected || one.to === state.selected), colours.accent, 2.4);
    for (const one of shown) if (!one.inner) drawItem(one);
    canvas.dataset.drawn = String(shown.length);
  }

  function stroke(list, colour, thick) {
    pen.strokeStyle = pen.fillStyle = colour;
    pen.lineWidth = thick;
    pen.beginPath();
    const isFar = view.scale < 0.15;
    for (const { x0, y0, x1, y1 } of list) {
      pen.moveTo(x0, y0);
      const middle = (y0 + y1) / 2;
      if (isFar || x0 === x1) pen.lineTo(x1, y1);
      else pen.bezierCurveTo(x0, middle, x1, middle, x1, y1);
    }
    pen.stroke();
    if (view.scale < 0.4) return;
    pen.beginPath();
    for (const { x1, y1, isLast } of list) {
      if (!isLast) continue;
      pen.moveTo(x1, y1);
      pen.lineTo(x1 - 4, y1 - 7);
      pen.lineTo(x1 + 4, y1 - 7);
    }
    pen.fill();
  }

  function colourOf(one) {
    if (one.value !== undefined) return colours.value;
    if (state.mode !== "time" || !state.heat) return colours[kinds[one.kind]];
    const share = state.heat(one.graph, one.at);
    return share === null ? colours.value : `hsl(${Math.round(205 - 200 * share)} 75% ${Math.round(52 - 8 * share)}%)`;
  }

  function box(one, radius) {
    const least = 1.5 / view.scale; // from far away, a node is still a dot
    pen.beginPath();
    pen.roundRect(one.x, one.y, Math.max(one.w, least), Math.max(one.h, least), radius);
  }

  function drawBox(one) {
    const isDim = state.kind !== null && one.kind !== state.kind;
    pen.globalAlpha = isDim ? 0.3 : 1;
    box(one, 10);
    pen.fillStyle = colours.card;
    pen.fill();
    pen.lineWidth = one.id === state.selected ? 3 : 1.6;
    pen.strokeStyle = one.id === state.selected ? colours.accent : colourOf(one);
    pen.stroke();
    pen.fillStyle = colourOf(one);
    pen.beginPath();
    pen.roundRect(one.x, one.y, one.w, HEAD, [10, 10, 0, 0]);
    pen.fill();
    pen.globalAlpha = 1;
    if (view.scale < 0.2) return;
    text(one.label, one.x + 12, one.y + HEAD / 2, "600 13px ", "#fff", "left");
    text("−", one.x + one.w - 18, one.y + HEAD / 2, "600 18px ", "#fff", "center");
    for (const inner of one.inner) {
      text(inner.title, one.x + inner.left, one.y + HEAD + 12, "12px ", colours.soft, "left");
    }
  }

  function drawItem(one) {
    const isValue = one.value !== undefined;
    pen.globalAlpha = state.kind !== null && (isValue || one.kind !== state.kind) ? 0.22 : 1;
    box(one, view.scale < 0.2 ? 0 : isValue ? VALUE_H / 2 : 8);
    pen.fillStyle = isValue ? colours.card : colourOf(one);
    pen.fill();
    if (isValue && view.scale > 0.2) {
      pen.lineWidth = 1.3;
      pen.strokeStyle = colours.value;
      pen.stroke();
    }
    if (view.scale >= 0.28) {
      const middle = one.x + one.w / 2, ink = isValue ? colours.text : "#fff";
      const at = one.node && one.node.inside ? middle - 10 : middle;
      const isTwo = Boolean(one.name);
      text(one.label, at, one.y + (isTwo ? 15 : one.h / 2), isValue ? "12px " : "600 13px ", ink, "center");
      if (isTwo && view.scale >= 0.4) text(one.name, at, one.y + 31, "11px ", "rgba(255,255,255,.82)", "center");
      if (one.node && one.node.inside) {
        text("+", one.x + one.w - 16, one.y + one.h / 2, "600 18px ", "#fff", "center");
      }
    }
    if (one.id === state.selected) {
      pen.lineWidth = Math.max(3, 2 / view.scale);
      pen.strokeStyle = colours.accent;
      pen.beginPath();
      pen.roundRect(one.x - 4, one.y - 4, one.w + 8, one.h + 8, 11);
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  function text(what, x, y, font, colour, align) {
    pen.font = font + FONT;
    pen.fillStyle = colour;
    pen.textAlign = align;
    pen.textBaseline = "middle";
    pen.fillText(what, x, y);
  }

  function hit(x, y) {
    const at = { x: (x - view.x) / view.scale, y: (y - view.y) / view.scale };
    const found = visible("nodes", (one) => at.x >= one.x && at.x <= one.x + one.w && at.y >= one.y && at.y <= one.y + one.h);
    return found.sort((a, b) => b.depth - a.depth)[0] || null;
  }

  function zoom(factor, x = width / 2, y = height / 2) {
    const scale = Math.min(3, Math.max(LEAST_SCALE, view.scale * factor));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    redraw();
  }

  function fitAll(least = LEAST_SCALE) {
    const wide = (width - 48) / Math.max(size.width, 1), tall = (height - 110) / Math.max(size.height, 1);
    view.scale = Math.max(least, Math.min(1, wide, tall));
    view.x = (width - size.width * view.scale) / 2;
    view.y = size.height * view.scale > height - 110 ? 62 : (height - size.height * view.scale) / 2;
    redraw();
  }

  function toggle(id) {
    const before = byId.get(id), at = before && { x: before.x * view.scale + view.x, y: before.y * view.scale + view.y };
    if (!unfolded.delete(id)) unfolded.add(id);
    rebuild();
    const after = byId.get(id);
    if (at && after) { // the node stays where it was
      view.x = at.x - after.x * view.scale;
      view.y = at.y - after.y * view.scale;
    }
    redraw();
  }

  // Unfolds what is above a node, and shows it in the middle.
  function reveal(id) {
    const parts = id.split("/");
    for (let k = 1; k < parts.length; k++) unfolded.add(parts.slice(0, k).join("/"));
    if (parts.length > 1) rebuild();
    const one = byId.get(id);
    if (!one) return;
    view.scale = Math.max(view.scale, 0.75);
    view.x = width / 2 - (one.x + one.w / 2) * view.scale;
    view.y = height / 2 - (one.y + Math.min(one.h, 200) / 2) * view.scale;
    redraw();
  }

  function unfoldAll() {
    unfolded.clear();
    const walk = (number, path, above) => data.graphs[number].nodes.forEach((node, at) => {
      if (!node.inside || above.includes(number) || unfolded.size > 500) return;
      const id = path + number + ":" + at;
      unfolded.add(id);
      for (const [, inner] of node.inside) walk(inner, id + "/", [...above, number]);
    });
    walk(0, "", []);
    rebuild();
  }

  const scene = {
    view, state, unfolded, redraw, rebuild, readColours, zoom, fitAll, toggle, reveal, hit, unfoldAll,
    find: (id) => byId.get(id) || null,
    all: () => nodes,
    foldAll: () => { unfolded.clear(); rebuild(); },
    select: (id) => { state.selected = id; redraw(); onSelect(byId.get(id) || null); },
    resize: (w, h) => { width = w; height = h; redraw(); },
  };
  return scene;
}
