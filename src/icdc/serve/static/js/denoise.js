// A solution through noise and back: the network's own steps, as they ran, beside what it believes at each of them.

import * as api from "./api.js";
import { number } from "./words.js";

const get = (id) => document.getElementById(id);
const PAUSE = 170, REST = 10; // milliseconds for a step; steps for which the last one stays

const ABOUT = {
  current: "Noise is added to the current solution until most of it is gone; then the network removes it again, step by step. It may come back to the same solution, or to another.",
  fresh: "There is no solution yet, so the network begins with nothing but noise and removes it step by step. Solve first to see the current solution taken apart and put together again.",
};

export class Denoise {
  constructor() {
    get("play").addEventListener("click", () => this.play(!this.timer));
    get("scrub").addEventListener("input", () => { this.play(false); this.at = +get("scrub").value; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(get("noise"));
    this.clear();
  }

  /** Forget what was shown, and stop what runs: the instance or its solution is another one. */
  clear() {
    this.play(false);
    this.steps = [];
    this.at = this.rest = 0;
    this.stop?.abort();
    get("denoise-view").hidden = true;
    get("denoise-hint").textContent = ABOUT.current;
    get("denoise-words").textContent = "";
  }

  /**
   * Let the network take the current solution {solution, cost} apart and put one together again; from pure noise where
   * there is none. Returns the answer where it is better than the current one, else null.
   */
  async run(instance, current, tour) {
    this.clear();
    const stop = (this.stop = new AbortController());
    this.order = tour ? current?.solution : null; // along the tour, so that it is a line beside the diagonal
    get("denoise-hint").textContent = current ? ABOUT.current : ABOUT.fresh;
    const say = (text) => { if (!stop.signal.aborted) get("denoise-words").textContent = text; };
    try {
      say("Waiting for a free worker…");
      const order = { instance: instance.document(), name: instance.name, trace: true, samples: 1 };
      const job = await api.begin(current ? { ...order, start: current.solution } : order);
      const abandon = () => api.cancel(job.id).catch(() => {});
      stop.signal.addEventListener("abort", abandon);
      let end = null;
      await api.follow(job.id, (name, data) => {
        if (name === "state") say("The network is at work…");
        if (name === "step") this.add(unpacked(data));
        if (name === "end") end = data;
      }, stop.signal);
      stop.signal.removeEventListener("abort", abandon);
      if (end.error) return say(end.error.detail), null;
      return this.finish(end.answer, current, tour, say);
    } catch (error) {
      say(error.message);
      return null;
    }
  }

  add(step) {
    // the search may go on with further trajectories: one is shown
    if (this.steps.at(-1)?.s === 0) return;
    this.steps.push(step);
    get("denoise-view").hidden = false;
    get("scrub").max = this.steps.length - 1;
    if (this.steps.length === 1) { this.at = 0; this.draw(); this.play(true); }
  }

  /** End with the solution that stays, and say how it compares. */
  finish(answer, current, tour, say) {
    const last = this.steps.at(-1);
    if (!last || !answer) return null;
    const came = last.cost === null ? answer.objective : last.cost;
    const better = current !== null && answer.objective < current.cost;
    const same = current !== null && Math.abs(came - current.cost) <= 1e-9 * Math.abs(current.cost);
    if (current === null) say(`From nothing but noise the network came to ${number(answer.objective)}.`);
    else if (better) say(`The network came back with a better one: ${number(answer.objective)} instead of ${number(current.cost)}. It is the current solution now.`);
    else if (same) say(`The network came back to ${number(came)}, as good as the current solution, which stays.`);
    else say(`The network came back to ${number(came)}. The current solution, ${number(current.cost)}, is better and stays; it is the last picture.`);
    const matrix = marked(answer.solution, last, tour);
    this.steps.push({ ...last, t: 0, s: 0, x: matrix, belief: matrix.map((one) => 255 * one), cost: answer.objective, final: true });
    get("scrub").max = this.steps.length - 1;
    return better ? answer : null;
  }

  play(on) {
    clearInterval(this.timer);
    this.timer = on ? setInterval(() => this.forward(), PAUSE) : 0;
    get("play").textContent = on ? "Pause" : "Play";
  }

  forward() {
    this.rest = this.at === this.steps.length - 1 ? this.rest + 1 : 0;
    if (this.at < this.steps.length - 1) this.at += 1;
    else if (this.rest > REST) { this.at = 0; this.rest = 0; }
    this.draw();
  }

  draw() {
    const step = this.steps?.[this.at];
    if (!step) return;
    get("scrub").value = this.at;
    const words = step.final ? "the solution that stays" : step.s > step.t ? (step.t === 0 ? "the current solution" : `noise added, step ${step.t}`) : `noise removed, step ${step.t}`;
    get("step").textContent = words;
    get("belief-words").textContent = step.final || step.s > step.t && step.t === 0 ? "The same" : "What the network believes the solution to be";
    get("scrub").setAttribute("aria-valuetext", words);
    get("step-cost").textContent = step.cost === null ? "" : `cost ${number(+step.cost.toPrecision(10))}`;
    this.paint(get("noise"), step, (i) => step.x[i]);
    this.paint(get("belief"), step, (i) => step.belief[i] / 255);
  }

  paint(canvas, { rows, columns }, value) {
    const ratio = devicePixelRatio || 1;
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    // long thin matrices lie on their side
    const lying = rows > 2 * columns;
    const [across, down] = lying ? [rows, columns] : [columns, rows];
    const size = Math.min(width / across, height / down);
    const [w, h] = lying ? [width / across, Math.min(height / down, 2.5 * (width / across))] : [size, size];
    const [left, top] = [(width - w * across) / 2, (height - h * down) / 2];
    context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent");
    const line = w > 6 ? ratio : 0;
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) {
        const from = this.order && rows === columns ? this.order[r] * columns + this.order[c] : r * columns + c;
        const [x, y] = lying ? [r, c] : [c, r];
        context.globalAlpha = 0.06 + 0.94 * value(from);
        context.fillRect(left + x * w, top + y * h, w - line, h - line);
      }
    }
    context.globalAlpha = 1;
  }
}

/** The matrix of a solution: ones at the machine of every job, or at the next city of every city. */
function marked(solution, { rows, columns }, tour) {
  const cells = new Uint8Array(rows * columns);
  solution.forEach((one, place) => {
    const [r, c] = tour ? [one, solution[(place + 1) % solution.length]] : [place, one];
    cells[r * columns + c] = 1;
  });
  return cells;
}

function unpacked({ t, s, rows, columns, x, belief, cost }) {
  const bits = Uint8Array.from(atob(x), (c) => c.charCodeAt(0));
  const cells = rows * columns;
  return { t, s, rows, columns, cost, x: Uint8Array.from({ length: cells }, (_, i) => (bits[i >> 3] >> (7 - (i & 7))) & 1), belief: Uint8Array.from(atob(belief), (c) => c.charCodeAt(0)) };
}
