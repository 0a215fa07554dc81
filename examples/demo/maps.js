/** Pictures of a version, as SVG: public numbers in, shapes out. */
import { ARMS, chances } from "./world.js";

const SIDE = 300;
const [LEFT, TOP, RIGHT, BOTTOM] = [40, 22, 8, 36];
const FULL = SIDE + TOP + BOTTOM;
const CELLS = 37; // a side of the grid of two ranges, see docs/reference/byte-formats.md

/** An element of SVG with attributes, and text where there is any. */
export function drawn(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const shown = (svg, shapes) => svg.replaceChildren(svg.querySelector("title"), ...shapes);

/** The middle of a cell of the grid. */
const middle = (column, row) => [(column + 0.5) / CELLS, (row + 0.5) / CELLS];
const everywhere = Array.from({ length: CELLS ** 2 }, (_, at) => middle(at % CELLS, Math.floor(at / CELLS)));
const across = (x) => LEFT + x * SIDE;
const up = (y) => TOP + (1 - y) * SIDE;

/** The arm that helps most. */
const best = (point) => {
  const all = chances(point);
  return all.indexOf(Math.max(...all));
};

const mean = (numbers) => numbers.reduce((sum, one) => sum + one, 0) / numbers.length;

/** How many the suggestions of a version help, of people spread evenly: known here because they are made up. */
export const valueOf = (published) => mean(everywhere.map((point) => chances(point)[published.at(point).arm]));
export const most = mean(everywhere.map((point) => Math.max(...chances(point))));
export const least = mean(everywhere.map((point) => mean(chances(point))));

/** Rectangles of neighbours in a row that are alike; `said` of a point gives attributes, or nothing. */
function rectangles(said) {
  const shapes = [];
  const size = SIDE / CELLS;
  for (let row = 0; row < CELLS; row++) {
    const names = Array.from({ length: CELLS }, (_, column) => said(middle(column, row)));
    for (let first = 0, end; first < CELLS; first = end) {
      for (end = first + 1; end < CELLS && names[end] === names[first]; ) end++;
      const box = { x: across(first / CELLS), y: up((row + 1) / CELLS), width: (end - first) * size, height: size };
      if (names[first]) shapes.push(drawn("rect", { class: names[first], ...box }));
    }
  }
  return shapes;
}

/** Numbers in the middle of each arm's places. */
function numbers(armAt) {
  return ARMS.map((_, arm) => {
    const own = everywhere.filter((point) => armAt(point) === arm);
    if (own.length < 20) return "";
    const [x, y] = [0, 1].map((j) => mean(own.map((point) => point[j])));
    const [near] = own.toSorted((a, b) => Math.hypot(a[0] - x, a[1] - y) - Math.hypot(b[0] - x, b[1] - y));
    return drawn("text", { class: "number", x: across(near[0]), y: up(near[1]) + 5 }, arm + 1);
  }).filter(Boolean);
}

function axes() {
  const text = (x, y, says, name) => drawn("text", { class: name, x, y }, says);
  return [
    ...[18, 36, 54, 72, 90].map((age) => text(across((age - 18) / 72), FULL - BOTTOM + 16, age, "mid")),
    text(across(0.5), FULL - 6, "age", "mid"),
    ...[3, 5, 7, 9].map((hours) => text(LEFT - 6, up((hours - 3) / 7) + 4, hours, "end")),
    text(4, 14, "hours of sleep", "start"),
  ];
}

function framed(svg, shapes) {
  svg.setAttribute("viewBox", `0 0 ${LEFT + SIDE + RIGHT} ${FULL}`);
  shown(svg, [...shapes, ...axes()]);
}

/** The suggestions of a version, and where its reader stands. */
export function drawArms(svg, published, me) {
  const armAt = (point) => published.at(point).arm;
  const [cx, cy] = [across(me[0]), up(me[1])];
  const ring = ["halo", "me"].map((name) => drawn("circle", { class: name, cx, cy, r: 8 }));
  framed(svg, [...rectangles((point) => `arm-${armAt(point)}`), ...numbers(armAt), ...ring]);
}

export const drawBest = (svg) => framed(svg, [...rectangles((point) => `arm-${best(point)}`), ...numbers(best)]);

/** The parts that a version asks about, and where signs are turned around. */
export function drawParts(svg, published) {
  const hatch = drawn("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse" });
  hatch.append(drawn("path", { class: "turned", d: "M0 6 L6 0" }));
  const shades = rectangles((point) => `part ${published.at(point).cell}`);
  for (const one of shades) {
    const part = Number(one.getAttribute("class").split(" ")[1]);
    one.setAttribute("class", "part");
    one.setAttribute("fill-opacity", 0.12 + (0.5 * (part + 1)) / published.cells);
  }
  const turned = rectangles((point) => (published.at(point).turned ? "hatched" : ""));
  for (const one of turned) one.setAttribute("fill", "url(#hatch)");
  framed(svg, [hatch, ...shades, ...turned]);
}

/** Of [reports, value] of versions, a line between chance and the best. */
export function drawLine(svg, versions) {
  const last = Math.max(2000, ...versions.map(([reports]) => reports));
  const height = (value) => TOP + SIDE * (1 - (value - 0.3) / 0.5);
  const points = versions.map(([reports, value]) => `${across(reports / last).toFixed(1)},${height(value).toFixed(1)}`);
  const rule = (value, says) => [
    drawn("line", { class: "rule", x1: LEFT, x2: LEFT + SIDE, y1: height(value), y2: height(value) }),
    drawn("text", { class: "end", x: LEFT + SIDE, y: height(value) - 5 }, says),
  ];
  svg.setAttribute("viewBox", `0 0 ${LEFT + SIDE + RIGHT} ${FULL}`);
  shown(svg, [
    ...rule(most, "the best"),
    ...rule(least, "chance"),
    drawn("polyline", { class: "learned", points: points.join(" ") }),
    drawn("circle", { class: "now", cx: points.at(-1).split(",")[0], cy: points.at(-1).split(",")[1], r: 4 }),
    ...[0.3, 0.4, 0.5, 0.6, 0.7, 0.8].map((value) =>
      drawn("text", { class: "end", x: LEFT - 6, y: height(value) + 4 }, `${(100 * value).toFixed(0)}%`),
    ),
    ...[0, 0.5, 1].map((part) =>
      drawn("text", { class: ["start", "mid", "end"][2 * part], x: across(part), y: FULL - BOTTOM + 16 },
        Math.round(part * last).toLocaleString("en")),
    ),
    drawn("text", { class: "mid", x: across(0.5), y: FULL - 6 }, "reports"),
  ]);
}
