// The page: one instance, one search at a time, and what is shown of them.

import * as api from "./api.js";
import { Compare } from "./compare.js";
import { drawCurve } from "./curve.js";
import { Denoise } from "./denoise.js";
import { download } from "./downloads.js";
import { EXAMPLES } from "./examples.js";
import { Gantt } from "./gantt.js";
import { Grid } from "./grid.js";
import { Instance, legs, schedule } from "./instance.js";
import { fromLink, linkTo } from "./share.js";
import { html } from "./svg.js";
import { Tour } from "./tour.js";
import { gapOf, number, seconds, verdict } from "./words.js";

const get = (id) => document.getElementById(id);
const TIMES = [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300];
const KINDS = { csv: "text/csv", tsv: "text/tab-separated-values", json: "application/json", jsonl: "application/json", atsp: "application/x-tsplib", tsp: "application/x-tsplib", npz: "application/x-npz", npy: "application/x-npy", xlsx: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" };
const TITLES = { pmsp: "Schedule", atsp: "Tour", navigation: "Navigation" };
const STORED = "icdc-page";

let server, instance, grid, compare, drawing, denoise;
let search = null; // {id, improvements, bound, began, limit, ended, answer, stop}

// ---- The matrix ----

function show(next, { keep = false } = {}) {
  instance = next;
  if (!keep) forget();
  grid.show(instance);
  described();
  remember();
}

function described() {
  const about = server.problems[instance.problem];
  for (const box of get("problem").querySelectorAll("input")) {
    box.checked = box.value === instance.problem;
    box.disabled = instance.arrays ? box.value !== instance.problem : box.value !== "pmsp" && instance.height !== instance.width;
  }
  const sizes = about.tour ? `${instance.height} ${about.row_words[1]}` : `${instance.height} ${about.row_words[instance.height === 1 ? 0 : 1]} on ${instance.width} ${about.column_words[instance.width === 1 ? 0 : 1]}`;
  const free = instance.matrix.flat().filter((value) => value === null).length;
  get("subject").textContent = `${sizes} · ${about.entries}${free ? ` · ${free} forbidden` : ""}`;
  for (const id of ["add-row", "add-column", "remove-row", "remove-column"]) get(id).disabled = !instance.editable;
  for (const id of ["add-column", "remove-column"]) get(id).hidden = about.tour;
  compare.offer(about.tour);
}

function offerProblems() {
  const labels = Object.keys(server.problems).filter((name) => name !== "navigation").map((name) => {
    const box = html("input", { type: "radio", name: "problem", value: name });
    box.addEventListener("change", () => { get("question").hidden = true; show(new Instance({ ...instance.plain(), problem: name })); });
    return html("label", {}, box, TITLES[name] ?? name);
  });
  get("problem").append(...labels);
}

function resized(rows, columns) {
  const tour = server.problems[instance.problem].tour;
  const height = Math.max(tour ? 2 : 1, instance.height + rows), width = tour ? height : Math.max(1, instance.width + columns);
  const matrix = Array.from({ length: height }, (_, r) => Array.from({ length: width }, (_, c) => instance.matrix[r]?.[c] ?? (r < instance.height && c < instance.width ? null : 1)));
  const names = (old, count, word) => old && Array.from({ length: count }, (_, i) => old[i] ?? `${word} ${i + 1}`);
  const words = server.problems[instance.problem];
  show(new Instance({ ...instance.plain(), matrix, rows: names(instance.rows, height, words.row_words[0]), columns: names(instance.columns, width, words.column_words[0]), coordinates: null }));
}

async function readContent(content, kind, name) {
  complain(null);
  get("question").hidden = true;
  try {
    let found = await api.read(content, kind, { name });
    if (found.candidates) {
      get("question").textContent = "This square matrix may be distances or processing times. Choose above which it is.";
      get("question").hidden = false;
      found = found.candidates.pmsp ?? Object.values(found.candidates)[0];
    }
    if (found.understood) toast(found.understood);
    show(new Instance(found));
  } catch (error) {
    complain(error.message);
  }
}

async function readFile(file) {
  if (!file) return;
  if (file.size > server.limits.body) return complain(`${file.name} is larger than this server takes (${number(server.limits.body)} bytes).`);
  const ending = file.name.split(".").pop().toLowerCase();
  await readContent(await file.arrayBuffer(), KINDS[ending] ?? "text/plain", file.name);
}

// ---- The search ----

function limitNow() { return TIMES[+get("time").value]; }

async function solve() {
  const wrong = instance.wrong();
  complain(wrong);
  if (wrong) return;
  forget();
  try {
    const limit = limitNow();
    const job = await api.begin({ instance: instance.document(), name: instance.name, time_limit: limit, solver: get("solver").value });
    await watch(job.id, limit);
  } catch (error) {
    running(false);
    complain(error.retry ? `${error.message}` : error.message);
  }
}

async function watch(id, limit) {
  const mine = (search = { id, limit, improvements: [], bound: null, began: null, ended: false, answer: null, stop: new AbortController() });
  remember();
  running(true);
  state("Waiting for a free worker", "live");
  mine.timer = setInterval(() => redraw(mine), 250);
  try {
    await api.follow(id, (name, data) => { if (search === mine) heard(mine, name, data); }, mine.stop.signal);
  } catch (error) {
    if (mine.stop.signal.aborted) return;
    complain(error.status === 404 ? "The server does not know this search any more." : error.message);
    state("Failed", "bad");
  } finally {
    clearInterval(mine.timer);
    if (search === mine) running(false);
  }
}

function heard(mine, name, data) {
  if (name === "state" && data.state === "running") {
    mine.began = performance.now();
    state("Searching", "live");
  } else if (name === "begun") mine.bound = data.bound;
  else if (name === "note") get("notes").append(html("li", {}, data.sentence));
  else if (name === "improved") {
    mine.improvements.push(data);
    mine.began = Math.min(mine.began ?? Infinity, performance.now() - 1000 * data.seconds);
    if (data.bound !== null) mine.bound = data.bound;
    show_solution(data.solution, mine.bound);
    redraw(mine);
  } else if (name === "end") ended(mine, data);
}

function ended(mine, job) {
  mine.ended = true;
  mine.took = job.seconds ?? mine.improvements.at(-1)?.seconds ?? 0;
  mine.answer = job.answer;
  if (job.error) {
    complain(job.error.detail);
    state("Failed", "bad");
    return redraw(mine);
  }
  const answer = job.answer;
  if (!answer || answer.objective === null) return state("Stopped", "");
  mine.bound = answer.bound;
  if (!mine.improvements.length || mine.improvements.at(-1).cost !== answer.objective) mine.improvements.push({ seconds: mine.took, cost: answer.objective, bound: answer.bound, solution: answer.solution });
  show_solution(answer.solution, answer.bound);
  redraw(mine);
  list(answer.solution);
  get("downloads").hidden = false;
  if (answer.optimal) state("Proven optimal", "proven");
  else state(job.state === "cancelled" ? `Stopped after ${seconds(mine.took)}` : `Done in ${seconds(mine.took)}`, "");
}

function redraw(mine) {
  if (search !== mine || !mine.improvements.length) return;
  const now = mine.ended ? mine.took : (performance.now() - mine.began) / 1000;
  const about = server.problems[instance.problem];
  const cost = mine.improvements.at(-1).cost;
  get("objective-word").textContent = about.objective[0].toUpperCase() + about.objective.slice(1);
  get("objective").textContent = number(cost);
  get("bound").textContent = number(mine.bound);
  get("gap").textContent = gapOf(cost, mine.bound).text;
  const by = mine.improvements.at(-1).found_by;
  const sentence = verdict(about, cost, mine.bound, !mine.ended) + (by && by !== "icdc" ? ` Found by ${by}.` : "");
  if (get("words").textContent !== sentence) get("words").textContent = sentence;
  get("curve-figure").hidden = false;
  drawCurve(get("curve"), mine.improvements, { bound: mine.bound, now, limit: mine.limit, ended: mine.ended, word: about.objective });
}

function picture(home, options) {
  return server.problems[instance.problem].tour ? new Tour(home, instance, options) : new Gantt(home, instance, options);
}

function show_solution(solution, bound) {
  get("empty").hidden = true;
  get("headline").hidden = get("drawing-figure").hidden = false;
  const tour = server.problems[instance.problem].tour;
  get("drawing-title").textContent = tour ? "Tour" : "Schedule";
  drawing ??= picture(get("drawing"));
  drawing.show(solution, bound);
  if (!tour) return grid.choose(solution);
  const next = [];
  solution.forEach((city, place) => { next[city] = solution[(place + 1) % solution.length]; });
  grid.choose(next);
}

function list(solution) {
  const tour = server.problems[instance.problem].tour;
  const cell = (text, number_ = false) => html("td", { className: number_ ? "number" : "" }, text);
  const head = (...names) => html("thead", {}, html("tr", {}, ...names.map(([text, n]) => html("th", { className: n ? "number" : "", scope: "col" }, text))));
  const body = html("tbody");
  const table = html("table");
  if (tour) {
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

/** Put away everything that belongs to the search before. */
function forget() {
  if (search && !search.ended) api.cancel(search.id).catch(() => {});
  search?.stop.abort();
  clearInterval(search?.timer);
  search = null;
  drawing = null;
  grid.choose(null);
  denoise.clear();
  compare.clear();
  complain(null);
  running(false);
  state("Ready", "");
  get("notes").replaceChildren();
  get("words").textContent = "";
  get("empty").hidden = false;
  for (const id of ["headline", "drawing-figure", "curve-figure", "downloads", "list-details"]) get(id).hidden = true;
  remember();
}

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

function complain(sentence) {
  get("error").hidden = !sentence;
  get("error").textContent = sentence ?? "";
}

let toastTimer;
function toast(text) {
  get("toast").textContent = text;
  get("toast").hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { get("toast").hidden = true; }, 4000);
}

// ---- Over a reload ----

function remember() {
  if (!instance) return;
  try {
    sessionStorage.setItem(STORED, JSON.stringify({ instance: instance.plain(), job: search && { id: search.id, limit: search.limit }, time: get("time").value, solver: get("solver").value }));
  } catch { /* larger than the browser keeps; a reload then begins anew */ }
}

async function begin() {
  const linked = await fromLink();
  if (linked && linked.problem in server.problems) {
    history.replaceState(null, "", location.pathname);
    return show(new Instance(linked));
  }
  let stored = null;
  try { stored = JSON.parse(sessionStorage.getItem(STORED)); } catch { /* not ours */ }
  if (!stored?.instance) return show(EXAMPLES.workshop.make());
  get("time").value = stored.time;
  if ([...get("solver").options].some((option) => option.value === stored.solver)) get("solver").value = stored.solver;
  shownTime();
  const job = stored.job;
  show(new Instance(stored.instance));
  if (job) watch(job.id, job.limit);
}

function shownTime() { get("time-shown").textContent = seconds(limitNow()); get("time").setAttribute("aria-valuetext", seconds(limitNow())); }

// ---- Wiring ----

function wire() {
  get("controls").addEventListener("submit", (event) => { event.preventDefault(); solve(); });
  get("stop").addEventListener("click", async () => {
    if (!search) return;
    state("Stopping", "live");
    await api.cancel(search.id).catch((error) => complain(error.message));
  });
  get("time").addEventListener("input", shownTime);
  get("open").addEventListener("click", () => get("file").click());
  get("file").addEventListener("change", () => { readFile(get("file").files[0]); get("file").value = ""; });
  get("example").addEventListener("change", () => {
    const made = EXAMPLES[get("example").value];
    get("question").hidden = true;
    if (made) show(made.make());
    get("example").value = "";
  });
  get("paste").addEventListener("click", () => { get("paste-text").value = ""; get("paste-dialog").showModal(); get("paste-text").focus(); });
  get("paste-cancel").addEventListener("click", () => get("paste-dialog").close());
  get("paste-dialog").querySelector("form").addEventListener("submit", () => { const text = get("paste-text").value; if (text.trim()) readContent(text, "text/plain", "pasted"); });
  document.addEventListener("paste", (event) => {
    if (event.target.closest?.("input, textarea, dialog")) return;
    const file = event.clipboardData.files[0];
    const text = event.clipboardData.getData("text/plain");
    event.preventDefault();
    if (text.trim()) readContent(text, "text/plain", "pasted");
    else if (file) readFile(file);
  });
  let inside = 0;
  addEventListener("dragenter", (event) => { if (event.dataTransfer.types.includes("Files")) { inside += 1; get("drop").hidden = false; } });
  addEventListener("dragleave", () => { inside = Math.max(0, inside - 1); get("drop").hidden = inside > 0 ? get("drop").hidden : true; });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => { event.preventDefault(); inside = 0; get("drop").hidden = true; readFile(event.dataTransfer.files[0]); });
  get("add-row").addEventListener("click", () => resized(1, 0));
  get("add-column").addEventListener("click", () => resized(0, 1));
  get("remove-row").addEventListener("click", () => resized(-1, 0));
  get("remove-column").addEventListener("click", () => resized(0, -1));
  get("share").addEventListener("click", async () => {
    const link = await linkTo(instance.plain());
    try { await navigator.clipboard.writeText(link); toast("The link holds the matrix and is copied."); } catch { history.replaceState(null, "", link); toast("The address bar now holds the matrix."); }
  });
  get("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true));
  for (const button of get("downloads").querySelectorAll("button")) {
    button.addEventListener("click", () => download(button.dataset.as, instance, search.answer, get("drawing").querySelector("svg")).catch((error) => complain(error.message)));
  }
  get("denoise").addEventListener("click", async () => {
    const wrong = instance.wrong();
    if (wrong) return complain(wrong);
    get("denoise").disabled = true;
    const tour = server.problems[instance.problem].tour ? search?.improvements.at(-1)?.solution : null;
    await denoise.run(instance, tour).catch((error) => { if (error.name !== "AbortError") { get("denoise-hint").textContent = error.message; } });
    get("denoise").disabled = false;
  });
  get("compare").addEventListener("click", async () => {
    const wrong = instance.wrong();
    if (wrong) return complain(wrong);
    get("compare").disabled = true;
    await compare.run(instance, limitNow(), (home, solution) => { (home.drawing ??= picture(home, { mini: true })).show(solution, null); });
    get("compare").disabled = false;
  });
}

function theme(name, keep) {
  document.documentElement.dataset.theme = name;
  if (keep) localStorage.setItem("icdc-theme", name);
}

async function main() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  theme(localStorage.getItem("icdc-theme") ?? (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => { if (!localStorage.getItem("icdc-theme")) theme(dark.matches ? "dark" : "light"); });
  server = await api.about();
  api.version().then((version) => { get("version").textContent = `icdc ${version}`; }).catch(() => {});
  const times = TIMES.filter((time) => time <= server.limits.seconds);
  get("time").max = Math.max(0, times.length - 1);
  const main_ = ["icdc", "network", "search", "cpsat", "branch", "lkh", "pyvrp", "matnet"].filter((name) => server.solvers[name]?.installed && name !== "matnet");
  const titles = { icdc: "network" in server.solvers ? "Network and search" : "Network", network: "Network alone", search: "Search alone", cpsat: "CP-SAT (exact)", branch: "Branch and bound", lkh: "LKH", pyvrp: "PyVRP" };
  get("solver").append(...main_.map((name) => html("option", { value: name }, titles[name] ?? name)));
  get("example").append(...Object.entries(EXAMPLES).map(([key, { title }]) => html("option", { value: key }, title)));
  compare = new Compare(server.solvers);
  denoise = new Denoise();
  grid = new Grid(get("grid"), { changed: () => { forget(); described(); remember(); }, pasted: (text) => readContent(text, "text/plain", "pasted") });
  offerProblems();
  shownTime();
  wire();
  await begin();
  document.documentElement.dataset.ready = "yes";
}

main().catch((error) => complain(error.message));
