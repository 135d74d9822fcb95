// Starts the page: reads the data, and connects graph, panel, legend, search and theme.

const data = JSON.parse(document.getElementById("data").textContent);
const get = (id) => document.getElementById(id);
const canvas = get("canvas");
let tab = "Overview", chosen = null;

const typeMaps = new Map();
const owners = new Map(); // of each inner graph: the first node that holds or calls it
data.graphs.forEach((graph, number) => graph.nodes.forEach((node, at) => {
  for (const [title, inner] of node.inside || []) if (!owners.has(inner)) owners.set(inner, [number, at, title]);
}));

// The types of values in a graph; a body also sees those around it, a function does not.
function typesOf(number) {
  if (!typeMaps.has(number)) {
    const owner = owners.get(number), graph = data.graphs[number];
    typeMaps.set(number, new Map());
    const around = owner && owner[2] ? typesOf(owner[0]) : new Map();
    typeMaps.set(number, new Map([...around, ...graph.types, ...graph.constants]));
  }
  return typeMaps.get(number);
}

function idOf(number, at) {
  let id = number + ":" + at;
  for (let depth = 0; number !== 0; depth++) {
    const owner = owners.get(number);
    if (!owner || depth > 60) return null;
    number = owner[0];
    id = number + ":" + owner[1] + "/" + id;
  }
  return id;
}

const times = new Map();
let longest = 1;
if (data.times) {
  for (const [, , , us, , place] of data.times.drawn.kernels) {
    if (!place) continue;
    const key = place[0] + ":" + place[1];
    times.set(key, (times.get(key) || 0) + us);
    longest = Math.max(longest, times.get(key));
  }
}
const timeOf = (number, at) => times.get(number + ":" + at) ?? null;

const scene = makeScene(data, canvas, (item) => {
  chosen = item;
  if (item) tab = "Node";
  showPanel();
});
scene.state.heat = (number, at) => {
  const time = timeOf(number, at);
  return time === null ? null : Math.sqrt(time / longest);
};

const tools = {
  types: typesOf, time: timeOf, isUnfolded: (id) => scene.unfolded.has(id),
  toggle: (id) => { scene.toggle(id); scene.select(id); },
};

function go(number, at) {
  const id = idOf(number, at);
  if (id === null) return;
  scene.reveal(id);
  scene.select(id);
}

function showPanel() {
  const tabs = ["Overview", "Node", ...(data.times ? ["Time"] : []), ...(data.export ? ["Torch"] : [])];
  get("tabs").replaceChildren(...tabs.map((name) => {
    const button = make("button", "", name);
    button.type = "button";
    button.setAttribute("role", "tab");
    button.setAttribute("aria-selected", String(name === tab));
    button.addEventListener("click", () => { tab = name; showPanel(); });
    return button;
  }));
  const parts = { Overview: () => overview(data), Node: () => nodeTab(data, chosen, tools), Time: () => timeTab(data, go), Torch: () => exportTab(data) }[tab]();
  get("panel").replaceChildren(...parts);
  get("panel").scrollTop = 0;
}

function showLegend() {
  const counts = data.kinds.map(() => 0);
  for (const graph of data.graphs) for (const node of graph.nodes) counts[node.kind]++;
  get("legend").replaceChildren(...data.kinds.flatMap(([name, label, meaning], kind) => {
    if (!counts[kind]) return [];
    const chip = make("button", "chip " + name, make("i", ""), label, make("b", "", counts[kind].toLocaleString("en")));
    chip.type = "button";
    chip.title = meaning;
    chip.setAttribute("aria-pressed", String(scene.state.kind === kind));
    chip.addEventListener("click", () => {
      scene.state.kind = scene.state.kind === kind ? null : kind;
      showLegend();
      scene.redraw();
    });
    return [chip];
  }));
}

function search() {
  const query = get("query").value.trim().toLowerCase(), results = get("results");
  results.hidden = !query;
  const found = [];
  let count = 0;
  if (query) data.graphs.forEach((graph, number) => graph.nodes.forEach((node, at) => {
    const operator = data.operators[node.op];
    const texts = [node.name, operator.type, operator.title, ...node.out, ...["torch", "scope"].map((key) => (node[key] === undefined ? "" : data.texts[node[key]]))];
    if (!texts.some((one) => one.toLowerCase().includes(query)) || ++count > 80) return;
    const button = make("button", "", square(data.kinds[node.kind][0]), operator.type + " ", make("small", "", node.name || node.out[0] || ""));
    button.type = "button";
    button.addEventListener("click", () => { results.hidden = true; go(number, at); });
    found.push(button);
  }));
  results.replaceChildren(make("p", "soft", `${count.toLocaleString("en")} found` + (count > 80 ? ", the first 80:" : "")), ...found);
}

function connectPointer() {
  const pointers = new Map();
  let moved = 0, spread = 0;
  const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(event));
    if (pointers.size === 1) moved = 0;
    spread = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = at(event), before = pointers.get(event.pointerId);
    if (!before) { canvas.classList.toggle("over", Boolean(scene.hit(...now))); return; }
    pointers.set(event.pointerId, now);
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()], apart = Math.hypot(a[0] - b[0], a[1] - b[1]);
      if (spread) scene.zoom(apart / spread, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
      spread = apart;
      moved = 99;
      return;
    }
    scene.view.x += now[0] - before[0];
    scene.view.y += now[1] - before[1];
    moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    scene.redraw();
  });
  canvas.addEventListener("pointerup", (event) => {
    pointers.delete(event.pointerId);
    if (moved > 4) return;
    const [x, y] = at(event), item = scene.hit(x, y);
    if (item && item.node && item.node.inside) {
      const right = (item.x + item.w) * scene.view.scale + scene.view.x;
      if (x > right - 30 * scene.view.scale) scene.toggle(item.id);
    }
    scene.select(item ? item.id : null);
  });
  canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
  canvas.addEventListener("dblclick", (event) => {
    const item = scene.hit(...at(event));
    if (item && item.node && item.node.inside) tools.toggle(item.id);
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    scene.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), ...at(event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [0, 60], ArrowDown: [0, -60], ArrowLeft: [60, 0], ArrowRight: [-60, 0] }[event.key];
    if (step) { scene.view.x += step[0]; scene.view.y += step[1]; scene.redraw(); }
    else if (event.key === "+" || event.key === "=") scene.zoom(1.25);
    else if (event.key === "-") scene.zoom(0.8);
    else if (event.key === "0") scene.fitAll();
    else if (event.key === "Enter" && chosen && chosen.node && chosen.node.inside) tools.toggle(chosen.id);
    else return;
    event.preventDefault();
  });
}

function connect() {
  get("in").addEventListener("click", () => scene.zoom(1.3));
  get("out").addEventListener("click", () => scene.zoom(1 / 1.3));
  get("fit").addEventListener("click", () => scene.fitAll());
  get("query").addEventListener("input", search);
  get("query").addEventListener("keydown", (event) => {
    if (event.key === "Escape") get("results").hidden = true;
    else if (event.key === "Enter") get("results").querySelector("button")?.click();
  });
  get("mode").hidden = !data.times;
  get("mode").addEventListener("change", (event) => { scene.state.mode = event.target.value; scene.redraw(); });
  const fold = get("fold");
  fold.hidden = !owners.size;
  fold.addEventListener("click", () => {
    if (scene.unfolded.size) scene.foldAll(); else scene.unfoldAll();
    scene.fitAll(0.05);
    fold.textContent = scene.unfolded.size ? "Fold all" : "Unfold all";
  });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const setTheme = (isDark) => { document.documentElement.dataset.theme = isDark ? "dark" : "light"; scene.readColours(); };
  get("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme !== "dark"));
  dark.addEventListener("change", (event) => setTheme(event.matches));
  setTheme(dark.matches);
  const measure = () => scene.resize(get("view").clientWidth, get("view").clientHeight);
  new ResizeObserver(measure).observe(get("view"));
  measure();
}

function start() {
  get("title").textContent = data.title;
  get("subtitle").textContent = data.subtitle;
  get("headline").textContent = data.headline;
  get("headline").classList.add(data.status);
  connect();
  connectPointer();
  showLegend();
  showPanel();
  if (data.graphs.length) {
    scene.rebuild();
    scene.fitAll(0.7);
  } else {
    get("empty").hidden = false;
    get("empty").textContent = "The graph is not drawn: " + data.unread;
    for (const id of ["search", "tools"]) get(id).hidden = true;
  }
  // For tests, and for use in the browser's console.
  window.opgraft = Object.freeze({
    ids: () => scene.all().map((one) => one.id),
    where: (name) => {
      const one = scene.all().find((item) => (item.node ? item.node.name : item.value) === name);
      if (!one) return null;
      const box = canvas.getBoundingClientRect(), { view } = scene;
      return { x: box.left + view.x + (one.x + one.w / 2) * view.scale, y: box.top + view.y + (one.y + Math.min(one.h, NODE_H) / 2) * view.scale, right: box.left + view.x + (one.x + one.w) * view.scale };
    },
  });
}

start();
