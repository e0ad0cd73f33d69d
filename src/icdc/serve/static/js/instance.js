// The instance on the page: numbers, names and what they mean. Forbidden pairs are null.

/** One instance. `arrays` is kept for problems that are more than one matrix; their matrix is only shown. */
export class Instance {
  constructor({ problem, name = "", matrix, rows = null, columns = null, coordinates = null, arrays = null }) {
    this.problem = problem;
    this.name = name;
    this.matrix = matrix;
    this.rows = rows;
    this.columns = columns;
    this.coordinates = coordinates;
    this.arrays = arrays && Object.keys(arrays).length > 1 ? arrays : null;
  }

  get height() { return this.matrix.length; }
  get width() { return this.matrix[0]?.length ?? 0; }
  get editable() { return !this.arrays; }

  rowName(r) { return this.rows?.[r] ?? String(r + 1); }
  columnName(c) { return this.columns?.[c] ?? String(c + 1); }

  /** Give a row (column -1) or a column (row -1) another name; the cities of a tour are both. */
  rename(r, c, name) {
    const tour = this.problem !== "pmsp", index = Math.max(r, c);
    if (c < 0 || tour) (this.rows ??= Array.from({ length: this.height }, (_, i) => String(i + 1)))[index] = name;
    if (r < 0 || tour) (this.columns ??= Array.from({ length: this.width }, (_, i) => String(i + 1)))[index] = name;
  }

  /** How many pairs are forbidden; the diagonal of a tour is no pair. */
  barred() {
    const tour = this.problem !== "pmsp";
    let count = 0;
    this.matrix.forEach((row, r) => row.forEach((value, c) => { if (value === null && !(tour && r === c)) count += 1; }));
    return count;
  }

  /** What the server is sent. */
  document() {
    const about = { problem: this.problem };
    const names = {};
    if (this.rows) names.rows = this.rows;
    if (this.columns && this.problem === "pmsp") names.columns = this.columns;
    if (this.arrays) return { ...about, ...names, ...this.arrays };
    const points = this.coordinates && this.problem !== "pmsp" ? { coordinates: this.coordinates } : {};
    const tour = this.problem !== "pmsp";
    const matrix = this.matrix.map((row, r) => row.map((value, c) => (tour && r === c ? 0 : value)));
    return { ...about, ...names, ...points, matrix };
  }

  /** What is stored in links and over a reload. */
  plain() {
    const { problem, name, matrix, rows, columns, coordinates, arrays } = this;
    return { problem, name, matrix, rows, columns, coordinates, arrays };
  }

  /** Why it cannot be solved, in a sentence; null if it can. */
  wrong() {
    for (let r = 0; r < this.height; r++) {
      for (let c = 0; c < this.width; c++) {
        const value = this.matrix[r][c];
        if (typeof value === "string") return `“${value}” in row ${this.rowName(r)}, column ${this.columnName(c)} is not a number.`;
      }
      if (this.problem === "pmsp" && this.matrix[r].every((value) => value === null)) return `${this.rowName(r)} may go nowhere: every cell of its row is empty.`;
    }
    if (this.problem !== "pmsp" && this.height !== this.width) return `A tour needs a square matrix; this one is ${this.height} × ${this.width}.`;
    return null;
  }
}

/** Start and end of every job, by row; and the load of every machine. */
export function schedule(instance, solution) {
  const loads = Array(instance.width).fill(0);
  const jobs = solution.map((machine, job) => {
    const start = loads[machine];
    loads[machine] += instance.matrix[job][machine] ?? 0;
    return { job, machine, start, end: loads[machine] };
  });
  return { jobs, loads };
}

/** The legs of a tour: from, to, cost. */
export function legs(instance, solution) {
  return solution.map((from, place) => {
    const to = solution[(place + 1) % solution.length];
    return { from, to, cost: instance.matrix[from][to] ?? 0 };
  });
}
