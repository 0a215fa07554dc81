/**
 * What a device is told: the contract and a published version, read and checked, and what they say of a person.
 *
 * Contexts are never refused: numbers outside are clipped, what cannot be read is missing.
 */
import { digestOf, hex } from "./blake2b.js";
import { law, nearest, offers } from "./law.js";
import { Refused, expect } from "./refused.js";
import { word } from "./words.js";

/** The mechanism of a readout's bit. */
export const BIT = "krr";

const PARTS = [1, 2, 4, 8, 16];
const GAPS = /^\s*(|<na>|n(an?|at|one|ull))\s*$/i;

const isNumber = Number.isFinite; // of anything else it is false
export const isCount = (x, most) => Number.isInteger(x) && x >= 0 && x <= most;
export const product = (sizes) => sizes.reduce((a, b) => a * b, 1);

/** Read JSON; whatever is wrong with it is one refusal. */
export function reading(what, text, read) {
  try {
    return read(JSON.parse(text));
  } catch (error) {
    throw error instanceof Refused ? error : new Refused("malformed", what);
  }
}

/** What does not hold of what is read makes it malformed. */
export function sound(good) {
  if (!good) throw new TypeError();
}

/** The contract of a text, what its tuning says among the rest; digests are of the text as it came. */
export const readContract = (text) =>
  reading("contract", text, (told) => (told.kind === "ReadoutSpec" ? readoutOf(told, text) : contractOf(told, text)));

function contractOf(told, text) {
  const spec = { ...told, ...told.tuning };
  const { kind, format, contexts, arms, actions, privacy, reward_range, epsilons, mechanism, constants } = spec;
  const { low, high } = reward_range;
  const { epsilon } = privacy;
  const classes = epsilons.length ? epsilons : [epsilon];
  const columns = contexts.columns ?? contexts.low.map((low, j) => ({ low, high: contexts.high[j] }));
  const unknown = contexts.columns?.find(({ type }) => !["Range", "Categories"].includes(type));
  for (const [good, what] of [
    [kind === "Spec" && format === 1, `contract ${kind}`],
    [offers(mechanism), `mechanism ${mechanism}`],
    [!unknown, `column ${unknown?.type}`],
    [!(actions?.schema.columns.length > 1), "actions of several columns"],
  ]) {
    expect(good, "not offered", what);
  }
  const good =
    Array.isArray(arms) &&
    isCount(arms.length - 1, 255) &&
    privacy.kind === "LocalDP" &&
    ["server", "client"].includes(spec.chooser) &&
    isCount(spec.max_leaves, 65536) &&
    low < high &&
    classes.length <= 64 &&
    classes.every((one, at) => isNumber(one) && !(one <= classes[at - 1])) &&
    classes.at(-1) === epsilon &&
    spec.deadline > 0 &&
    columns.every(({ low, high, values }) => (values ? values.length : isNumber(high - low) && low < high));
  sound(good);
  const contract = {
    spec, columns, classes, low, high,
    seed: [...text.matchAll(/"seed": (\d+)/g)].at(-1)[1], // of the target in a readout
    digest: digestOf(text, 4),
    fingerprint: hex(digestOf(text, 32)),
    deadline: 1000 * spec.deadline,
  };
  if (spec.learner === "questions") {
    contract.sizes = gridSizes(columns);
    sound(spec.chooser === "server" && (contract.sizes || (columns.length <= 64 && (actions || arms.length <= 12))));
    contract.parts = constants.parts ?? nearest(PARTS.map((size) => law(mechanism, size, epsilon))).cells;
  }
  return contract;
}

/** A readout: the target's contract, with bounds, epsilon and digests of its own. */
function readoutOf(told, text) {
  const { format, target, policy, control, privacy, share, reward_range, missing, deadline } = told;
  const { low, high } = reward_range;
  const contract = contractOf(target, text);
  const arm = contract.spec.arms.findIndex((label) => same(label, control));
  expect(format === 1, "not offered", "contract ReadoutSpec");
  const good = privacy.kind === "LocalDP" && 0 < share && share < 1 && low <= missing && missing <= high && low < high;
  sound(good && arm >= 0 && deadline > 0 && law(BIT, 1, privacy.epsilon));
  const readout = { arm, policy, below: BigInt(Math.round(share * 2 ** 64)), missing: (missing - low) / (high - low) };
  return { ...contract, low, high, readout, classes: [privacy.epsilon], deadline: 1000 * deadline };
}

/** Cells of the grid along every column: one a category, and what room is left for ranges; none where versions name
 * their columns. */
function gridSizes(columns) {
  const ranges = columns.filter(({ values }) => !values).length;
  const room = Math.floor(1400 / product(columns.map(({ values }) => values?.length ?? 1)));
  const side = Math.min(64, Math.floor(room ** (1 / ranges) + 1e-9));
  return room && (!ranges || side >= (columns.length > 3 ? 10 : 6)) ? columns.map(({ values }) => values?.length ?? side) : null;
}

/** The published version of a text, for this contract: `at(point)` says what is published there. */
export const readPublished = (text, contract) => {
  return reading("version", text, (found) => {
    const { spec, kind, version, about } = found;
    const { digest, parts, classes, readout } = contract;
    expect(spec === hex(digest), "pinned", "another contract");
    sound(kind === (parts ? "PublishedQuestions" : "PublishedArms") && isCount(version, 2 ** 32 - 1));
    const told = (parts ? table : bins)(found, contract);
    const { kind: _, spec: __, ...own } = found;
    if (readout) expect(JSON.stringify(own) === JSON.stringify(readout.policy), "pinned", "another policy");
    else sound(classes.every((one) => law(contract.spec.mechanism, told.cells, one))); // else a choice has no report
    return { text, version, silent: about === "place", ...told };
  });
};

function bins({ splits, arms, weights }, { spec, columns, seed }) {
  const nodes = [columns.map(() => [0, 1])];
  const inner = new Map();
  for (const node of splits) {
    const box = nodes[node];
    const edges = box.map(([low, high]) => high - low);
    const longest = [...edges.keys()].filter((j) => edges[j] === Math.max(...edges));
    const column = longest[spec.learner === "ma2025-printed" ? keyed(`${seed}|split|${node}`, longest.length) : 0];
    const [low, high] = box[column];
    const middle = (low + high) / 2;
    sound(!inner.has(node) && low < middle && middle < high);
    inner.set(node, { first: nodes.length, column, middle });
    for (const half of [[low, middle], [middle, high]]) nodes.push(box.map((edge, j) => (j === column ? half : edge)));
  }
  const leaves = [...nodes.keys()].filter((node) => !inner.has(node));
  const client = spec.chooser === "client";
  const count = spec.arms.length;
  const good =
    leaves.length <= spec.max_leaves &&
    (client ? weights : arms).length === leaves.length &&
    (client
      ? weights.every((row) => row.length === count && row.every((p) => isNumber(p) && p >= 0) && row.some(Boolean))
      : arms.every((arm) => isCount(arm, count - 1)));
  sound(good);
  return {
    cells: leaves.length * (client ? count : 1),
    at(point) {
      let node = 0;
      for (let split; (split = inner.get(node)); ) node = split.first + (point[split.column] >= split.middle);
      const place = leaves.indexOf(node);
      return { arm: arms?.[place], chances: weights?.[place], cell: place };
    },
  };
}

const keyed = (text, n) => Number(new DataView(digestOf(text, 8).buffer).getBigUint64(0, true) % BigInt(n));

function table({ about, bits: [armBits, partBits], size, table, columns: some }, { sizes, columns, parts, spec }) {
  const over = sizes ? [...sizes.keys()] : some;
  const along = sizes ?? over.map((j) => columns[j].values?.length ?? 8);
  sound(sizes ? !some?.length : size <= 1400 && over.length && over.every((j, at) => isCount(j, 63) && !(j <= over[at - 1])));
  const width = armBits + partBits + 1;
  const bytes = Uint8Array.from(atob(table), (one) => one.charCodeAt(0));
  sound(bytes.length === Math.ceil((size * width) / 8) && size === product(along));
  const numbered = [...bytes].reverse().reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  const codes = Array.from({ length: size }, (_, cell) =>
    Number((numbered >> BigInt(cell * width)) & BigInt(2 ** width - 1)),
  );
  const cells = codes.map((code) => ({
    arm: (code >> 1) & (2 ** armBits - 1),
    turned: code & 1,
    cell: code >> (armBits + 1),
  }));
  const good =
    ["reward", "place"].includes(about) &&
    isCount(armBits, 8) &&
    isCount(partBits, 4) &&
    !(numbered >> BigInt(size * width)) &&
    cells.every(({ arm, cell }) => arm < spec.arms.length && cell < parts);
  sound(good);
  const place = (x, size) => Math.min(Math.floor(x * size), size - 1);
  return { cells: parts, at: (point) => cells[over.reduce((cell, j, at) => cell * along[at] + place(point[j], along[at]), 0)] };
}

/** Whether two labels or categories are equal, as Python's are: 1 is true. */
const same = (a, b) => plain(a) === plain(b);
const plain = (x) => (typeof x === "boolean" ? Number(x) : x);

/** Where a context lies in the unit cube; null for what cannot be read, whatever it is. */
export function pointOf({ columns }, context) {
  try {
    const listed = Array.isArray(context);
    const point = columns.map((column, j) => placeOf(column, listed ? context[j] : context[column.name]));
    return (listed && context.length !== columns.length) || point.some(Number.isNaN) ? null : point;
  } catch {
    return null;
  }
}

function placeOf({ name, low, high, values, missing }, value) {
  const gap = value == null || value !== value || (typeof value === "string" && GAPS.test(value));
  if (name !== undefined && gap && !values?.includes(value)) value = missing;
  if (values) {
    const code = values.findIndex((one) => same(one, value));
    return code < 0 ? NaN : (code + 0.5) / values.length;
  }
  if (typeof value !== "number" || (name !== undefined && !isNumber(value))) return NaN;
  return (Math.min(Math.max(value, low), high) - low) / (high - low);
}

/** An arm with probability proportional to its public chances. */
function drawn(chances) {
  let total = 0;
  const sums = chances.map((chance) => (total += chance));
  const share = Number(word() >> 11n) * 2 ** -53 * total;
  const found = sums.findIndex((sum) => share < sum);
  return found < 0 ? chances.findLastIndex((chance) => chance > 0) : found;
}

/** What a version says to a person: the arm, and what a report will be about. A readout has its `group`: 0 is control. */
export function decided({ spec, columns, readout }, published, point, available, group) {
  const { arms } = spec;
  const { version, silent, cells, at } = published;
  const found = at(point ?? columns.map(() => 0.5));
  let chances = found.chances ?? arms.map(() => 1);
  let arm = found.arm ?? drawn(chances);
  if (group === 0) [arm, chances] = [readout.arm, arms.map(() => 1)];
  let blind = point === null;
  const codes = listOf(available ?? arms).map((one) => arms.findIndex((label) => same(label, one)));
  if (!codes.length || codes.includes(-1)) blind = true;
  else if (!codes.includes(arm)) {
    const rest = chances.map((chance, k) => (codes.includes(k) ? chance : 0));
    arm = drawn(rest.some(Boolean) ? rest : rest.map((_, k) => Number(codes.includes(k))));
    blind = true;
  }
  const cell = spec.chooser === "client" ? found.cell * arms.length + arm : found.cell;
  return { version, label: arms[arm], cell, cells, turned: Boolean(found.turned), silent, blind, group };
}

/** The group of a choice, by a coin of its own; none without a readout. */
export const grouped = ({ readout }) => (readout ? Number(word() >= readout.below) : undefined);

/** What can be listed, as a list; nothing for all else. */
function listOf(available) {
  try {
    return typeof available === "string" ? [] : [...available];
  } catch {
    return [];
  }
}

/** A reward's share of its range; null for what is no number. */
export function shareOf({ low, high }, reward) {
  const number = plain(reward);
  if (typeof number !== "number" || number !== number) return null;
  return (Math.min(Math.max(number, low), high) - low) / (high - low);
}
