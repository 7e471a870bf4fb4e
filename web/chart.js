// Lines over a number: small, drawn as SVG, with a table of the same for who can't see it.

import {h, s, number, table, palette, swatch} from "./dom.js";

const WIDTH = 560, HEIGHT = 220, LEFT = 68, RIGHT = 12, TOP = 10, BOTTOM = 28;

// A text around x, which is not cut at the right edge, in the large letters of a phone either.
export function label(text, x, y, width) {
  const digit = 10;  // at most, in any of the sizes of style.css
  const last = x + text.length * digit / 2 > width;
  return s("text", {x: last ? width : x, y, "text-anchor": last ? "end" : "middle"}, text);
}

// On an axis, where there is little room.
function short(value) {
  const size = Math.abs(value);
  if (size < 1e4) return number(value);
  return size < 1e15 ? value.toLocaleString("en", {notation: "compact", maximumSignificantDigits: 3}) : value.toExponential(0);
}

// About `count` round numbers from `low` to `high`.
export function ticks(low, high, count) {
  const raw = (high - low) / count;
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw);
  const made = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) made.push(Number(at.toPrecision(12)));
  return made;
}

// Of what can be counted: whole ones only.
export const wholeTicks = (low, high, count) => [...new Set(ticks(low, high, Math.max(1, Math.min(count, Math.floor(high - low)))).map(Math.round))];

// The same for times, in seconds: at round minutes or hours of the local clock.
const STEPS = [1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
export function timeTicks(low, high, count) {
  const step = STEPS.find((candidate) => candidate >= (high - low) / count) || 86400 * Math.ceil((high - low) / count / 86400);
  const shift = new Date(low * 1000).getTimezoneOffset() * 60;
  const made = [];
  for (let at = Math.ceil((low - shift) / step) * step + shift; at <= high; at += step) made.push(at);
  return made;
}

// A line that holds each value until the next one.
const stairs = (points) => points.flatMap(([x, y], index) => index === 0 ? [[x, y]] : [[x, points[index - 1][1]], [x, y]]);

// lines: [{name, points: [[x, y], ...]}]; marks: [x]; dots: [{x, y, name}]. `whole`: what is counted, which changes at once.
export function chart({title, lines, marks = [], dots = [], xText = number, xTicks = ticks, zero = true, whole = false}) {
  lines = lines.map((line) => ({...line, points: line.points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y))}));
  const all = lines.flatMap((line) => line.points);
  if (all.length === 0) return h("p", {class: "empty"}, "Nothing was measured yet.");
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [x, y] of all) {
    x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y);
  }
  if (zero) y0 = Math.min(0, y0);
  if (y1 === y0) y1 = y0 + (Math.abs(y0) || 1);
  if (x1 === x0) x1 = x0 + 1;
  marks = marks.filter((x) => x >= x0 && x <= x1);
  const px = (x) => LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT);
  const py = (y) => HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM);
  const svg = s("svg", {class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title});
  for (const y of (whole ? wholeTicks : ticks)(y0, y1, 4)) {
    svg.append(s("line", {class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: py(y), y2: py(y)}),
      s("text", {x: LEFT - 8, y: py(y) + 4, "text-anchor": "end"}, short(y)));
  }
  for (const x of xTicks(x0, x1, 5)) svg.append(label(xText(x), px(x), HEIGHT - 8, WIDTH));
  for (const x of marks) svg.append(s("line", {class: "mark", x1: px(x), x2: px(x), y1: TOP, y2: HEIGHT - BOTTOM}));
  lines.forEach((line, index) => {
    const path = (whole ? stairs(line.points) : line.points).map(([x, y]) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`).join(" ");
    svg.append(s("polyline", {points: path, fill: "none", stroke: palette[index % palette.length], "stroke-width": 2, "stroke-linejoin": "round"}));
  });
  dots.filter((dot) => Number.isFinite(dot.x) && Number.isFinite(dot.y)).forEach((dot) => svg.append(
    s("circle", {cx: px(dot.x), cy: py(dot.y), r: 5, fill: dot.colour}, s("title", {}, dot.name))));
  const legend = h("ul", {class: "legend"},
    lines.map((line, index) => h("li", {}, swatch(palette[index % palette.length]), line.name)),
    dots.filter((dot) => Number.isFinite(dot.y)).map((dot) => h("li", {}, swatch(dot.colour), dot.name)),
    marks.length > 0 ? h("li", {}, "┊ re-scaled") : null);
  const rows = lines.flatMap((line) => line.points.map(([x, y]) => ({name: line.name, x, y})));
  const alternative = h("details", {}, h("summary", {}, "As a table"));
  // Made when it is wanted: it is long.
  alternative.addEventListener("toggle", () => {
    if (alternative.children.length === 1) {
      alternative.append(table(rows.slice(-400), [["", (row) => row.name], ["at", (row) => xText(row.x), "number"],
        ["value", (row) => number(row.y, 5), "number"]], title));
    }
  });
  return h("div", {}, svg, legend, alternative);
}
