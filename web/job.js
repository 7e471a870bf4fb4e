// One job: what it does, how fast it could be, how it came to be so.

import {h, number, span, clock, now, parse, card, figure, table, palette} from "./dom.js";
import {state, get, getAll, post, address, reason, listen} from "./state.js";
import {chart, timeTicks, wholeTicks} from "./chart.js";
import {finished, left, phase} from "./jobs.js";

const MOST_LINES = 2000;

function confirm(title, text, fields, action) {
  const problem = h("p", {role: "alert"});
  const dialog = h("dialog", {"aria-label": title}, h("h2", {}, title), h("p", {}, text), fields, problem, h("div", {class: "bar"},
    h("button", {type: "button", class: "danger", onclick: async () => {
      try {
        await action();
        dialog.close();
      } catch (error) {
        problem.textContent = error.message;
      }
    }}, title), h("button", {type: "button", onclick: () => dialog.close()}, "Leave it as it is")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function actions(job) {
  if (finished(job) || !["admin", "operator", "user"].includes(state.session.role)) return null;
  const where = {namespace: job.namespace, name: job.name};
  const fewest = h("input", {type: "number", min: 1, value: job.minReplicas});
  const most = h("input", {type: "number", min: 0, value: job.maxReplicas});
  return h("div", {class: "bar"},
    h("button", {type: "button", onclick: () => confirm("Scale", `How many replicas may ${job.name} have?`, [h("label", {}, "At least ", fewest),
      h("label", {}, "At most ", most, " (0: no limit)")], () => post("scale", {...where, min: fewest.value, max: most.value}))}, "Scale…"),
    h("button", {type: "button", class: "danger", onclick: () => confirm("Cancel the job",
      `${job.name} ends for good; what it has computed since its last checkpoint is lost.`, [], () => post("cancel", where))}, "Cancel…"));
}

function curveCard(job) {
  const {points, best, reason} = job.curve;
  if (!points) return h("p", {class: "empty"}, `No curve: ${reason}.`);
  const predicted = points.find((point) => point.replicas === best);
  return chart({title: "Goodput by number of replicas", xText: String, xTicks: wholeTicks,
    lines: [{name: "on one node", points: points.map((point) => [point.replicas, point.oneNode])},
      {name: "each on its own node", points: points.map((point) => [point.replicas, point.spread])}],
    dots: [{x: job.replicas || undefined, y: job.progress?.goodput, name: "now, measured", colour: palette[5]},
      {x: best, y: predicted?.oneNode, name: `predicted best: ${best}`, colour: palette[3]}]});
}

function historyCards(history) {
  const points = history.points || [];
  const changes = history.changes || [];
  const marks = changes.filter((change, index) => index > 0 && changes[index - 1].replicas > 0 &&
    (change.replicas !== changes[index - 1].replicas || change.nodes !== changes[index - 1].nodes)).map((change) => parse(change.time));
  const replicas = changes.map((change) => [parse(change.time), change.replicas]);
  if (replicas.length > 0 && points.length > 0) {
    // A change may be newer than the last point.
    const [time, count] = replicas.at(-1);
    replicas.push([Math.max(parse(points.at(-1).end), time), count]);
  }
  const over = (pick) => points.map((point) => [parse(point.end), pick(point)]).filter(([, y]) => y !== undefined && y !== 0);
  const one = (title, lines, more) => card(title, chart({title, lines, marks, xText: clock, xTicks: timeTicks, ...more}));
  const cards = [
    one("Replicas", [{name: "replicas", points: replicas}], {whole: true}),
    one("Goodput and throughput, samples/s", [{name: "goodput", points: over((point) => point.goodput)}, {name: "throughput", points: over((point) => point.throughput)}]),
    one("Batch size", [{name: "total", points: over((point) => point.totalBatchSize)}, {name: "per replica", points: over((point) => point.localBatchSize)}]),
    one("Learning rate, times the base", [{name: "factor", points: over((point) => point.learningRateFactor)}]),
    one("Gradient noise scale, samples", [{name: "noise", points: over((point) => point.gradientNoiseScale)}]),
    one("Time of a step, seconds", ["compute", "sync", "data"].map((part) => ({name: part, points: over((point) => point.stepTimes?.[part])}))),
  ];
  const names = [...new Set(points.flatMap((point) => (point.metrics || []).map((metric) => metric.name)))];
  for (const name of names) {
    cards.push(one(name, [{name, points: points.map((point) => [parse(point.end), Number((point.metrics || []).find((metric) => metric.name === name)?.value ?? NaN)])}], {zero: false}));
  }
  return cards;
}

function logCard(where) {
  const text = h("pre", {class: "log", tabindex: 0, "aria-label": "Output of the replicas"});
  const status = h("span", {class: "label"});
  const source = new EventSource(address("logs", where));
  source.onopen = () => { text.replaceChildren(); };
  source.addEventListener("lines", (event) => {
    const end = text.scrollHeight - text.scrollTop - text.clientHeight < 24;
    text.append(...JSON.parse(event.data).map((line) => line.rank < 0 ? `! ${line.text}\n` : `[${line.rank}] ${line.text}\n`));
    while (text.childNodes.length > MOST_LINES) text.firstChild.remove();
    if (end) text.scrollTop = text.scrollHeight;
  });
  source.addEventListener("end", (event) => {
    const {code, message} = JSON.parse(event.data);
    status.textContent = code === "OK" ? "That is all." : `Interrupted: ${reason(code, message)}`;
    if (code !== "UNAVAILABLE") source.close();
  });
  return [card("Logs", status, text), () => source.close()];
}

export function jobPage(root, namespace, name) {
  const where = {namespace, name};
  const head = h("div", {});
  const curve = card("Goodput by number of replicas");
  const why = card("Why it has what it has");
  const charts = h("div", {class: "cards"});
  const events = card("Events");
  const [logs, closeLogs] = logCard(where);
  root.append(head, h("div", {class: "cards"}, curve, why), h("h2", {}, "Over time"), charts, events, logs);
  let gone = false;
  let timer = 0;
  let running = false;

  async function load() {
    if (running || gone) return;
    running = true;
    clearTimeout(timer);
    try {
      const job = await get("job", where);
      if (gone) return;
      const progress = job.progress || {};
      head.replaceChildren(h("h1", {}, `${namespace === "default" ? "" : `${namespace}/`}${name}`), actions(job) || "", h("div", {class: "totals"},
        figure("phase", phase(job)), figure(`replicas, of ${job.minReplicas} to ${job.maxReplicas || "any"}`, String(job.replicas)),
        figure("progress", progress.fraction === undefined ? "–" : `${Math.round(progress.fraction * 100)} %`),
        figure("goodput, samples/s", number(progress.goodput)), figure("batch size", number(progress.batchSize)),
        figure("efficiency", progress.efficiency === undefined ? "–" : `${Math.round(progress.efficiency * 100)} %`),
        figure(finished(job) ? "took" : "left", finished(job) ? span(job.completed - job.submitted) : left(job)),
        figure("re-scales, restarts", `${job.rescales || 0}, ${job.restarts || 0}`)));
      if (!curve.querySelector("details[open]")) curve.replaceChildren(curve.firstChild, curveCard(job));
      why.replaceChildren(why.firstChild, h("p", {}, job.decision || job.message || "Nothing was decided for it yet."),
        h("ul", {}, job.explanation.map((sentence) => h("li", {}, sentence))),
        job.checkpointError ? h("p", {role: "alert"}, `The newest checkpoint could not be written: ${job.checkpointError}`) : "",
        table(job.members, [["Rank", (member) => String(member.rank), "number"], ["Node", (member) => member.node], ["State", (member) => member.state],
          ["", (member) => member.message, "wrap"]], "Replicas"));
      const list = await getAll("events", where, "events");
      events.replaceChildren(events.firstChild, list.length === 0 ? h("p", {class: "empty"}, "No events.")
        : table(list.slice(-200).reverse(), [["Time", (event) => clock(parse(event.time))], ["What", (event) => event.reason], ["", (event) => event.message, "wrap"]], "Events"));
      try {
        const history = await get("history", where);
        if (!charts.querySelector("details[open]")) charts.replaceChildren(...historyCards(history));
      } catch (error) {
        charts.replaceChildren(h("p", {class: "empty"}, error.code === "UNIMPLEMENTED" ? "This supervisor is older than the record of curves."
          : `The curves could not be read: ${error.message}`));
      }
    } catch (error) {
      head.replaceChildren(h("h1", {}, name), h("p", {class: "empty", role: "alert"}, error.code === "NOT_FOUND" ? "There is no such job." : error.message));
    } finally {
      running = false;
      if (!gone) timer = setTimeout(load, 5000);
    }
  }

  let last = null;
  const stop = listen(() => {
    const job = [...state.jobs.values()].find((entry) => entry.namespace === namespace && entry.name === name);
    if (job && last && (job.phase !== last.phase || job.replicas !== last.replicas)) load();
    last = job || last;
  });
  load();
  return () => { gone = true; clearTimeout(timer); stop(); closeLogs(); };
}
