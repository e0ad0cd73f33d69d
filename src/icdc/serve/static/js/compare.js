// Several solvers on one instance, each with the same time, side by side.

import * as api from "./api.js";
import { SOLVERS, suits } from "./solvers.js";
import { html } from "./svg.js";
import { gapOf, number, seconds } from "./words.js";

const get = (id) => document.getElementById(id);

export class Compare {
  constructor(solvers) {
    this.solvers = solvers;
  }

  /** Offer the solvers of a problem. */
  offer(tour) {
    if (this.tour === tour) return;
    this.tour = tour;
    const fits = SOLVERS.filter(({ name }) => name in this.solvers && suits(name, tour));
    const labels = fits.map(({ name, title, chosen }) => {
      const there = this.solvers[name].installed;
      const box = html("input", { type: "checkbox", value: name, checked: there && Boolean(chosen), disabled: !there });
      return html("label", { title: there ? this.solvers[name].summary : "not installed on this server" }, box, title + (there ? "" : " (not installed)"));
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
    const cards = SOLVERS.filter(({ name }) => names.includes(name)).map(({ name, title }) => new Card(name, title));
    get("contest").replaceChildren(...cards.map((card) => card.root));
    if (!cards.length) get("contest").replaceChildren(html("p", { className: "hint" }, "Choose at least one solver above."));
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
      judge(cards);
    }
  }
}

/** Mark the best, and measure all by the highest bound that any of them has proven: it holds for every one. */
function judge(cards) {
  const best = Math.min(...cards.map((one) => one.cost ?? Infinity));
  const bound = Math.max(...cards.map((one) => one.bound ?? -Infinity));
  for (const one of cards) {
    one.root.classList.toggle("best", one.cost === best);
    if (one.took !== undefined) one.judged(Number.isFinite(bound) ? bound : null);
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
    this.bound = answer.bound;
    this.took = took;
  }

  judged(bound) {
    const gap = gapOf(this.cost, bound);
    const own = gapOf(this.cost, this.bound).proven;
    this.say(`${own ? "proven optimal" : gap.proven ? "optimal, as another proved" : `gap ${gap.text}`} · ${seconds(this.took)}`);
  }
}
