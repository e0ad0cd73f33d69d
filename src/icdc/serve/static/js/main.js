// The page: one instance, and the parts that show it, solve it and take it away.

import { AnswerCard, complain, picture } from "./answer.js";
import * as api from "./api.js";
import { Compare } from "./compare.js";
import { Denoise } from "./denoise.js";
import { download } from "./downloads.js";
import { EXAMPLES } from "./examples.js";
import { Grid } from "./grid.js";
import { Instance } from "./instance.js";
import { fromLink, linkTo } from "./share.js";
import { SOLVERS, suits } from "./solvers.js";
import { html } from "./svg.js";
import { number, seconds } from "./words.js";

const get = (id) => document.getElementById(id);
const TIMES = [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300];
const KINDS = { csv: "text/csv", tsv: "text/tab-separated-values", json: "application/json", jsonl: "application/json", atsp: "application/x-tsplib", tsp: "application/x-tsplib", npz: "application/x-npz", npy: "application/x-npy", xlsx: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" };
const TITLES = { pmsp: "Schedule", atsp: "Tour", navigation: "Navigation" };
const STORED = "icdc-page";

let server, instance, grid, answer, denoise, compare;

// ---- The matrix ----

/** Show another instance, from its beginning. */
function show(next) {
  instance = next;
  forget();
  grid.show(instance);
  described();
}

/** Put away what belongs to the instance as it was. */
function forget() {
  answer.clear(instance);
  denoise.clear();
  compare.clear();
  rememberSoon();
}

function described() {
  const about = server.problems[instance.problem];
  for (const box of get("problem").querySelectorAll("input")) {
    box.checked = box.value === instance.problem;
    box.disabled = instance.arrays ? box.value !== instance.problem : box.value !== "pmsp" && instance.height !== instance.width;
  }
  const sizes = about.tour ? `${instance.height} ${about.row_words[1]}` : `${instance.height} ${about.row_words[instance.height === 1 ? 0 : 1]} on ${instance.width} ${about.column_words[instance.width === 1 ? 0 : 1]}`;
  const barred = instance.barred();
  get("subject").textContent = `${sizes} · ${about.entries}${barred ? ` · ${number(barred)} forbidden` : ""}`;
  for (const id of ["add-row", "add-column", "remove-row", "remove-column"]) get(id).disabled = !instance.editable;
  for (const id of ["add-column", "remove-column"]) get(id).hidden = about.tour;
  for (const option of get("solver").options) option.disabled = option.hidden = !suits(option.value, about.tour);
  if (get("solver").selectedOptions[0]?.disabled) get("solver").value = "icdc";
  compare.offer(about.tour);
}

function offerProblems() {
  const labels = Object.keys(TITLES).filter((name) => name in server.problems && name !== "navigation").map((name) => {
    const box = html("input", { type: "radio", name: "problem", value: name });
    box.addEventListener("change", () => { get("question").hidden = true; show(new Instance({ ...instance.plain(), problem: name })); });
    return html("label", {}, box, TITLES[name] ?? name);
  });
  get("problem").append(...labels);
}

function resized(rows, columns) {
  const about = server.problems[instance.problem];
  const height = Math.max(about.tour ? 2 : 1, instance.height + rows), width = about.tour ? height : Math.max(1, instance.width + columns);
  const matrix = Array.from({ length: height }, (_, r) => Array.from({ length: width }, (_, c) => (r < instance.height && c < instance.width ? instance.matrix[r][c] : 1)));
  const names = (old, count, word) => old && Array.from({ length: count }, (_, i) => old[i] ?? `${word} ${i + 1}`);
  show(new Instance({ ...instance.plain(), matrix, rows: names(instance.rows, height, about.row_words[0]), columns: names(instance.columns, width, about.column_words[0]), coordinates: null }));
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
    if (!(found.problem in TITLES)) return complain(`This is an instance of “${found.problem}”, which the page does not show: give it to icdc solve or to the API.`);
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

// ---- What is done with it ----

const limitNow = () => TIMES[+get("time").value];

/** Do something with the instance, unless something is wrong with it, which is then said. */
function sound(action) {
  const wrong = instance.wrong();
  complain(wrong);
  if (!wrong) action();
}

async function watchNetwork() {
  get("denoise").disabled = true;
  const better = await denoise.run(instance, answer.current, server.problems[instance.problem].tour);
  if (better && answer.search?.ended) answer.take(better);
  get("denoise").disabled = false;
}

async function runContest() {
  get("compare").disabled = true;
  const about = server.problems[instance.problem];
  await compare.run(instance, limitNow(), (home, solution) => { (home.drawing ??= picture(home, instance, about, { mini: true })).show(solution, null); });
  get("compare").disabled = false;
}

async function share() {
  try {
    const link = await linkTo(instance.plain());
    try { await navigator.clipboard.writeText(link); toast("The link holds the matrix and is copied."); } catch { history.replaceState(null, "", link); toast("The address bar now holds the matrix."); }
  } catch (error) { complain(error.message); }
}

let toastTimer;
function toast(text) {
  get("toast").textContent = text;
  get("toast").hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { get("toast").hidden = true; }, 4000);
}

// ---- Over a reload ----

let remembering;
/** Remember everything in a moment: many edits are remembered once. */
function rememberSoon() {
  clearTimeout(remembering);
  remembering = setTimeout(remember, 300);
}

function remember() {
  clearTimeout(remembering);
  if (!instance) return;
  const { search } = answer;
  try {
    sessionStorage.setItem(STORED, JSON.stringify({ instance: instance.plain(), job: search && { id: search.id, limit: search.limit }, time: get("time").value, solver: get("solver").value }));
  } catch { /* larger than the browser keeps; a reload then begins anew */ }
}

async function begin() {
  const linked = await fromLink(Object.keys(TITLES), server.limits.cells);
  if (linked) history.replaceState(null, "", location.pathname);
  if (linked instanceof Error) complain(linked.message);
  else if (linked) return show(new Instance(linked));
  let stored = null;
  try { stored = JSON.parse(sessionStorage.getItem(STORED)); } catch { /* not ours */ }
  if (!stored?.instance || linked) {
    const said = get("error").textContent;
    show(EXAMPLES.workshop.make());
    return complain(said || null);
  }
  get("time").value = stored.time;
  if ([...get("solver").options].some((option) => option.value === stored.solver)) get("solver").value = stored.solver;
  shownTime();
  show(new Instance(stored.instance));
  if (stored.job) answer.watch(stored.job.id, stored.job.limit);
}

function shownTime() { get("time-shown").textContent = seconds(limitNow()); get("time").setAttribute("aria-valuetext", seconds(limitNow())); }

// ---- Wiring ----

function wire() {
  get("controls").addEventListener("submit", (event) => {
    event.preventDefault();
    sound(() => { denoise.clear(); compare.clear(); answer.solve(get("solver").value, limitNow()); });
  });
  get("stop").addEventListener("click", () => answer.stop());
  get("time").addEventListener("input", shownTime);
  get("open").addEventListener("click", () => get("file").click());
  get("file").addEventListener("change", () => { readFile(get("file").files[0]); get("file").value = ""; });
  get("example").addEventListener("change", () => {
    const made = EXAMPLES[get("example").value];
    get("question").hidden = true;
    if (made) show(made.make());
    get("example").value = "";
  });
  for (const [id, rows, columns] of [["add-row", 1, 0], ["add-column", 0, 1], ["remove-row", -1, 0], ["remove-column", 0, -1]]) get(id).addEventListener("click", () => resized(rows, columns));
  get("share").addEventListener("click", share);
  get("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true));
  for (const button of get("downloads").querySelectorAll("button")) {
    button.addEventListener("click", () => download(button.dataset.as, instance, answer.answer, answer.drawing).catch((error) => complain(error.message)));
  }
  get("denoise").addEventListener("click", () => sound(watchNetwork));
  get("compare").addEventListener("click", () => sound(runContest));
  addEventListener("pagehide", remember);
  wirePasting();
  wireDropping();
}

function wirePasting() {
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
}

function wireDropping() {
  let inside = 0;
  addEventListener("dragenter", (event) => { if (event.dataTransfer.types.includes("Files")) { inside += 1; get("drop").hidden = false; } });
  addEventListener("dragleave", () => { inside = Math.max(0, inside - 1); get("drop").hidden = inside > 0 ? get("drop").hidden : true; });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => { event.preventDefault(); inside = 0; get("drop").hidden = true; readFile(event.dataTransfer.files[0]); });
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
  get("solver").append(...SOLVERS.filter(({ name, plain }) => !plain && server.solvers[name]?.installed).map(({ name, title }) => html("option", { value: name }, title)));
  get("example").append(...Object.entries(EXAMPLES).map(([key, { title }]) => html("option", { value: key }, title)));
  compare = new Compare(server.solvers);
  denoise = new Denoise();
  grid = new Grid(get("grid"), { changed: () => { forget(); described(); }, pasted: (text) => readContent(text, "text/plain", "pasted") });
  answer = new AnswerCard(server.problems, { chosen: (columns) => grid.choose(columns), changed: remember });
  offerProblems();
  shownTime();
  wire();
  await begin();
  document.documentElement.dataset.ready = "yes";
}

main().catch((error) => complain(error.message));
