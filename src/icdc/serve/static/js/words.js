// Numbers and verdicts for people.

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 4, useGrouping: true });

/** A number as people read it, with thin groups; a dash where there is none. */
export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return plain.format(value).replaceAll(",", "\u2009");
}

/** Seconds as people say them. */
export function seconds(value) {
  if (value < 0.0995) return `${Math.max(1, Math.round(value * 1000))} ms`;
  return value < 9.95 ? `${+value.toFixed(1)} s` : `${Math.round(value)} s`;
}

/** How far a cost can be above the optimum: {text, fraction, proven}. */
export function gapOf(cost, bound) {
  if (cost === null || cost === undefined || bound === null || bound === undefined) return { text: "unknown", proven: false };
  const excess = cost - bound;
  if (excess <= 1e-9 * Math.abs(bound)) return { text: "0 %", fraction: 0, proven: true };
  if (!bound) return { text: "unknown", proven: false };
  const percent = (100 * excess) / Math.abs(bound);
  return { text: `${percent < 0.01 ? "< 0.01" : percent.toFixed(2)} %`, fraction: excess / Math.abs(bound), proven: false };
}

/** What is known of an answer, in a sentence. */
export function verdict(problem, cost, bound, running) {
  const what = problem.tour ? "tour" : "schedule";
  if (cost === null || cost === undefined) return running ? "Looking for a first solution…" : "";
  const gap = gapOf(cost, bound);
  const found = problem.tour ? `This ${what} is ${number(cost)} long` : `This ${what} finishes at ${number(cost)}`;
  if (gap.proven) return `${found}. That is proven optimal: no ${what} is better.`;
  if (bound === null || bound === undefined) return `${found}. No lower bound is known.`;
  const least = problem.tour ? `no ${what} can be shorter than ${number(bound)}` : `no ${what} can finish before ${number(bound)}`;
  return `${found}, and ${least}: it is at most ${gap.text} above the best possible.`;
}

/** A file name from whatever the instance is called. */
export function fileStem(name) {
  return (name || "solution").replace(/\.[a-z]+$/i, "").replace(/[^\w.-]+/g, "-").slice(0, 60) || "solution";
}
