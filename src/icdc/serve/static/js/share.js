// An instance in the address itself: compressed, after the #, so it never reaches a server's log.

const KEY = "#m=";

async function through(stream, bytes) {
  const writer = stream.writable.getWriter();
  writer.write(bytes).catch(() => {});
  writer.close().catch(() => {});
  return new Uint8Array(await new Response(stream.readable).arrayBuffer());
}

/** The address of this page with an instance in it. */
export async function linkTo(plain) {
  const packed = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(plain)));
  let binary = "";
  for (const byte of packed) binary += String.fromCharCode(byte);
  const text = btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return `${location.origin}${location.pathname}${KEY}${text}`;
}

/** The instance in the address, if there is one that can be read. */
export async function fromLink() {
  if (!location.hash.startsWith(KEY)) return null;
  try {
    const binary = atob(location.hash.slice(KEY.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (c) => c.charCodeAt(0));
    const plain = JSON.parse(new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes)));
    const rows = Array.isArray(plain.matrix) && plain.matrix.length ? plain.matrix : null;
    const number = (value) => value === null || typeof value === "number";
    if (!rows || !rows.every((row) => Array.isArray(row) && row.length === rows[0].length && row.every(number))) return null;
    return plain;
  } catch {
    return null;
  }
}
