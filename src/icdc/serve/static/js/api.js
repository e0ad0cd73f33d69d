// The server: plain requests, and the events of a job.

const TOKEN = "icdc-token";

/** Something the server refused, with its sentence. */
export class Refused extends Error {
  constructor(problem, status, retry) {
    super(problem.detail || `The server answered ${status}.`);
    this.status = status;
    this.retry = retry;
  }
}

async function askForToken() {
  const dialog = document.getElementById("token-dialog");
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  sessionStorage.setItem(TOKEN, document.getElementById("token-text").value.trim());
}

async function send(path, options = {}) {
  for (let attempt = 0; ; attempt++) {
    const headers = new Headers(options.headers);
    const token = sessionStorage.getItem(TOKEN);
    if (token) headers.set("Authorization", `Bearer ${token}`);
    let response;
    try {
      response = await fetch(path, { ...options, headers });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused({ detail: "The server cannot be reached. Is it still running?" }, 0);
    }
    if (response.status === 401 && attempt < 3) {
      await askForToken();
      continue;
    }
    if (!response.ok) {
      const problem = await response.json().catch(() => ({}));
      throw new Refused(problem, response.status, +response.headers.get("Retry-After") || null);
    }
    return response;
  }
}

const json = (path, options) => send(path, options).then((response) => response.json());

export const about = () => json("v1/problems");
export const job = (id) => json(`v1/jobs/${id}`);
export const cancel = (id) => json(`v1/jobs/${id}`, { method: "DELETE" });
export const version = () => json("healthz").then((health) => health.version);

/** What the server understands of some content. */
export function read(content, kind, words) {
  const query = new URLSearchParams(Object.entries(words).filter(([, value]) => value));
  return json(`v1/read?${query}`, { method: "POST", body: content, headers: { "Content-Type": kind } });
}

/** Begin a job. */
export function begin(document) {
  return json("v1/jobs", { method: "POST", body: JSON.stringify(document), headers: { "Content-Type": "application/json" } });
}

/** Follow a job until it ends, over lost connections; `hear(name, data)` is told of each event once. */
export async function follow(id, hear, signal) {
  let last = 0;
  for (let failures = 0; ; ) {
    try {
      const response = await send(`v1/jobs/${id}/events`, { headers: { "Last-Event-ID": String(last) }, signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        failures = 0;
        text += value;
        const parts = text.split("\n\n");
        text = parts.pop();
        for (const part of parts) {
          const fields = Object.fromEntries(part.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
          if (!fields.event) continue;
          last = +fields.id;
          hear(fields.event, JSON.parse(fields.data));
          if (fields.event === "end") return;
        }
      }
    } catch (error) {
      if (signal?.aborted || (error instanceof Refused && error.status)) throw error;
    }
    if (signal?.aborted || ++failures > 20) throw new Refused({ detail: "The connection to the server was lost." }, 0);
    await new Promise((resolve) => setTimeout(resolve, Math.min(3000, 250 * failures)));
  }
}
