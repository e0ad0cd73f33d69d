// A schedule: one lane for each machine, jobs as bars that move when they change machines.

import { schedule } from "./instance.js";
import { set, svg, ticks } from "./svg.js";
import { number } from "./words.js";

const WIDEST = 760;

/** A Gantt chart that is drawn once and then follows improvements. */
export class Gantt {
  constructor(home, instance, { mini = false } = {}) {
    this.instance = instance;
    this.mini = mini;
    this.width = mini ? WIDEST : Math.max(320, Math.min(WIDEST, home.clientWidth || WIDEST));
    const many = instance.width > 24;
    this.lane = mini ? Math.max(3, Math.min(14, 150 / instance.width)) : many ? 15 : instance.width > 10 ? 22 : 34;
    this.gap = mini || many ? 2 : 8;
    const longest = Math.max(...Array.from({ length: instance.width }, (_, c) => instance.columnName(c).length));
    this.left = mini ? 0 : Math.min(150, 22 + 7.5 * longest);
    this.right = mini ? 0 : 64;
    this.height = instance.width * (this.lane + this.gap) + (mini ? 0 : 34);
    this.root = svg("svg", { viewBox: `0 0 ${this.width} ${this.height}`, role: "img" });
    this.axis = svg("g");
    this.lanes = svg("g");
    this.bars = svg("g");
    this.names = svg("g");
    this.line = svg("g");
    this.root.append(this.lanes, this.axis, this.bars, this.line, this.names);
    for (let m = 0; m < instance.width; m++) {
      this.lanes.append(svg("rect", { class: "lane", x: this.left, y: this.y(m), width: this.width - this.left - this.right, height: this.lane, rx: 3 }));
      if (!mini) this.lanes.append(svg("text", { class: "ink", x: this.left - 10, y: this.y(m) + this.lane / 2 + 4, "text-anchor": "end", "font-size": many ? 10.5 : 13 }, clipped(instance.columnName(m), 18)));
    }
    this.rects = instance.matrix.map(() => svg("rect", { class: "bar", rx: mini ? 1 : 3 }, svg("title")));
    this.texts = mini || many ? [] : instance.matrix.map((_, j) => svg("text", { class: "bar-name", "text-anchor": "middle" }, instance.rowName(j)));
    this.loads = mini ? [] : Array.from({ length: instance.width }, () => svg("text", { "font-size": many ? 10.5 : 13 }));
    this.bars.append(...this.rects);
    this.names.append(...this.texts, ...this.loads);
    home.replaceChildren(this.root);
  }

  y(machine) { return machine * (this.lane + this.gap) + this.gap / 2; }

  /** Draw a solution. */
  show(solution, bound) {
    const { jobs, loads } = schedule(this.instance, solution);
    const makespan = Math.max(...loads), end = Math.max(makespan, bound ?? 0) || 1;
    const x = (t) => this.left + ((this.width - this.left - this.right) * t) / end;
    for (const { job, machine, start, end: stop } of jobs) {
      const full = loads[machine] === makespan;
      const width = Math.max(0.5, x(stop) - x(start) - (this.mini ? 0.4 : 1.5));
      const rect = this.rects[job];
      rect.classList.toggle("full", full);
      set(rect, { x: x(start), y: this.y(machine), width, height: this.lane });
      rect.firstChild.textContent = `${this.instance.rowName(job)} on ${this.instance.columnName(machine)}: ${number(start)} to ${number(stop)}`;
      const text = this.texts[job];
      if (text) {
        text.classList.toggle("full", full);
        const room = width > this.instance.rowName(job).length * 6.6 + 6;
        set(text, { x: x(start) + width / 2, y: this.y(machine) + this.lane / 2 + 4, visibility: room ? "visible" : "hidden" });
      }
    }
    this.loads.forEach((text, m) => {
      text.setAttribute("class", loads[m] === makespan ? "strong halo" : "halo");
      text.textContent = number(loads[m]);
      // beside its lane, or beyond the line of the bound where that would cross it
      const at = x(loads[m]) + 7, line = x(bound ?? -1);
      const crossed = line > at - 4 && line < at + 8 * text.textContent.length;
      set(text, { x: crossed ? line + 7 : at, y: this.y(m) + this.lane / 2 + 4 });
    });
    this.root.setAttribute("aria-label", `Schedule: ${this.instance.height} jobs on ${this.instance.width} machines, the last one ends at ${number(makespan)}`);
    if (this.mini) return;
    const bottom = this.height - 30;
    this.axis.replaceChildren(svg("line", { class: "axis base", x1: this.left, x2: x(end), y1: bottom, y2: bottom }));
    for (const value of ticks(0, end, 8)) {
      this.axis.append(svg("line", { class: "axis", x1: x(value), x2: x(value), y1: 0, y2: bottom + 4 }), svg("text", { x: x(value), y: bottom + 19, "text-anchor": "middle", "font-size": 12 }, number(value)));
    }
    this.line.replaceChildren();
    if (bound !== null && bound !== undefined && bound <= makespan) {
      this.line.append(svg("line", { class: "bound", x1: x(bound), x2: x(bound), y1: 0, y2: bottom }, svg("title", {}, `No schedule can finish before ${number(bound)}`)));
    }
  }
}

function clipped(text, length) { return text.length > length ? `${text.slice(0, length - 1)}…` : text; }
