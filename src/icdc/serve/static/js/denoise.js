// The reverse process as it ran: the noisy matrix and what the network believes, step by step.

import * as api from "./api.js";
import { number } from "./words.js";

const get = (id) => document.getElementById(id);

export class Denoise {
  constructor() {
    this.steps = [];
    get("play").addEventListener("click", () => this.play(!this.timer));
    get("scrub").addEventListener("input", () => { this.play(false); this.at = +get("scrub").value; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(get("noise"));
  }

  /** Forget what was shown: the instance is another one. */
  clear() {
    this.play(false);
    this.steps = [];
    this.stop?.abort();
    get("denoise-view").hidden = true;
  }

  /** Let the network run once and show its steps; `order` arranges rows and columns along a tour. */
  async run(instance, order) {
    this.clear();
    this.stop = new AbortController();
    this.order = order;
    const job = await api.begin({ instance: instance.document(), name: instance.name, trace: true, samples: 1 });
    let failed = null;
    await api.follow(job.id, (name, data) => {
      if (name === "step") {
        // the search may go on with further trajectories: one is shown
        if (this.steps.length && data.t >= this.steps.at(-1).t) return;
        this.steps.push(unpacked(data));
        get("denoise-view").hidden = false;
        get("scrub").max = this.steps.length - 1;
        if (this.steps.length === 1) { this.at = 0; this.draw(); this.play(true); }
      } else if (name === "end" && data.error) failed = new Error(data.error.detail);
    }, this.stop.signal);
    if (failed) throw failed;
  }

  play(on) {
    clearInterval(this.timer);
    this.timer = on ? setInterval(() => this.forward(), 170) : 0;
    get("play").textContent = on ? "Pause" : "Play";
  }

  forward() {
    this.rest = this.at === this.steps.length - 1 ? (this.rest ?? 0) + 1 : 0;
    if (this.at < this.steps.length - 1) this.at += 1;
    else if (this.rest > 9) { this.at = 0; this.rest = 0; }
    this.draw();
  }

  draw() {
    const step = this.steps[this.at];
    if (!step) return;
    get("scrub").value = this.at;
    get("step").textContent = step.t;
    get("step-cost").textContent = step.cost === null ? "" : `cost ${number(Math.round(step.cost))}`;
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
    const style = getComputedStyle(document.documentElement);
    context.fillStyle = style.getPropertyValue("--accent");
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

function unpacked({ t, rows, columns, x, belief, cost }) {
  const bits = Uint8Array.from(atob(x), (c) => c.charCodeAt(0));
  const cells = rows * columns;
  return { t, rows, columns, cost, x: Uint8Array.from({ length: cells }, (_, i) => (bits[i >> 3] >> (7 - (i & 7))) & 1), belief: Uint8Array.from(atob(belief), (c) => c.charCodeAt(0)) };
}
