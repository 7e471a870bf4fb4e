// What the tests ask of a page, from inside it.

const shown = (element) => element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}) && element.getClientRects().length > 0;

function rgb(colour) {
  const parts = colour.match(/[\d.]+/g).map(Number);
  return {channels: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1};
}

function luminance(channels) {
  const [r, g, b] = channels.map((value) => value / 255).map((value) => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function background(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = rgb(getComputedStyle(at).backgroundColor);
    if (colour.alpha === 1) return colour.channels;
  }
  return [255, 255, 255];
}

// Texts that are harder to read than WCAG 2 allows (AA), with the contrast that they have.
function faint() {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    // The numbers on the bars have an outline of their own.
    if (text === "" || !shown(element) || element.closest("svg .count, noscript, .skip")) continue;
    const style = getComputedStyle(element);
    const colour = rgb(element instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [luminance(colour.channels), luminance(background(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (contrast < (large ? 3 : 4.5)) found.push(`${text.slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return found;
}

// What can be used, and has no name that a screen reader could say.
function nameless() {
  return [...document.querySelectorAll("a, button, input, select, textarea, dialog, svg[role=img], img, progress")].filter(shown).filter((element) =>
    !(element.getAttribute("aria-label") || element.textContent.trim() || element.labels?.length || element.hasAttribute("alt") ||
      element.querySelector("title"))).map((element) => element.outerHTML.slice(0, 120));
}

// How many pixels the page is wider than its window.
const overflow = () => document.documentElement.scrollWidth - document.documentElement.clientWidth;

// Things to press that a thumb would miss.
const tiny = () => [...document.querySelectorAll("header a:not(.skip), main > div > .bar button, select, input")].filter(shown)
  .filter((element) => element.getBoundingClientRect().height < 24).map((element) => element.outerHTML.slice(0, 120));

// Columns whose heading does not fit.
const cut = () => [...document.querySelectorAll("th")].filter(shown).filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent);

// Texts in a chart that lie over each other.
function overlapping() {
  const found = [];
  for (const chart of document.querySelectorAll("svg.chart")) {
    const texts = [...chart.querySelectorAll("text")].map((text) => ({text: text.textContent, box: text.getBoundingClientRect()}));
    texts.forEach((one, index) => texts.slice(index + 1).forEach((other) => {
      if (one.box.left < other.box.right && other.box.left < one.box.right && one.box.top < other.box.bottom - 2 && other.box.top < one.box.bottom - 2) {
        found.push(`${chart.getAttribute("aria-label")}: ${one.text} | ${other.text}`);
      }
    }));
    const frame = chart.getBoundingClientRect();
    for (const {text, box} of texts) if (box.left < frame.left - 1 || box.right > frame.right + 1) found.push(`${chart.getAttribute("aria-label")}: ${text} is cut`);
  }
  return found;
}

// The same of charts of five minutes that begin at any second of one, so that the last time stands anywhere at the edge, and of numbers of any size.
async function overlappingWhateverIsShown() {
  const {chart, timeTicks} = await import(document.querySelector("link[href$='/chart.js']").href);
  const clock = (time) => new Date(time * 1000).toISOString().slice(11, 19);
  const place = document.querySelector("main").appendChild(document.createElement("div"));
  const found = [];
  const look = (title, begin, y) => {
    place.replaceChildren(chart({title, lines: [{name: "", points: [[begin, -y], [begin + 300, y]]}], xText: clock, xTicks: timeTicks}));
    found.push(...overlapping());
  };
  for (let begin = 0; begin < 60; ++begin) look(`from ${begin} s`, begin, 1);
  for (let y = 1e-7; y < 1e17; y *= 1.7) look(`up to ${y}`, 0, y);
  place.remove();
  return found;
}

const focused = () => {
  const element = document.activeElement;
  const outline = getComputedStyle(element);
  return {text: element.textContent.trim() || element.id, tag: element.tagName, outline: outline.outlineStyle !== "none" && parseFloat(outline.outlineWidth) > 0};
};
