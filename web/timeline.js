// One bar per job over time, as high as it has replicas.

import {h, s, colour, clock, now, parse, table} from "./dom.js";
import {state, getAll} from "./state.js";
import {label, timeTicks} from "./chart.js";
import {link} from "./jobs.js";

const SPANS = [["Last 10 minutes", 600], ["Last hour", 3600], ["Last day", 86400], ["All", Infinity]];
const ROW = 34, LEFT = 150, TOP = 24, MOST = 200;

function draw(timelines, seconds) {
  const end = now();
  const first = Math.min(...timelines.map((job) => parse(job.submitTime)), end - 1);
  const begin = Math.max(first, end - seconds);
  const shown = timelines.filter((job) => (parse(job.completionTime) || end) >= begin).slice(-MOST);
  if (shown.length === 0) return h("p", {class: "empty"}, "No job was there in this span.");
  const width = 1100;
  const height = TOP + shown.length * ROW + 8;
  const px = (time) => LEFT + Math.max(0, Math.min(1, (time - begin) / (end - begin))) * (width - LEFT - 10);
  const most = Math.max(1, ...shown.flatMap((job) => job.changes.map((change) => change.replicas)));
  const svg = s("svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Replicas of each job over time"});
  for (const time of timeTicks(begin, end, 6)) {
    svg.append(s("line", {class: "grid", x1: px(time), x2: px(time), y1: TOP - 6, y2: height}),
      label(clock(time), px(time), 12, width));
  }
  shown.forEach((job, index) => {
    const middle = TOP + index * ROW + ROW / 2;
    const name = job.name.length > 20 ? `${job.name.slice(0, 19)}…` : job.name;
    svg.append(s("a", {href: link(job)}, s("text", {class: "name", x: 0, y: middle + 4}, name, s("title", {}, `${job.namespace}/${job.name}`))));
    const last = parse(job.completionTime) || end;
    svg.append(s("line", {class: "mark", x1: px(parse(job.submitTime)), x2: px(last), y1: middle, y2: middle}));
    job.changes.forEach((change, at) => {
      if (change.replicas === 0) return;
      const from = px(parse(change.time));
      const to = px(at + 1 < job.changes.length ? parse(job.changes[at + 1].time) : last);
      if (to - from < 0.3) return;
      const size = 6 + (ROW - 12) * change.replicas / most;
      svg.append(s("rect", {x: from, width: to - from, y: middle - size / 2, height: size, rx: 2, fill: colour(job.name)},
        s("title", {}, `${job.name}: ${change.replicas} replicas from ${clock(parse(change.time))}`)));
      if (to - from > 22) svg.append(s("text", {class: "count", x: (from + to) / 2, y: middle + 4, "text-anchor": "middle"}, String(change.replicas)));
    });
  });
  const rows = shown.flatMap((job) => job.changes.map((change) => ({job, change})));
  const alternative = h("details", {}, h("summary", {}, "As a table"));
  alternative.addEventListener("toggle", () => {
    if (alternative.children.length > 1) return;
    alternative.append(table(rows.slice(-1000), [["Job", (row) => row.job.name], ["From", (row) => clock(parse(row.change.time))],
      ["Replicas", (row) => String(row.change.replicas), "number"], ["Nodes", (row) => String(row.change.nodes), "number"]], "Replicas over time"));
  });
  return h("div", {}, h("div", {class: "scroll"}, svg), alternative);
}

export function timelinePage(root) {
  const which = h("select", {"aria-label": "Span of time"}, SPANS.map(([name], index) => h("option", {value: index, selected: index === 1}, name)));
  const place = h("div", {});
  let timelines = null;
  let gone = false;
  let timer = 0;
  const show = () => timelines && place.replaceChildren(draw(timelines, SPANS[Number(which.value)][1]));
  async function load() {
    try {
      timelines = await getAll("timelines", {namespace: state.namespace}, "timelines");
      if (!gone && !place.querySelector("details[open]")) show();
    } catch (error) {
      place.replaceChildren(h("p", {class: "empty"}, error.code === "UNIMPLEMENTED"
        ? "This supervisor is older than the record of what happened: it has no timeline." : `The timeline could not be read: ${error.message}`));
    }
    if (!gone) timer = setTimeout(load, 3000);
  }
  which.addEventListener("change", show);
  root.append(h("h1", {}, "Timeline"), h("section", {class: "card", "aria-label": "Timeline"}, h("div", {class: "bar"}, which,
    h("span", {class: "label"}, "The number on a bar, and its height, are the job's replicas.")), place));
  load();
  return () => { gone = true; clearTimeout(timer); };
}
