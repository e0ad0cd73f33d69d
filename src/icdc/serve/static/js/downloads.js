// What can be taken away: the solution as a table, the answer as JSON, the drawing as a picture.

import { legs, schedule } from "./instance.js";
import { fileStem } from "./words.js";

const PAINTED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "font-family", "font-size", "font-weight", "opacity", "visibility", "paint-order"];

/** Save the answer in one of the formats: csv, json, svg or png. */
export async function download(format, instance, answer, drawing) {
  const stem = fileStem(instance.name);
  if (format === "csv") save(new Blob([table(instance, answer.solution)], { type: "text/csv" }), `${stem}.csv`);
  else if (format === "json") save(new Blob([JSON.stringify(answer, null, 2) + "\n"], { type: "application/json" }), `${stem}.json`);
  else if (format === "svg") save(new Blob([standalone(drawing)], { type: "image/svg+xml" }), `${stem}.svg`);
  else save(await picture(drawing), `${stem}.png`);
}

/** The solution as a table: jobs with machine, start and end, or stops in their order. */
export function table(instance, solution) {
  const rows = instance.problem === "pmsp"
    ? [["job", "machine", "start", "end"], ...schedule(instance, solution).jobs.map((j) => [instance.rowName(j.job), instance.columnName(j.machine), j.start, j.end])]
    : [["position", "city", "to next"], ...legs(instance, solution).map((leg, place) => [place + 1, instance.rowName(leg.from), leg.cost])];
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function cell(value) {
  let text = String(value);
  if (typeof value === "string" && /^[=+\-@\t]/.test(text)) text = `'${text}`; // a spreadsheet must not take a name for a formula
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** An SVG that needs no stylesheet: every element carries its own colours. */
function standalone(drawing) {
  const copy = drawing.cloneNode(true);
  const [, , width, height] = drawing.getAttribute("viewBox").split(" ").map(Number);
  const [from, to] = [drawing.querySelectorAll("*"), copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of PAINTED) to[i].setAttribute(name, style.getPropertyValue(name));
    to[i].removeAttribute("class");
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `-16 -16 ${width + 32} ${height + 32}`);
  copy.setAttribute("width", width + 32);
  copy.setAttribute("height", height + 32);
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ x: -16, y: -16, width: width + 32, height: height + 32, fill: getComputedStyle(document.documentElement).getPropertyValue("--card") })) ground.setAttribute(name, value);
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

async function picture(drawing) {
  const image = new Image();
  const address = URL.createObjectURL(new Blob([standalone(drawing)], { type: "image/svg+xml" }));
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * image.width;
  canvas.height = 2 * image.height;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
