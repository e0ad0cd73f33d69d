// Cost against time as a falling stair, with the bound under it.

import { svg, ticks } from "./svg.js";
import { number, seconds } from "./words.js";

const WIDEST = 760, HEIGHT = 220, LEFT = 74, RIGHT = 16, TOP = 12, BOTTOM = 34;

/** Draw the curve of improvements [{seconds, cost, bound}] up to `now` seconds, of `limit`. */
export function drawCurve(home, improvements, { bound, now, limit, ended, word }) {
  const width = Math.max(320, Math.min(WIDEST, home.clientWidth || WIDEST));
  const costs = improvements.map((one) => one.cost);
  const worst = Math.max(...costs), best = Math.min(...costs);
  // early solutions may be far off: what happened since is what one wants to see
  const floor = bound ?? best;
  let top = Math.max(worst, floor);
  const late = costs[Math.min(costs.length - 1, Math.floor(costs.length * 0.15))];
  if (top - floor > 4 * (late - floor) && late > floor) top = floor + 2.2 * (late - floor);
  if (!(top > floor)) top = floor + Math.max(1, Math.abs(floor) * 0.02);
  const low = floor - 0.14 * (top - floor), high = top + 0.06 * (top - floor);
  const end = Math.max(ended ? now : Math.max(now, Math.min(limit ?? now, now * 1.6)), 0.01);
  const x = (t) => LEFT + ((width - LEFT - RIGHT) * Math.min(t, end)) / end;
  const y = (c) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (Math.min(c, high) - low) / (high - low));
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": describe(improvements, bound, word) });
  for (const value of ticks(low, high, 4)) {
    root.append(svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }), svg("text", { x: LEFT - 10, y: y(value) + 4, "text-anchor": "end", "font-size": 12 }, number(value)));
  }
  root.append(svg("line", { class: "axis base", x1: LEFT, x2: width - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }));
  for (const value of ticks(0, end, width > 500 ? 6 : 4)) {
    root.append(svg("line", { class: "axis base", x1: x(value), x2: x(value), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4 }), svg("text", { x: x(value), y: HEIGHT - BOTTOM + 19, "text-anchor": "middle", "font-size": 12 }, value === 0 ? "0" : end < 1 ? `${Math.round(1000 * value)} ms` : `${+value.toFixed(2)} s`));
  }
  const last = improvements.at(-1), until = Math.max(now, last.seconds);
  const costLine = stair(improvements.map((one) => [one.seconds, one.cost]), until);
  // a bound holds for every moment, whenever it was found
  const boundLine = bound === null || bound === undefined ? [] : [[0, bound], [until, bound]];
  const points = (line) => line.map(([t, c]) => `${x(t)},${y(c)}`).join(" ");
  if (boundLine.length) root.append(svg("polygon", { class: "under", points: points([...costLine, [until, bound], [costLine[0][0], bound]]) }));
  root.append(svg("polyline", { class: "cost", points: points(costLine) }));
  if (boundLine.length) {
    // below the line where there is room, else above it
    const place = y(bound) + 16 > HEIGHT - BOTTOM - 2 ? -7 : 16;
    root.append(svg("polyline", { class: "bound", points: points(boundLine) }), svg("text", { class: "ink halo", x: width - RIGHT - 4, y: y(bound) + place, "text-anchor": "end", "font-size": 12 }, `bound ${number(bound)}`));
  }
  const shown = improvements.length > 60 ? improvements.slice(-1) : improvements;
  for (const one of shown) root.append(svg("circle", { class: "dot", cx: x(one.seconds), cy: y(one.cost), r: one === last ? 4.5 : 3 }, svg("title", {}, `${number(one.cost)} after ${seconds(one.seconds)}${one.found_by ? `, by ${one.found_by}` : ""}`)));
  const right = x(last.seconds) > width * 0.72;
  root.append(svg("text", { class: "strong", x: x(last.seconds) + (right ? -10 : 10), y: y(last.cost) - 8, "font-size": 13, "text-anchor": right ? "end" : "start" }, number(last.cost)));
  home.replaceChildren(root);
}

/** The corners of a line of steps through (time, value), drawn on to an end. */
function stair(steps, until) {
  const corners = [];
  for (const [t, value] of steps) {
    if (corners.length) corners.push([t, corners.at(-1)[1]]);
    corners.push([t, value]);
  }
  return [...corners, [until, corners.at(-1)[1]]];
}

function describe(improvements, bound, word) {
  const first = improvements[0], last = improvements.at(-1);
  const least = bound === null || bound === undefined ? "" : `; the lower bound is ${number(bound)}`;
  return `${word} against time: ${number(first.cost)} after ${seconds(first.seconds)}, ${number(last.cost)} after ${seconds(last.seconds)}${least}`;
}
