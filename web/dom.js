// Making elements, and figures for people. Nothing here knows jobs.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== undefined && child !== null) element.append(child);
  return element;
}

// Texts are never taken for HTML.
export const h = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
export const s = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

// Made once for each kind of figure: that costs more than a hundred uses.
const formats = new Map();
function format(value, options) {
  const kind = JSON.stringify(options);
  if (!formats.has(kind)) formats.set(kind, new Intl.NumberFormat("en", options));
  return formats.get(kind).format(value);
}

export function number(value, digits = 3) {
  if (value === undefined || value === null || !Number.isFinite(value)) return "–";
  if (value !== 0 && Math.abs(value) < 1e-3) return value.toExponential(1);
  if (Math.abs(value) >= 1e15) return value.toExponential(2);
  if (Math.abs(value) >= 1e6) return format(value, {notation: "compact", maximumSignificantDigits: digits});
  return format(value, {maximumSignificantDigits: Math.max(digits, String(Math.trunc(Math.abs(value))).length)});
}

export function span(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const total = Math.max(0, Math.round(seconds));
  if (total < 60) return `${total}s`;
  if (total < 3600) return `${Math.floor(total / 60)}m ${total % 60}s`;
  if (total < 86400) return `${Math.floor(total / 3600)}h ${Math.floor(total % 3600 / 60)}m`;
  return `${Math.floor(total / 86400)}d ${Math.floor(total % 86400 / 3600)}h`;
}

export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
export const now = () => Date.now() / 1000;
export const parse = (text) => text ? Date.parse(text) / 1000 : undefined;

// Colours that the colour-blind tell apart (Okabe and Ito), by name, so that a job keeps its own.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c7ae6", "#7f8c8d"];
export function colour(name) {
  let hash = 0;
  for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
  return COLOURS[hash % COLOURS.length];
}
export const palette = COLOURS;

export const swatch = (fillColour) => s("svg", {class: "swatch", width: 12, height: 12, "aria-hidden": "true"},
  s("rect", {width: 12, height: 12, rx: 3, fill: fillColour}));

// A table: columns are [title, row => text or element, class].
export function table(rows, columns, caption, kind) {
  return h("div", {class: "scroll"}, h("table", {class: kind, "aria-label": caption},
    h("thead", {}, h("tr", {}, columns.map(([title, , style]) => h("th", {scope: "col", class: style}, title)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, columns.map(([, cell, style]) => h("td", {class: style}, cell(row))))))));
}

export const card = (title, ...children) => h("section", {class: "card", "aria-label": title}, h("h2", {}, title), ...children);
export const figure = (label, value) => h("div", {class: "card"}, h("div", {class: "figure"}, value), h("div", {class: "label"}, label));
