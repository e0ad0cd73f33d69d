// The answer: one search at a time, followed while it runs, and what is shown of it.

import * as api from "./api.js";
import { drawCurve } from "./curve.js";
import { Gantt } from "./gantt.js";
import { legs, schedule } from "./instance.js";
import { html } from "./svg.js";
import { Tour } from "./tour.js";
import { gapOf, number, seconds, verdict } from "./words.js";

const get = (id) => document.getElementById(id);
const PARTS = ["headline", "drawing-figure", "curve-figure", "downloads", "list-details"];

/** A picture of solutions that follows improvements: a map of a tour, or a Gantt chart. */
export function picture(home, instance, about, options) {
  return about.tour ? new Tour(home, instance, options) : new Gantt(home, instance, options);
}

export class AnswerCard {
  /** `problems` as the server describes them; `chosen(columns)` is told which cells the solution takes, `changed()` of every new search. */
  constructor(problems, { chosen, changed }) {
    this.problems = problems;
    this.chosen = chosen;
    this.changed = changed;
    this.search = null; // {id, limit, improvements, bound, began, ended, took, answer, stop}
  }

  get about() { return this.problems[this.instance.problem]; }
  get answer() { return this.search?.answer ?? null; }
  get drawing() { return get("drawing").querySelector("svg"); }

  /** The best solution so far and its cost, or null. */
  get current() {
    const last = this.search?.improvements.at(-1);
    return last?.solution ? { solution: last.solution, cost: last.cost } : null;
  }

  /** Put away everything that belongs to a search, and stop it; another instance may follow. */
  clear(instance) {
    const { search } = this;
    if (search && !search.ended) api.cancel(search.id).catch(() => {});
    search?.stop.abort();
    clearInterval(search?.timer);
    this.search = this.picture = null;
    this.instance = instance;
    this.chosen(null);
    complain(null);
    running(false);
    state("Ready", "");
    get("notes").replaceChildren();
    get("words").textContent = "";
    get("empty").hidden = false;
    for (const id of PARTS) get(id).hidden = true;
  }

  /** Begin a search and follow it. */
  async solve(solver, limit) {
    if (this.sending) return;
    this.clear(this.instance);
    this.sending = true;
    state("Sending", "live");
    const { instance } = this;
    try {
      const job = await api.begin({ instance: instance.document(), name: instance.name, time_limit: limit, solver });
      this.sending = false;
      if (this.instance !== instance) return void api.cancel(job.id).catch(() => {}); // another came in between
      await this.watch(job.id, limit);
    } catch (error) {
      this.sending = false;
      state("Not begun", "bad");
      complain(error.message);
    }
  }

  /** Follow a search that was begun, perhaps before a reload. */
  async watch(id, limit) {
    const mine = (this.search = { id, limit, improvements: [], bound: null, began: null, ended: false, answer: null, stop: new AbortController() });
    this.changed();
    running(true);
    state("Waiting for a free worker", "live");
    mine.timer = setInterval(() => this.redraw(mine), 250);
    try {
      await api.follow(id, (name, data) => { if (this.search === mine) this.heard(mine, name, data); }, mine.stop.signal);
    } catch (error) {
      if (mine.stop.signal.aborted) return;
      complain(error.status === 404 ? "The server does not know this search any more." : error.message);
      state("Failed", "bad");
    } finally {
      clearInterval(mine.timer);
      if (this.search === mine) running(false);
    }
  }

  /** Ask the search to stop; its best so far stays. */
  async stop() {
    if (!this.search) return;
    state("Stopping", "live");
    await api.cancel(this.search.id).catch((error) => complain(error.message));
  }

  heard(mine, name, data) {
    if (name === "state" && data.state === "running") {
      mine.began = performance.now();
      state("Searching", "live");
    } else if (name === "begun") mine.bound = data.bound;
    else if (name === "note") get("notes").append(html("li", {}, data.sentence));
    else if (name === "improved") {
      mine.improvements.push(data);
      mine.began = Math.min(mine.began ?? Infinity, performance.now() - 1000 * data.seconds);
      if (data.bound !== null) mine.bound = data.bound;
      this.later(mine);
    } else if (name === "end") this.ended(mine, data);
  }

  /** Many improvements may come at once: draw the last of them, with the next frame. */
  later(mine) {
    mine.frame ??= requestAnimationFrame(() => {
      mine.frame = null;
      if (this.search !== mine || mine.ended) return;
      this.show(this.current?.solution, mine.bound);
      this.redraw(mine);
    });
  }

  ended(mine, job) {
    mine.ended = true;
    mine.took = job.seconds ?? mine.improvements.at(-1)?.seconds ?? 0;
    const { answer } = job;
    if (job.error) {
      complain(job.error.detail);
      state("Failed", "bad");
    } else if (!answer || answer.objective === null) state("Stopped", "");
    else {
      this.take(answer);
      if (answer.optimal) state("Proven optimal", "proven");
      else state(job.state === "cancelled" ? `Stopped after ${seconds(mine.took)}` : `Done in ${seconds(mine.took)}`, "");
      return;
    }
    this.show(this.current?.solution, mine.bound);
    this.redraw(mine);
  }

  /** Show a finished answer: the search's own, or a better one that was found elsewhere. */
  take(answer) {
    const mine = this.search;
    mine.answer = answer;
    mine.bound = Math.max(mine.bound ?? -Infinity, answer.bound ?? -Infinity);
    if (!Number.isFinite(mine.bound)) mine.bound = null;
    const last = mine.improvements.at(-1);
    const step = { seconds: mine.took, cost: answer.objective, bound: mine.bound, solution: answer.solution, found_by: answer.found_by };
    if (last?.cost !== answer.objective) mine.improvements.push(step);
    else last.solution = answer.solution;
    this.show(answer.solution, mine.bound);
    this.redraw(mine);
    list(this.instance, this.about, answer.solution);
    get("downloads").hidden = false;
  }

  redraw(mine) {
    if (this.search !== mine || !mine.improvements.length) return;
    const { about } = this;
    const now = mine.ended ? mine.took : (performance.now() - mine.began) / 1000;
    const { cost, found_by: by } = mine.improvements.at(-1);
    get("objective-word").textContent = about.objective[0].toUpperCase() + about.objective.slice(1);
    get("objective").textContent = number(cost);
    get("bound").textContent = number(mine.bound);
    get("gap").textContent = gapOf(cost, mine.bound).text;
    const sentence = verdict(about, cost, mine.bound, !mine.ended) + (by && by !== "icdc" ? ` Found by ${by}.` : "");
    if (get("words").textContent !== sentence) get("words").textContent = sentence;
    get("empty").hidden = true;
    get("headline").hidden = get("curve-figure").hidden = false;
    drawCurve(get("curve"), mine.improvements, { bound: mine.bound, now, limit: mine.limit, ended: mine.ended, word: about.objective });
  }

  /** Draw a solution; of searches long ago only the costs on the way are known. */
  show(solution, bound) {
    if (!solution) return;
    get("drawing-figure").hidden = false;
    get("drawing-title").textContent = this.about.tour ? "Tour" : "Schedule";
    this.picture ??= picture(get("drawing"), this.instance, this.about);
    this.picture.show(solution, bound);
    if (!this.about.tour) return this.chosen(solution);
    const next = [];
    solution.forEach((city, place) => { next[city] = solution[(place + 1) % solution.length]; });
    this.chosen(next);
  }
}

/** The solution as a table for those who would rather read it. */
function list(instance, about, solution) {
  const cell = (text, number_ = false) => html("td", { className: number_ ? "number" : "" }, text);
  const head = (...names) => html("thead", {}, html("tr", {}, ...names.map(([text, n]) => html("th", { className: n ? "number" : "", scope: "col" }, text))));
  const body = html("tbody");
  const table = html("table");
  if (about.tour) {
    get("list-title").textContent = "Stops in order";
    table.append(head(["#", true], ["City"], ["To next", true]), body);
    legs(instance, solution).forEach((leg, place) => body.append(html("tr", {}, cell(String(place + 1), true), cell(instance.rowName(leg.from)), cell(number(leg.cost), true))));
  } else {
    get("list-title").textContent = "Loads";
    const { jobs, loads } = schedule(instance, solution);
    table.append(head(["Machine"], ["Load", true], ["Jobs"]), body);
    loads.forEach((load, m) => body.append(html("tr", {}, cell(instance.columnName(m)), cell(number(load), true), cell(jobs.filter((j) => j.machine === m).map((j) => instance.rowName(j.job)).join(", ") || "–"))));
  }
  get("list").replaceChildren(table);
  get("list-details").hidden = false;
}

/** Show the Stop button in the place of Solve, or the other way round; whoever has the focus keeps it. */
function running(on) {
  if (get("stop").hidden !== on) return;
  const focused = [get("solve"), get("stop")].includes(document.activeElement);
  get("solve").hidden = on;
  get("stop").hidden = !on;
  if (focused) get(on ? "stop" : "solve").focus();
}

function state(text, kind) {
  get("state").textContent = text;
  get("state").className = `pill ${kind}`;
}

/** Say what is wrong; null takes it back. */
export function complain(sentence) {
  get("error").hidden = !sentence;
  get("error").textContent = sentence ?? "";
}
