// The frame around the pages: which one is shown, the namespace, colours of the theme.

import {h} from "./dom.js";
import {state, get, watch, unwatch, connection} from "./state.js";
import {jobsPage} from "./jobs.js";
import {jobPage} from "./job.js";
import {timelinePage} from "./timeline.js";
import {clusterPage, poolsPage} from "./cluster.js";

const main = document.getElementById("main");
let leave = () => {};

function show(focus) {
  const [, page = "jobs", ...rest] = location.hash.split("/").map(decodeURIComponent);
  leave();
  const pages = {jobs: jobsPage, timeline: timelinePage, cluster: clusterPage, pools: poolsPage, job: jobPage};
  const root = h("div", {});
  main.replaceChildren(root);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${page}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  leave = (pages[page] || jobsPage)(root, ...rest) || (() => {});
  if (focus) main.focus();
}

function theme(wanted) {
  const dark = wanted ? wanted === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.getElementById("theme").textContent = dark ? "Light" : "Dark";
}

document.getElementById("theme").addEventListener("click", () => {
  const wanted = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", wanted);
  theme(wanted);
});

const field = document.getElementById("namespace");
field.addEventListener("change", () => {
  watch(field.value || "default");
  show();
});

document.getElementById("leave").addEventListener("click", async () => {
  await fetch("/logout", {method: "POST", headers: {"X-Adaptdl-Token": state.session.token}, redirect: "manual"});
  location.reload();
});

// A browser that keeps the page for the way back would keep its streams too, and opens only six connections to one server.
addEventListener("pagehide", () => {
  leave();
  unwatch();
});
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

async function start() {
  theme(localStorage.getItem("theme"));
  addEventListener("hashchange", () => show(true));
  try {
    state.session = await get("session");
  } catch (error) {
    connection(`Connection lost: ${error.message}. Trying again.`, true);
    setTimeout(start, 2000);
    return;
  }
  document.getElementById("leave").hidden = !state.session.leaves;
  document.getElementById("who").textContent = `${state.session.name || "anonymous"} · ${state.session.role}`;
  field.value = state.session.namespace;
  watch(state.session.namespace);
  show();
}

start();
