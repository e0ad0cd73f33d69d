// Several solvers on one instance, each with the same time, side by side.

import * as api from "./api.js";
import { html } from "./svg.js";
import { gapOf, number, seconds } from "./words.js";

const get = (id) => document.getElementById(id);

/** Whom to offer, in this order, where the server has them: the word for people, and which problems. */
const RIVALS = [
  ["icdc", "Network and search", "all"],
  ["network", "Network alone", "all"],
  ["search", "Search alone", "all"],
  ["cpsat", "CP-SAT (exact)", "all"],
  ["branch", "Branch and bound (exact)", "tour"],
  ["lkh", "LKH", "tour"],
  ["lpt", "Longest job first", "schedule"],
  ["nn", "Nearest neighbour", "tour"],
];
const CHOSEN = ["icdc", "network", "search", "cpsat", "lkh"];

export class Compare {
  constructor(solvers) {
    this.solvers = solvers;
    this.titles = Object.fromEntries(RIVALS);
    if (!("network" in solvers)) this.titles.icdc = "Network";
  }

  /** Offer the solvers of a problem. */
  offer(tour) {
    if (this.tour === tour) return;
    this.tour = tour;
    const fits = RIVALS.filter(([name, , kind]) => name in this.solvers && (kind === "all" || kind === (tour ? "tour" : "schedule")));
    const labels = fits.map(([name]) => {
      const there = this.solvers[name].installed;
      const box = html("input", { type: "checkbox", value: name, checked: there && CHOSEN.includes(name), disabled: !there });
      return html("label", { title: there ? this.solvers[name].summary : "not installed on this server" }, box, this.titles[name] + (there ? "" : " (not installed)"));
    });
    get("picks").replaceChildren(get("picks").firstElementChild, ...labels);
  }

  clear() {
    this.stop?.abort();
    get("contest").replaceChildren();
  }

  /** Let the chosen solvers run one after the other. `draw(home, solution)` draws a small picture. */
  async run(instance, limit, draw) {
    this.clear();
    const stop = (this.stop = new AbortController());
    const names = [...get("picks").querySelectorAll("input:checked")].map((box) => box.value);
    const cards = names.map((name) => new Card(name, this.titles[name]));
    get("contest").replaceChildren(...cards.map((card) => card.root));
    for (const card of cards) {
      if (stop.signal.aborted) return;
      try {
        const job = await api.begin({ instance: instance.document(), name: instance.name, solver: card.name, time_limit: limit });
        const abandon = () => api.cancel(job.id).catch(() => {});
        stop.signal.addEventListener("abort", abandon);
        card.say("searching…");
        await api.follow(job.id, (name, data) => {
          if (name === "improved") card.improved(data, draw);
          if (name === "end") card.ended(data, draw);
        }, stop.signal);
        stop.signal.removeEventListener("abort", abandon);
      } catch (error) {
        if (stop.signal.aborted) return;
        card.say(error.message);
      }
      const best = Math.min(...cards.map((one) => one.cost ?? Infinity));
      for (const one of cards) one.root.classList.toggle("best", one.cost === best);
    }
  }
}

class Card {
  constructor(name, title) {
    this.name = name;
    this.big = html("p", { className: "big" }, "–");
    this.more = html("p", { className: "more" }, "waiting");
    this.mini = html("div", { className: "mini" });
    this.root = html("article", { className: "rival" }, html("h3", {}, title, html("small", {}, name)), this.big, this.more, this.mini);
  }

  say(text) { this.more.textContent = text; }

  improved(data, draw) {
    this.cost = data.cost;
    this.big.textContent = number(data.cost);
    draw(this.mini, data.solution);
  }

  ended({ answer, error, seconds: took }, draw) {
    if (!answer || answer.objective === null) return this.say(error?.detail ?? "no solution");
    this.improved({ cost: answer.objective, solution: answer.solution }, draw);
    const gap = gapOf(answer.objective, answer.bound);
    this.say(`${gap.proven ? "proven optimal" : `gap ${gap.text}`} · ${seconds(took)}`);
  }
}
