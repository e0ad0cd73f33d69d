// An editable matrix of any size: only the cells in sight exist. Arrow keys move, also to the names; typing edits, Delete
// forbids. The place of a column's name is row -1, that of a row's name column -1.

import { html } from "./svg.js";

const ROW = 30, CELL = 62;
const MARGIN = 4, STEP = 6; // cells beyond the edge that exist, and how many come and go at a time

export class Grid {
  /** `changed()` is called after an edit; `pasted(text)` when something larger than a cell is pasted. */
  constructor(home, { changed, pasted }) {
    this.home = home;
    this.changed = changed;
    this.pasted = pasted;
    this.active = [0, 0];
    this.chosen = null;
    this.rows = new Map();
    home.setAttribute("role", "grid");
    home.setAttribute("aria-label", "The matrix");
    home.setAttribute("aria-describedby", "grid-hint");
    home.addEventListener("scroll", () => this.later(), { passive: true });
    home.addEventListener("mousedown", (event) => this.pointed(event));
    home.addEventListener("pointerdown", (event) => { this.touched = event.pointerType === "touch"; }, { passive: true });
    home.addEventListener("dblclick", (event) => { if (event.target.closest("[data-cell]")) this.edit(); });
    home.addEventListener("keydown", (event) => this.pressed(event));
    home.addEventListener("paste", (event) => this.paste(event));
    home.addEventListener("copy", (event) => this.copy(event));
    new ResizeObserver(() => this.later()).observe(home);
  }

  /** Show an instance from its beginning. */
  show(instance) {
    this.instance = instance;
    this.chosen = null;
    this.active = [0, this.isVoid(0, 0) && instance.width > 1 ? 1 : 0];
    const longest = Math.max(3, ...Array.from({ length: Math.min(instance.height, 400) }, (_, r) => instance.rowName(r).length));
    this.side = Math.min(170, Math.max(instance.problem === "pmsp" ? 56 : 84, 26 + 7.6 * longest));
    const widest = Math.max(3, ...Array.from({ length: Math.min(instance.width, 400) }, (_, c) => instance.columnName(c).length));
    let digits = 1;
    for (const row of instance.matrix.slice(0, 300)) for (const value of row.slice(0, 100)) if (value !== null) digits = Math.max(digits, String(value).length);
    this.cell = Math.min(130, Math.max(CELL, 22 + 7.4 * Math.max(Math.min(widest, 13), digits)));
    this.measure();
    this.home.setAttribute("aria-rowcount", instance.height + 1);
    this.home.setAttribute("aria-colcount", instance.width + 1);
    this.home.setAttribute("aria-readonly", String(!instance.editable));
    this.size = html("div", { className: "grid-size", role: "presentation" });
    this.size.style.width = `${this.side + instance.width * this.cell}px`;
    this.size.style.height = `${(instance.height + 1) * ROW}px`;
    this.head = html("div", { className: "grid-row head", role: "row", "aria-rowindex": 1 });
    this.head.style.width = this.size.style.width;
    this.size.append(this.head);
    this.rows.clear();
    this.drawn = "";
    this.home.replaceChildren(this.size);
    this.home.scrollTo(0, 0);
    this.draw();
  }

  /** Frame the cells of a solution: the column of every row, or null. */
  choose(columns) {
    this.chosen = columns;
    this.drawn = "";
    this.later();
  }

  isVoid(r, c) { return this.instance.problem !== "pmsp" && r === c; }

  measure() {
    let [low, high] = [Infinity, -Infinity];
    this.instance.matrix.forEach((row, r) => row.forEach((value, c) => {
      if (typeof value === "number" && !this.isVoid(r, c)) [low, high] = [Math.min(low, value), Math.max(high, value)];
    }));
    this.range = [low, high];
  }

  later() {
    if (this.frame || !this.instance) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  /** Which of `count` cells must exist for those from `begin` to `end` to be seen: whole steps, so that few scrolls change them. */
  span(begin, end, count) {
    return [Math.max(0, STEP * Math.floor((begin - MARGIN) / STEP)), Math.min(count, STEP * Math.ceil((end + MARGIN) / STEP))];
  }

  draw() {
    const { home, instance } = this;
    const [first, last] = this.span(Math.floor(home.scrollTop / ROW), Math.ceil((home.scrollTop + home.clientHeight) / ROW), instance.height);
    const [left, right] = this.span(Math.floor((home.scrollLeft - this.side) / this.cell), Math.ceil((home.scrollLeft + home.clientWidth) / this.cell), instance.width);
    const focused = home.contains(document.activeElement) && document.activeElement !== this.editor;
    const columns = `${left} ${right}`, wanted = `${first} ${last} ${columns}`;
    if (wanted !== this.drawn) {
      const fresh = this.drawn === "" || this.columns !== columns;
      [this.drawn, this.columns] = [wanted, columns];
      if (fresh) this.drawHead(left, right);
      for (const [r, row] of this.rows) if (fresh || r < first || r >= last) { row.remove(); this.rows.delete(r); }
      const made = document.createDocumentFragment();
      for (let r = first; r < last; r++) if (!this.rows.has(r)) { const row = this.row(r, left, right); this.rows.set(r, row); made.append(row); }
      this.size.append(made);
    }
    if (focused) this.cellAt(...this.active)?.focus({ preventScroll: true });
  }

  drawHead(left, right) {
    const { instance } = this;
    const corner = html("div", { className: "name side corner", role: "columnheader", "aria-colindex": 1 }, instance.problem === "pmsp" ? "job" : "from / to");
    corner.style.width = `${this.side}px`;
    const cells = [corner];
    for (let c = left; c < right; c++) {
      const cell = html("div", { className: "name", role: "columnheader", "aria-colindex": c + 2, title: instance.columnName(c) }, instance.columnName(c));
      this.mark(cell, -1, c);
      place(cell, this.side + c * this.cell, this.cell);
      cells.push(cell);
    }
    this.head.replaceChildren(...cells);
  }

  row(r, left, right) {
    const { instance } = this;
    const row = html("div", { className: "grid-row", role: "row", "aria-rowindex": r + 2 });
    row.style.top = `${(r + 1) * ROW}px`;
    row.style.width = this.size.style.width;
    const name = html("div", { className: "name side", role: "rowheader", "aria-colindex": 1, title: instance.rowName(r) }, instance.rowName(r));
    name.style.width = `${this.side}px`;
    this.mark(name, r, -1);
    row.append(name);
    const [low, high] = this.range;
    for (let c = left; c < right; c++) {
      const value = instance.matrix[r][c];
      const cell = html("div", { role: "gridcell", "aria-colindex": c + 2 });
      if (this.isVoid(r, c)) { cell.className = "void"; cell.textContent = "–"; cell.setAttribute("aria-label", "not a step"); }
      else if (value === null) { cell.className = "forbidden"; cell.textContent = "×"; cell.setAttribute("aria-label", "forbidden"); }
      else {
        cell.textContent = typeof value === "number" ? String(+value.toPrecision(8)) : value;
        if (typeof value !== "number") cell.classList.add("wrong");
        else if (high > low) cell.style.backgroundColor = `rgb(var(--tint) / ${(0.17 * (value - low) / (high - low)).toFixed(3)})`;
      }
      if (this.chosen?.[r] === c) { cell.classList.add("on"); cell.setAttribute("aria-selected", "true"); }
      this.mark(cell, r, c);
      place(cell, this.side + c * this.cell, this.cell);
      row.append(cell);
    }
    return row;
  }

  /** Say where an element is, and let the keyboard reach it where it is the active one. */
  mark(element, r, c) {
    const here = this.active[0] === r && this.active[1] === c;
    element.dataset.cell = `${r},${c}`;
    element.tabIndex = here ? 0 : -1;
    element.classList.toggle("active", here);
  }

  cellAt(r, c) { return (r < 0 ? this.head : this.rows.get(r))?.querySelector(`[data-cell="${r},${c}"]`); }

  go(r, c) {
    const { instance, home } = this;
    r = Math.min(instance.height - 1, Math.max(-1, r));
    c = Math.min(instance.width - 1, Math.max(r < 0 ? 0 : -1, c));
    const before = this.cellAt(...this.active);
    const old = this.active;
    this.active = [r, c];
    if (before) this.mark(before, ...old);
    const top = Math.max(0, r) * ROW, bottom = (r + 2) * ROW, start = Math.max(0, c) * this.cell, end = this.side + (c + 1) * this.cell;
    if (r < 0) { /* names of columns are always in sight */ }
    else if (top < home.scrollTop) home.scrollTop = top;
    else if (bottom > home.scrollTop + home.clientHeight) home.scrollTop = bottom - home.clientHeight;
    if (c < 0) { /* so are those of rows */ }
    else if (start < home.scrollLeft) home.scrollLeft = start;
    else if (end > home.scrollLeft + home.clientWidth) home.scrollLeft = end - home.clientWidth;
    this.draw();
    const cell = this.cellAt(r, c);
    if (cell) this.mark(cell, r, c);
    cell?.focus({ preventScroll: true });
  }

  pointed(event) {
    const cell = event.target.closest("[data-cell]");
    if (!cell || event.target === this.editor) return;
    event.preventDefault();
    this.close(true);
    const [r, c] = cell.dataset.cell.split(",").map(Number);
    const again = this.touched && this.active[0] === r && this.active[1] === c && cell === document.activeElement;
    this.go(r, c);
    if (again) this.edit(); // fingers have no double click
  }

  pressed(event) {
    if (event.target === this.editor) return;
    const [r, c] = this.active;
    const page = Math.max(1, Math.floor(this.home.clientHeight / ROW) - 2);
    const moves = { ArrowUp: [c < 0 ? Math.max(0, r - 1) : r - 1, c], ArrowDown: [r + 1, c], ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1], PageUp: [Math.max(0, r - page), c], PageDown: [r + page, c], Home: [event.ctrlKey ? 0 : r, 0], End: [event.ctrlKey ? Infinity : r, Infinity] };
    if (event.key in moves) { event.preventDefault(); return this.go(...moves[event.key]); }
    if (!this.instance.editable || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === "F2") { event.preventDefault(); this.edit(); }
    else if (event.key === "Delete" || event.key === "Backspace") { event.preventDefault(); this.write(r, c, ""); }
    else if (r >= 0 && c >= 0 && /^[-\d.,]$/.test(event.key)) { event.preventDefault(); this.edit(event.key); }
  }

  edit(text = null) {
    const [r, c] = this.active;
    if (!this.instance.editable || this.isVoid(r, c)) return;
    if (r < 0 || c < 0) return this.editName(r, c);
    const value = this.instance.matrix[r][c];
    this.open(this.side + c * this.cell, (r + 1) * ROW, this.cell, text ?? (value === null ? "" : String(value)), (written, key) => {
      this.write(r, c, written);
      if (key === "Enter") this.go(r + 1, c);
      else if (key === "Tab") this.go(r, c + 1);
    }, `Cell of ${this.instance.rowName(r)}, ${this.instance.columnName(c)}`, text !== null);
  }

  editName(r, c) {
    const { instance } = this;
    const column = r < 0;
    const [left, top] = column ? [this.side + c * this.cell, this.home.scrollTop] : [this.home.scrollLeft, (r + 1) * ROW];
    this.open(left, top, column ? this.cell : this.side, column ? instance.columnName(c) : instance.rowName(r), (written) => {
      const text = written.trim();
      if (text) instance.rename(column ? -1 : r, column ? c : -1, text);
      this.after();
      this.go(r, c);
    }, "Name", false, "text");
  }

  open(left, top, width, text, done, label, keepEnd = false, mode = "decimal") {
    this.close(true);
    const editor = html("input", { className: "grid-edit", value: text, "aria-label": label, inputMode: mode });
    place(editor, left, Math.max(width, 70));
    editor.style.top = `${top}px`;
    this.editor = editor;
    this.finish = done;
    editor.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === "Tab") { event.preventDefault(); this.close(true, event.key); }
      else if (event.key === "Escape") { event.preventDefault(); this.close(false); }
      event.stopPropagation();
    });
    editor.addEventListener("blur", () => this.close(true));
    this.size.append(editor);
    editor.focus();
    if (!keepEnd) editor.select();
  }

  close(keep, key = null) {
    const { editor, finish } = this;
    if (!editor) return;
    this.editor = null;
    const text = editor.value, focused = document.activeElement === editor;
    editor.remove();
    if (keep) finish(text, key);
    if (focused && key === null) this.cellAt(...this.active)?.focus({ preventScroll: true });
  }

  write(r, c, text) {
    if (!this.instance.editable || r < 0 || c < 0 || this.isVoid(r, c)) return;
    this.instance.matrix[r][c] = valueOf(text);
    this.after();
  }

  after() {
    this.measure();
    this.chosen = null;
    this.drawn = "";
    this.draw();
    this.changed();
  }

  paste(event) {
    if (event.target === this.editor) return;
    const text = event.clipboardData.getData("text/plain");
    event.preventDefault();
    event.stopPropagation();
    const cells = text.replace(/\r/g, "").replace(/\n$/, "").split("\n").map((line) => line.split("\t"));
    const [r, c] = this.active.map((place) => Math.max(0, place));
    const numbers = cells.every((row) => row.every((cell) => typeof valueOf(cell) !== "string"));
    // a block of numbers that fits goes where the cursor is; anything else is a matrix of its own
    if (!this.instance.editable || !numbers || (r === 0 && c <= 1 && cells.length > 1) || r + cells.length > this.instance.height || c + cells[0].length > this.instance.width) return this.pasted(text);
    cells.forEach((row, dr) => row.forEach((cell, dc) => { if (!this.isVoid(r + dr, c + dc)) this.instance.matrix[r + dr][c + dc] = valueOf(cell); }));
    this.after();
  }

  copy(event) {
    if (event.target === this.editor) return;
    const [r, c] = this.active;
    const value = r < 0 ? this.instance.columnName(c) : c < 0 ? this.instance.rowName(r) : this.instance.matrix[r][c];
    event.clipboardData.setData("text/plain", value === null ? "" : String(value));
    event.preventDefault();
  }
}

/** What somebody typed: a number, null for a forbidden pair, or the text itself where it is neither. */
export function valueOf(text) {
  const trimmed = text.trim();
  if (["", "-", "–", "x", "X", "×", "inf", "∞"].includes(trimmed)) return null;
  const value = Number(trimmed.replace(",", "."));
  return Number.isFinite(value) ? value : trimmed;
}

function place(element, left, width) {
  element.style.left = `${left}px`;
  element.style.width = `${width}px`;
}
