// The list of jobs, with the queue: filter, sort.

import {h, number, span, now, figure} from "./dom.js";
import {state, listen} from "./state.js";

const FINISHED = ["SUCCEEDED", "FAILED", "CANCELLED"];
const WAITING = ["PENDING"];
export const finished = (job) => FINISHED.includes(job.phase);
export const link = (job) => `#/job/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`;
export const phase = (job) => h("span", {class: `phase ${job.phase}`}, job.suspended && job.phase === "PENDING" ? "Held" : job.phase[0] + job.phase.slice(1).toLowerCase());
// What was expected may be over: then nobody knows.
export function left(job) {
  if (finished(job) || !job.expected) return "–";
  return job.expected > now() ? span(job.expected - now()) : "overdue";
}
const age = (job) => (job.completed || now()) - (job.submitted || now());

const COLUMNS = [
  ["Name", (job) => job.name, (job) => h("a", {href: link(job), title: job.name}, state.namespace === "*" ? `${job.namespace}/${job.name}` : job.name)],
  ["Phase", (job) => job.phase, phase],
  ["Replicas", (job) => job.replicas, (job) => String(job.replicas), "number"],
  ["Progress", (job) => job.progress?.fraction || 0, (job) => job.progress?.fraction === undefined ? "–"
    : h("span", {}, h("progress", {max: 1, value: job.progress.fraction, "aria-label": "Progress"}), ` ${Math.round(100 * job.progress.fraction)} %`)],
  ["Goodput", (job) => job.progress?.goodput || 0, (job) => number(job.progress?.goodput), "number wide"],
  ["Batch", (job) => job.progress?.batchSize || 0, (job) => number(job.progress?.batchSize), "number wide"],
  ["Loss", (job) => job.progress?.metrics?.loss ?? Infinity, (job) => number(job.progress?.metrics?.loss), "number wide"],
  ["Age", age, (job) => span(age(job)), "number wide"],
  ["Left", (job) => job.expected || Infinity, left, "number wide"],
  ["Why", (job) => job.reason || "", (job) => h("span", {title: job.message}, job.reason || ""), "wide"],
];

const AT_ONCE = 40;  // Rows: more than a window shows.

// A first view of hundreds of jobs costs what a screenful does: rows that are out of sight are laid out when there is time, some at a time, and not never, as
// screen readers do not see what has not been laid out. Returns what is called when there may be such rows; a window that is hidden draws no frames, so it waits for one only.
function layingOut(body) {
  let waits = false;
  const layOut = () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => requestIdleCallback(() => {
      waits = false;
      const rows = [...body.querySelectorAll("tr.later")].slice(0, AT_ONCE);
      for (const row of rows) row.classList.remove("later");
      if (rows.length > 0) layOut();
    }));
  };
  return layOut;
}

export function jobsPage(root) {
  let order = ["Age", 1];
  const filter = h("input", {type: "search", placeholder: "Filter by name or reason", "aria-label": "Filter by name or reason"});
  const which = h("select", {"aria-label": "Which jobs"}, ["All", "Active", "Waiting", "Finished"].map((name) => h("option", {}, name)));
  const count = h("span", {class: "label", role: "status"});
  const totals = h("div", {class: "totals"});
  const head = h("tr", {}, COLUMNS.map(([title, , , style]) => h("th", {scope: "col", class: style}, h("button", {type: "button", onclick: () => {
    order = [title, order[0] === title ? -order[1] : 1];
    draw();
  }}, title))));
  const body = h("tbody", {});
  const layOutLater = layingOut(body);
  const empty = h("p", {class: "empty"});
  const rows = new Map();  // By uid: what is drawn, and of what.

  function draw() {
    const all = [...state.jobs.values()];
    const text = filter.value.toLowerCase();
    const shown = all.filter((job) => `${job.namespace}/${job.name} ${job.reason || ""}`.toLowerCase().includes(text))
      .filter((job) => which.value === "All" || (which.value === "Active" && !finished(job)) ||
        (which.value === "Waiting" && WAITING.includes(job.phase)) || (which.value === "Finished" && finished(job)));
    const key = COLUMNS.find(([title]) => title === order[0])[1];
    shown.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * order[1] || (a.name < b.name ? -1 : 1));
    [...head.children].forEach((cell, index) => {
      if (COLUMNS[index][0] === order[0]) cell.setAttribute("aria-sort", order[1] > 0 ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    });
    const elements = shown.map((job, index) => {
      const known = rows.get(job.uid);
      if (known && known.job === job && known.namespace === state.namespace) return known.row;
      const row = h("tr", {class: known || index < AT_ONCE ? "" : "later"}, COLUMNS.map(([, , cell, style]) => h("td", {class: style}, cell(job))));
      rows.set(job.uid, {job, row, namespace: state.namespace});
      return row;
    });
    body.replaceChildren(...elements);
    layOutLater();
    for (const uid of rows.keys()) if (!state.jobs.has(uid)) rows.delete(uid);
    count.textContent = `${shown.length} of ${all.length} jobs`;
    empty.textContent = shown.length > 0 ? "" : !state.complete ? "Loading…"
      : all.length > 0 ? "No job matches." : "No jobs here yet. “adaptdl submit” starts one.";
    empty.hidden = shown.length > 0;
    const active = all.filter((job) => !finished(job));
    totals.replaceChildren(
      figure("running", String(active.filter((job) => job.replicas > 0).length)),
      figure("waiting", String(active.filter((job) => WAITING.includes(job.phase)).length)),
      figure("replicas", String(active.reduce((sum, job) => sum + job.replicas, 0))),
      figure("finished", String(all.length - active.length)));
  }

  filter.addEventListener("input", draw);
  which.addEventListener("change", draw);
  root.append(h("h1", {}, "Jobs"), totals, h("section", {class: "card", "aria-label": "Jobs"}, h("div", {class: "bar"}, filter, which, count),
    h("div", {class: "scroll"}, h("table", {class: "jobs", "aria-label": "Jobs"}, h("thead", {}, head), body)), empty));
  draw();
  return listen(draw);
}
