// Lays out a graph in layers, from top to bottom: ranks, an order in each layer, then coordinates.

const GAP = { x: 22, y: 40, edge: 12 };
const MOST_BENDS = 60000; // beyond these, long edges are drawn without bends

// Sets x (the middle) and y (the top) of each item, which has w and h. Returns the size, and for
// each edge [from, to] its points.
function layOut(items, edges) {
  const ranks = rankOf(items.length, edges);
  const graph = withBends(items, edges, ranks);
  orderLayers(graph);
  placeInLayers(graph);
  return routed(items, edges, graph);
}

// Longest paths; items without inputs move down to those that they feed.
function rankOf(count, edges) {
  const next = Array.from({ length: count }, () => []);
  const waiting = new Int32Array(count);
  for (const [from, to] of edges) {
    next[from].push(to);
    waiting[to]++;
  }
  const isSource = Array.from(waiting, (one) => one === 0);
  const rank = new Int32Array(count);
  const order = [];
  const done = new Uint8Array(count);
  for (let i = 0; i < count; i++) if (isSource[i]) order.push(i), (done[i] = 1);
  for (let start = 0, at = 0; at < count; ) {
    if (at === order.length) { // a cycle, which a valid model has not: goes on anywhere
      while (done[start]) start++;
      done[start] = 1;
      order.push(start);
    }
    for (const to of next[order[at++]]) {
      if (done[to]) continue;
      rank[to] = Math.max(rank[to], rank[order[at - 1]] + 1);
      if (--waiting[to] === 0) done[to] = 1, order.push(to);
    }
  }
  for (let i = 0; i < count; i++) {
    if (!isSource[i] || next[i].length === 0) continue;
    let least = Infinity;
    for (const to of next[i]) least = Math.min(least, rank[to]);
    if (least > rank[i]) rank[i] = least - 1;
  }
  return rank;
}

// Adds a bend for each layer that an edge crosses.
function withBends(items, edges, ranks) {
  let bends = 0;
  for (const [from, to] of edges) bends += Math.max(0, ranks[to] - ranks[from] - 1);
  const longest = bends > MOST_BENDS ? 12 : Infinity;
  const rank = Array.from(ranks);
  const width = items.map((one) => one.w);
  const height = items.map((one) => one.h);
  const chains = [];
  const up = items.map(() => []);
  const down = items.map(() => []);
  const link = (from, to) => { down[from].push(to); up[to].push(from); };
  for (const [from, to] of edges) {
    const span = rank[to] - rank[from];
    if (span < 1 || span > longest) { chains.push(null); continue; }
    const chain = [];
    let last = from;
    for (let r = rank[from] + 1; r < rank[to]; r++) {
      const bend = rank.length;
      rank.push(r); width.push(GAP.edge); height.push(0); up.push([]); down.push([]);
      link(last, bend);
      chain.push(bend);
      last = bend;
    }
    link(last, to);
    chains.push(chain);
  }
  return { rank, width, height, up, down, chains, items: items.length };
}

// To avoid crossings, each layer is sorted several times by the mean place of the neighbours.
function orderLayers(graph) {
  const { rank, up, down } = graph;
  const count = rank.length;
  let depth = 0;
  for (const one of rank) depth = Math.max(depth, one);
  const layers = Array.from({ length: count ? depth + 1 : 0 }, () => []);
  const seen = new Uint8Array(count);
  const begin = Array.from({ length: graph.items }, (_, i) => i).sort((a, b) => rank[a] - rank[b]);
  for (const first of begin) { // depth first, so that branches begin apart
    const stack = [first];
    while (stack.length) {
      const one = stack.pop();
      if (seen[one]) continue;
      seen[one] = 1;
      layers[rank[one]].push(one);
      for (let i = down[one].length - 1; i >= 0; i--) stack.push(down[one][i]);
    }
  }
  const place = new Float64Array(count);
  const settle = (layer) => layer.forEach((one, i) => { place[one] = i; });
  layers.forEach(settle);
  const key = new Float64Array(count);
  const sort = (layer, neighbours) => {
    for (const one of layer) {
      const list = neighbours[one];
      let sum = 0;
      for (const other of list) sum += place[other];
      key[one] = list.length ? sum / list.length : place[one];
    }
    layer.sort((a, b) => key[a] - key[b]);
    settle(layer);
  };
  const sweeps = count > 30000 ? 2 : count > 8000 ? 4 : 8;
  for (let i = 0; i < sweeps; i++) {
    for (let r = 1; r < layers.length; r++) sort(layers[r], up);
    for (let r = layers.length - 2; r >= 0; r--) sort(layers[r], down);
  }
  graph.layers = layers;
}

// Puts each item near the middle of its neighbours, in the order of its layer, without overlaps.
function placeInLayers(graph) {
  const { rank, layers, width, up, down, items } = graph;
  const x = new Float64Array(rank.length);
  const gap = (a, b) =>
    (width[a] + width[b]) / 2 + (a >= items && b >= items ? GAP.edge / 2 : GAP.x);
  for (const layer of layers) {
    let at = 0;
    layer.forEach((one, i) => { x[one] = i ? (at += gap(layer[i - 1], one)) : 0; });
    for (const one of layer) x[one] -= at / 2;
  }
  const pull = (layer, lists) => {
    // The places nearest to the wanted ones with these distances: items that would overlap move
// together.
    const blocks = [];
    let offset = 0;
    layer.forEach((one, i) => {
      if (i) offset += gap(layer[i - 1], one);
      let sum = 0, weight = 0;
      for (const list of lists) {
        for (const other of list[one]) {
          const firm = one >= items && other >= items ? 6 : one >= items || other >= items ? 2 : 1;
          sum += firm * x[other];
          weight += firm;
        }
      }
      const wish = (weight ? sum / weight : x[one]) - offset;
      let block = { sum: wish * (weight || 0.05), weight: weight || 0.05, count: 1 };
      while (blocks.length) {
        const last = blocks[blocks.length - 1];
        if (last.sum / last.weight <= block.sum / block.weight) break;
        blocks.pop();
        block = { sum: last.sum + block.sum, weight: last.weight + block.weight, count: last.count + block.count };
      }
      blocks.push(block);
    });
    let i = 0;
    offset = 0;
    for (const block of blocks) {
      for (let k = 0; k < block.count; k++, i++) {
        if (i) offset += gap(layer[i - 1], layer[i]);
        x[layer[i]] = block.sum / block.weight + offset;
      }
    }
  };
  const sweeps = rank.length > 30000 ? 3 : 8;
  for (let i = 0; i < sweeps; i++) {
    for (let r = 1; r < layers.length; r++) pull(layers[r], [up]);
    for (let r = layers.length - 2; r >= 0; r--) pull(layers[r], [down]);
  }
  for (let r = 1; r < layers.length; r++) pull(layers[r], [up, down]);
  graph.x = x;
}

function routed(items, edges, graph) {
  const { layers, x, height, width, rank, chains } = graph;
  const tops = [], heights = [];
  let y = 0;
  for (const layer of layers) {
    let tallest = 0;
    for (const one of layer) tallest = Math.max(tallest, height[one]);
    tops.push(y);
    heights.push(tallest);
    y += tallest + GAP.y + Math.min(60, layer.length);
  }
  let left = Infinity, right = -Infinity, bottom = 0;
  for (const layer of layers) {
    for (const one of layer) {
      left = Math.min(left, x[one] - width[one] / 2);
      right = Math.max(right, x[one] + width[one] / 2);
    }
  }
  if (!items.length) left = right = 0;
  items.forEach((one, i) => {
    one.x = x[i] - left;
    one.y = tops[rank[i]] + (heights[rank[i]] - one.h) / 2;
    bottom = Math.max(bottom, one.y + one.h);
  });
  const routes = edges.map(([from, to], i) => {
    const points = [[items[from].x, items[from].y + items[from].h]];
    for (const bend of chains[i] || []) {
      const top = tops[rank[bend]], tall = heights[rank[bend]];
      points.push([x[bend] - left, top], [x[bend] - left, top + tall]);
    }
    points.push([items[to].x, items[to].y]);
    return points;
  });
  return { width: right - left, height: bottom, routes };
}
