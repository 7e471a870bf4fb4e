// Nodes and who runs there; pools and what they cost.

import {h, s, number, card, figure, table, colour} from "./dom.js";
import {state, get, getAll, listen} from "./state.js";
import {link} from "./jobs.js";

const word = (value, prefix) => (value || "").replace(prefix, "");
const GIB = 2 ** 30;

// Calls `load` now and every few seconds, until the page is left.
function repeat(load, place) {
  let gone = false;
  let timer = 0;
  const again = async () => {
    try {
      await load();
    } catch (error) {
      place.replaceChildren(h("p", {class: "empty", role: "alert"}, error.code === "PERMISSION_DENIED" ? "You may not see this." : error.message));
    }
    if (!gone) timer = setTimeout(again, 3000);
  };
  again();
  return () => { gone = true; clearTimeout(timer); };
}

function nodeCard(node, jobs) {
  const here = jobs.filter((job) => job.nodes?.[node.nodeId]);
  const use = node.status?.use;
  const gpus = use?.gpus || [];
  const squares = here.flatMap((job) => Array.from({length: job.nodes[node.nodeId]}, () => s("svg", {width: 18, height: 18, role: "img", "aria-label": job.name},
    s("rect", {width: 18, height: 18, rx: 4, fill: colour(job.name)}), s("title", {}, job.name))));
  const total = node.capacity || {};
  const used = node.status?.allocated || {};
  const resources = [total.gpus ? `${used.gpus || 0} of ${total.gpus} GPUs` : "",
    `${number((used.cpuMillis || 0) / 1000)} of ${number((total.cpuMillis || 0) / 1000)} cores`,
    `${number(Number(used.memoryBytes || 0) / GIB)} of ${number(Number(total.memoryBytes || 0) / GIB)} GiB`];
  return card(node.nodeId,
    h("p", {class: "label"}, [word(node.status?.phase, "NODE_PHASE_").toLowerCase(), node.gpuType, node.preemptible ? "preemptible" : "",
      ...resources].filter(Boolean).join(" · ")),
    use ? h("p", {class: "label"}, `The machine: ${number(use.cpus)} cores busy, ${number(Number(use.memoryBytes) / GIB)} of ${
      number(Number(use.memoryTotalBytes) / GIB)} GiB of memory in use`) : null,
    node.status?.message ? h("p", {role: "note"}, node.status.message) : null,
    h("div", {class: "slots"}, squares),
    here.length === 0 ? h("p", {class: "label"}, "Nothing runs here.") : h("ul", {}, here.map((job) => h("li", {}, h("a", {href: link(job)}, job.name), ` × ${job.nodes[node.nodeId]}`))),
    gpus.length === 0 ? null : table(gpus, [["GPU", (gpu) => String(gpu.index)], ["Use", (gpu) => `${Math.round(gpu.utilization * 100)} %`, "number"],
      ["Memory", (gpu) => `${number(Number(gpu.memoryBytes) / GIB)} of ${number(Number(gpu.memoryTotalBytes) / GIB)} GiB`, "number"],
      ["°C", (gpu) => number(gpu.temperatureCelsius), "number"], ["W", (gpu) => number(gpu.powerWatts), "number"]], `GPUs of ${node.nodeId}`));
}

export function clusterPage(root) {
  const totals = h("div", {class: "totals"});
  const place = h("div", {class: "cards"});
  root.append(h("h1", {}, "Cluster"), totals, place);
  let nodes = null;
  const draw = () => {
    if (nodes === null) return;
    const jobs = [...state.jobs.values()];
    const ready = nodes.filter((node) => word(node.status?.phase, "NODE_PHASE_") === "READY").length;
    const sumOf = (which, what) => nodes.reduce((sum, node) => sum + Number((which === "capacity" ? node.capacity : node.status?.allocated)?.[what] || 0), 0);
    totals.replaceChildren(figure("nodes", String(nodes.length)), figure("ready", String(ready)),
      figure("replicas, of all namespaces", String(nodes.reduce((sum, node) => sum + (node.status?.replicas || 0), 0))),
      sumOf("capacity", "gpus") > 0 ? figure("GPUs in use", `${sumOf("allocated", "gpus")} of ${sumOf("capacity", "gpus")}`) : "",
      figure("cores in use", `${number(sumOf("allocated", "cpuMillis") / 1000)} of ${number(sumOf("capacity", "cpuMillis") / 1000)}`));
    place.replaceChildren(...(nodes.length > 0 ? nodes.map((node) => nodeCard(node, jobs)) : [h("p", {class: "empty"}, "No nodes have joined.")]));
  };
  const stop = repeat(async () => { nodes = await getAll("nodes", {}, "nodes"); draw(); }, place);
  const deaf = listen(draw);
  return () => { stop(); deaf(); };
}

export function poolsPage(root) {
  const place = h("div", {});
  root.append(h("h1", {}, "Pools and cost"), place);
  return repeat(async () => {
    const costs = await get("costs", {namespace: state.namespace});
    const lines = costs.lines || [];
    const sections = [];
    try {
      const {pools = []} = await get("pools");
      sections.push(card("Node pools", pools.length === 0 ? h("p", {class: "empty"}, "There are no node pools: nodes come and go by hand.")
        : table(pools, [["Pool", (pool) => pool.name], ["Provider", (pool) => pool.provider], ["Nodes", (pool) => `${pool.currentNodes} → ${pool.targetNodes}`, "number"],
          ["Bounds", (pool) => `${pool.minNodes}–${pool.maxNodes}`, "number"], ["A node's hour", (pool) => number(pool.pricePerHour), "number"],
          ["Why", (pool) => pool.lastError || pool.reason, "wrap"]], "Node pools")));
    } catch (error) {
      if (error.code !== "PERMISSION_DENIED" && error.code !== "UNIMPLEMENTED") throw error;
      sections.push(card("Node pools", h("p", {class: "empty"}, "Only operators see the pools.")));
    }
    sections.push(card(`Cost${costs.currency ? ` in ${costs.currency}` : ""}`, h("div", {class: "totals"},
      figure("all together", lines.reduce((sum, line) => sum + line.cost, 0).toFixed(2)),
      figure("node hours", lines.reduce((sum, line) => sum + line.nodeHours, 0).toFixed(1))),
    lines.length === 0 ? h("p", {class: "empty"}, "Nothing was used yet.") : table([...lines].sort((a, b) => b.cost - a.cost),
      [["Namespace", (line) => line.namespace || "unused"], ["Job", (line) => line.job || "–"], ["Pool", (line) => line.pool || "–"],
        ["Node hours", (line) => line.nodeHours.toFixed(2), "number"], ["Cost", (line) => line.cost.toFixed(2), "number"]], "Cost by job")));
    place.replaceChildren(...sections);
  }, place);
}
