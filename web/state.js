// What the pages know: jobs as the stream tells them, and answers of the interface.

export const state = {jobs: new Map(), complete: false, session: null, namespace: "default"};
const listeners = new Set();
let source = null;

export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function connection(text, lost) {
  const line = document.getElementById("connection");
  if (line.textContent !== text) line.textContent = text;
  line.classList.toggle("lost", Boolean(lost));
}

// For people. What gRPC says of a connection that could not be made helps nobody.
export const reason = (code, message) => code === "UNAVAILABLE" ? "the supervisor does not answer" : message;

export async function get(path, parameters = {}) {
  const response = await fetch(address(path, parameters));
  // The session has ended: the server has a page for that.
  if (response.status === 401) location.reload();
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(reason(answer.code, answer.message)), {code: answer.code});
  return answer;
}

export async function post(path, parameters) {
  const response = await fetch(address(path, parameters), {method: "POST", headers: {"X-Adaptdl-Token": state.session.token}});
  const answer = await response.json();
  if (!response.ok) throw new Error(reason(answer.code, answer.message));
  return answer;
}

// Of the interface. "+" for a space is not what the server reads.
export function address(path, parameters) {
  const query = Object.entries(parameters).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  return `/api/${path}${query && "?"}${query}`;
}

// All pages of a list.
export async function getAll(path, parameters, field) {
  const all = [];
  let page = "";
  do {
    const answer = await get(path, {...parameters, page});
    all.push(...(answer[field] || []));
    page = answer.nextPageToken || "";
  } while (page !== "");
  return all;
}

function tell() {
  for (const listener of listeners) listener();
}

export function unwatch() {
  if (source) source.close();
}

// The browser connects again by itself when the stream breaks.
export function watch(namespace) {
  unwatch();
  state.namespace = namespace;
  state.jobs = new Map();
  state.complete = false;
  tell();
  source = new EventSource(address("jobs", {namespace}));
  source.addEventListener("jobs", (event) => {
    const {jobs, deleted, initial} = JSON.parse(event.data);
    if (initial) state.jobs = new Map();
    for (const job of jobs) state.jobs.set(job.uid, job);
    for (const uid of deleted) state.jobs.delete(uid);
    state.complete = true;
    connection("");
    tell();
  });
  source.addEventListener("end", (event) => {
    const {code, message} = JSON.parse(event.data);
    if (code === "UNAUTHENTICATED") location.reload();
    connection(code === "PERMISSION_DENIED" ? `You may not see this namespace: ${message}`
      : `Connection lost: ${reason(code, message) || "the supervisor ended it"}. Trying again.`, true);
  });
  source.onerror = () => {
    if (!document.getElementById("connection").classList.contains("lost")) connection("Connection lost. Trying again.", true);
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(() => watch(state.namespace), 3000);
    get("session").catch(() => {});  // which notices when the session has ended
  };
}
