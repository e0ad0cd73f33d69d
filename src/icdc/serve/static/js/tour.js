// A tour: places on the map where the instance has coordinates, else spread so that near ones are close.

import { legs } from "./instance.js";
import { svg } from "./svg.js";
import { number } from "./words.js";

const WIDEST = 760;

/** A map that is drawn once and then follows improvements. */
export class Tour {
  constructor(home, instance, { mini = false } = {}) {
    this.instance = instance;
    this.mini = mini;
    this.width = mini ? WIDEST : Math.max(320, Math.min(WIDEST, home.clientWidth || WIDEST));
    this.height = mini ? 420 : Math.min(460, 0.9 * this.width);
    this.points = placed(instance.coordinates ?? spread(instance.matrix), this.width, this.height, mini ? 20 : 0.06 * this.width);
    this.root = svg("svg", { viewBox: `0 0 ${this.width} ${this.height}`, role: "img" });
    this.edges = svg("g");
    this.stops = svg("g");
    this.root.append(this.edges, this.stops);
    this.known = new Set();
    const many = instance.height > 80;
    this.radius = mini ? 6 : many ? 3 : 5;
    instance.matrix.forEach((_, city) => {
      const [x, y] = this.points[city];
      this.stops.append(svg("circle", { class: city === 0 ? "stop first" : "stop", cx: x, cy: y, r: this.radius }, svg("title", {}, instance.rowName(city))));
    });
    if (!mini && !many) this.stops.append(...labels(this.points, instance, this.width));
    home.replaceChildren(this.root);
  }

  /** Draw a solution. */
  show(solution) {
    const drawn = new Set();
    const long = this.instance.height > 200;
    const parts = legs(this.instance, solution).map(({ from, to, cost }) => {
      const key = `${from}-${to}`;
      drawn.add(key);
      const [x1, y1] = this.points[from], [x2, y2] = this.points[to];
      const length = Math.hypot(x2 - x1, y2 - y1) || 1;
      const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
      const group = svg("g", { class: this.known.size && !this.known.has(key) ? "leg-group new" : "leg-group" });
      group.append(svg("line", { class: this.known.size && !this.known.has(key) ? "leg new" : "leg", x1: x1 + dx * this.radius, y1: y1 + dy * this.radius, x2: x2 - dx * (this.radius + 3), y2: y2 - dy * (this.radius + 3) }, svg("title", {}, `${this.instance.rowName(from)} to ${this.instance.rowName(to)}: ${number(cost)}`)));
      if (!this.mini && !long && length > 26) {
        const [mx, my] = [x1 + 0.58 * (x2 - x1), y1 + 0.58 * (y2 - y1)];
        group.append(svg("path", { class: "arrow", d: `M${mx + dx * 6},${my + dy * 6}L${mx - dx * 4 - dy * 4},${my - dy * 4 + dx * 4}L${mx - dx * 4 + dy * 4},${my - dy * 4 - dx * 4}Z` }));
      }
      return group;
    });
    this.edges.replaceChildren(...parts);
    this.known = drawn;
    const total = legs(this.instance, solution).reduce((sum, leg) => sum + leg.cost, 0);
    this.root.setAttribute("aria-label", `Tour of ${solution.length} cities, ${number(total)} long, beginning ${solution.slice(0, 6).map((city) => this.instance.rowName(city)).join(", ")}`);
  }
}

/** Names beside their places, each on the side where it covers least. */
function labels(points, instance, whole) {
  const taken = points.map(([x, y]) => [x - 7, y - 7, x + 7, y + 7]);
  const overlap = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
  return points.map(([x, y], city) => {
    const name = instance.rowName(city), width = 6.8 * name.length;
    const places = [[x + 10, y - 12, "start"], [x + 10, y + 4, "start"], [x - 10, y - 12, "end"], [x - 10, y + 4, "end"], [x, y - 22, "middle"], [x, y + 9, "middle"]].map(([left, top, anchor]) => {
      const begin = anchor === "start" ? left : anchor === "end" ? left - width : left - width / 2;
      return { left, top, anchor, box: [begin, top, begin + width, top + 13] };
    });
    const cost = (place) => taken.reduce((sum, box) => sum + overlap(place.box, box), 0) + (place.box[0] < 0 || place.box[2] > whole ? 500 : 0);
    const best = places.reduce((a, b) => (cost(b) < cost(a) ? b : a));
    taken.push(best.box);
    return svg("text", { class: "ink halo", x: best.left, y: best.top + 11, "font-size": 12, "text-anchor": best.anchor }, name);
  });
}

/** Scale points into the picture, keeping their proportions, y upwards. */
function placed(points, width, height, margin) {
  const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const marginRight = margin * 1.8;
  const scale = Math.min((width - margin - marginRight) / (right - left || 1), (height - 2 * margin) / (high - low || 1));
  const shift = [margin + (width - margin - marginRight - scale * (right - left)) / 2, margin + (height - 2 * margin - scale * (high - low)) / 2];
  return points.map(([x, y]) => [shift[0] + scale * (x - left), height - shift[1] - scale * (y - low)]);
}

/** Classical scaling: two coordinates whose distances are like the mean of there and back. */
function spread(matrix) {
  const n = matrix.length;
  if (n > 400) return matrix.map((_, i) => [Math.cos((2 * Math.PI * i) / n), Math.sin((2 * Math.PI * i) / n)]);
  const square = matrix.map((row, i) => row.map((_, j) => (((matrix[i][j] ?? 0) + (matrix[j][i] ?? 0)) / 2) ** 2));
  const means = square.map((row) => row.reduce((a, b) => a + b, 0) / n);
  const mean = means.reduce((a, b) => a + b, 0) / n;
  const inner = square.map((row, i) => row.map((value, j) => -0.5 * (value - means[i] - means[j] + mean)));
  const axes = [];
  for (let k = 0; k < 2; k++) {
    let v = Array.from({ length: n }, (_, i) => Math.sin(1 + i * (k + 1.7)));
    let size = 1;
    for (let turn = 0; turn < 60; turn++) {
      for (const a of axes) {
        const along = a.v.reduce((sum, value, i) => sum + value * v[i], 0);
        v = v.map((value, i) => value - along * a.v[i]);
      }
      const w = inner.map((row) => row.reduce((sum, value, j) => sum + value * v[j], 0));
      size = Math.hypot(...w) || 1;
      v = w.map((value) => value / size);
    }
    axes.push({ v, size });
  }
  return matrix.map((_, i) => axes.map((a) => a.v[i] * Math.sqrt(a.size)));
}
