// An instance in the address itself: compressed, after the #, so it never reaches a server's log.

import { number } from "./words.js";

const KEY = "#m=";
const LONGEST = 64_000; // characters of a link; browsers take more, mail and chat programs often do not
const LARGEST = 2 ** 24; // bytes that a link unpacks to

async function packed(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Unpack bytes, and give up where there are more than an instance can have. */
async function unpacked(bytes) {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const parts = [];
  for (let size = 0; ; ) {
    const { value, done } = await reader.read();
    if (done) return new Blob(parts).text();
    size += value.length;
    if (size > LARGEST) {
      reader.cancel().catch(() => {});
      throw new Error("too large");
    }
    parts.push(value);
  }
}

/** The address of this page with an instance in it; an error that says why where it is too long. */
export async function linkTo(plain) {
  const bytes = await packed(new TextEncoder().encode(JSON.stringify(plain)));
  const length = location.origin.length + location.pathname.length + KEY.length + Math.ceil((bytes.length * 4) / 3);
  if (length > LONGEST) throw new Error(`A link with this matrix would have ${number(length)} characters, and not all programs pass on more than ${number(LONGEST)}. Send the file instead.`);
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  const text = btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return `${location.origin}${location.pathname}${KEY}${text}`;
}

/** The instance of one of `problems` in the address; null if there is none, an error that says so if it cannot be read. */
export async function fromLink(problems, mostCells) {
  if (!location.hash.startsWith(KEY)) return null;
  try {
    const binary = atob(location.hash.slice(KEY.length).replaceAll("-", "+").replaceAll("_", "/"));
    const plain = JSON.parse(await unpacked(Uint8Array.from(binary, (c) => c.charCodeAt(0))));
    return checked(plain, problems, mostCells);
  } catch {
    return new Error("The matrix in this link cannot be read; it may have been cut off on its way.");
  }
}

/** What a link says, if it is an instance in every part: links come from strangers. */
function checked({ problem, name, matrix, rows, columns, coordinates, arrays }, problems, mostCells) {
  const must = (fine) => { if (!fine) throw new Error("not an instance"); };
  const names = (value, count) => value === null || (Array.isArray(value) && value.length === count && value.every((one) => typeof one === "string"));
  must(problems.includes(problem) && Array.isArray(matrix) && matrix.length > 0 && Array.isArray(matrix[0]) && matrix[0].length > 0);
  const width = matrix[0].length;
  must(matrix.length * width <= mostCells);
  must(matrix.every((row) => Array.isArray(row) && row.length === width && row.every((value) => value === null || Number.isFinite(value))));
  must(names(rows ?? null, matrix.length) && names(columns ?? null, width));
  must(!coordinates || (coordinates.length === matrix.length && coordinates.every((point) => point.length === 2 && point.every(Number.isFinite))));
  must(!arrays || (typeof arrays === "object" && Object.values(arrays).every(Array.isArray)));
  return { problem, name: String(name ?? ""), matrix, rows: rows ?? null, columns: columns ?? null, coordinates: coordinates ?? null, arrays: arrays ?? null };
}
