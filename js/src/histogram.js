/**
 * Two aggregators: what a spec and a version say, and one report of a public histogram. `distributed.js` sends it.
 */
import { digestOf, hex } from "./blake2b.js";
import { isCount, product, reading, sound } from "./contract.js";
import { expect } from "./refused.js";
import { word, words } from "./words.js";

export const DURATION = 2 ** 32; // seconds: every report carries time zero
const [FEWEST_CELLS, MOST_CELLS, MOST_ALLOWED, FEWEST_PARTS] = [16, 300, 1024, 5]; // as in Python's DistributedSpec

/** The contract of a spec's text: what a report is, and how many there are. */
export const readSpec = (text, { leader, helper, deadline } = {}) =>
  reading("contract", text, ({ kind, format, contexts, arms, privacy, horizon, reward_range, tuning }) => {
    expect(kind === "DistributedSpec" && format === 1, "not offered", `contract ${kind}`);
    const { columns } = contexts;
    const unknown = columns.find(({ type }) => !["Range", "Categories"].includes(type));
    expect(!unknown, "not offered", `column ${unknown?.type}`);
    const { epsilon, reports_per_user: reports } = privacy;
    const { low, high } = reward_range;
    const good =
      privacy.kind === "DistributedDP" &&
      epsilon > 0 &&
      isCount(reports - 1, Infinity) &&
      isCount(arms.length - 1, 255) &&
      low < high &&
      columns.every(({ low, high, values }) => (values ? values.length : low < high));
    sound(good);
    const sizes = gridSizes(columns, arms.length, epsilon / reports, horizon, tuning.cells);
    const length = 2 * product(sizes) + 1;
    sound(length <= 2 * MOST_ALLOWED + 1);
    const digest = hex(digestOf(text, 32));
    return {
      spec: { arms, chooser: "server" },
      columns, low, high, sizes, length, reports, leader, helper, digest,
      epsilon, minBatch: tuning.min_batch,
      chunk: Math.floor(Math.sqrt(length)),
      versions: versionsOf(horizon, tuning),
      // shares of epsilon are rounded down, so that a budget of epsilon covers all of them
      classes: [reports > 1 ? (epsilon / reports) * (1 - 2 ** -52) : epsilon],
      fingerprint: [digest, leader, helper].join(" "), // an account keeps to its aggregators too
      deadline: 1000 * deadline,
    };
  });

/** Cells along every column: one a category, and as many for each range as horizon and epsilon allow. */
function gridSizes(columns, arms, epsilon, horizon, cells) {
  const own = product(columns.map(({ values }) => values?.length ?? 1));
  const ranges = columns.filter(({ values }) => !values).length;
  const all = cells ?? MOST_CELLS;
  const least = arms * columns.reduce((sum, { values }) => sum + (values?.length ?? 2), 0); // places of tables
  const coarse = own * 2 ** ranges <= all && (columns.length <= 2 || least > all);
  expect(coarse || own * FEWEST_PARTS ** ranges <= all, "not offered", "marginal tables");
  const room = Math.floor(all / own);
  const usual = (0.8 * epsilon * Math.sqrt(horizon)) / own ** (1 / 3);
  const most = cells === null ? Math.min(Math.max(usual, FEWEST_CELLS), room) : room;
  const side = Math.max(2, Math.floor(most ** (1 / ranges) + 1e-9));
  return columns.map(({ values }) => values?.length ?? side);
}

/** Number of versions that devices report on. Halves are rounded to even numbers, as in Python. */
function versionsOf(horizon, { first, growth, min_batch }) {
  let count = 0;
  for (let size = Math.max(first * horizon, min_batch), left = horizon; left > 0; size *= growth, count++) {
    const whole = Math.floor(size);
    const up = size - whole > 0.5 || (size - whole === 0.5 && whole % 2);
    left -= left < 2 * size ? left : Math.max(1, whole + Number(up));
  }
  return count;
}

/** A published version: one arm a cell. */
export const readVersion = (text, { spec, digest, sizes }) =>
  reading("version", text, ({ kind, spec: of, version, arms }) => {
    expect(of === digest, "pinned", "another contract");
    const cells = product(sizes);
    const good = kind === "PublishedCellArms" && isCount(version, 2 ** 32 - 1) && arms.length === cells;
    sound(good && arms.every((arm) => isCount(arm, spec.arms.length - 1)));
    const place = (x, size) => Math.min(Math.floor(x * size), size - 1);
    const at = (point) => {
      const cell = sizes.reduce((cell, size, j) => cell * size + place(point[j], size), 0);
      return { arm: arms[cell], cell };
    };
    return { text, version, silent: false, cells, at };
  });

/**
 * The report of a choice: its id, its version and one bucket, which is raw data. Success has the probability of the
 * reward's share of its range; the last bucket is that of a device with nothing to say. All reports draw the same words.
 */
export function draw({ length }, _, { version, cell, blind }, share) {
  const bytes = new Uint8Array(words(2).buffer);
  const success = word() < (share ?? 0) * 2 ** 64;
  return { bytes, version, bucket: blind || share === null ? length - 1 : 2 * cell + Number(!success) };
}

/** Id of a version's task, in the base64 of URLs: it depends on the spec and the version alone. */
export async function taskId({ digest }, version) {
  const text = new TextEncoder().encode(`dpbandits dap-09 task ${digest} ${version}`);
  const id = new Uint8Array(await crypto.subtle.digest("SHA-256", text));
  return btoa(String.fromCharCode(...id)).replace(/[+/=]/g, (one) => ({ "+": "-", "/": "_" })[one] ?? "");
}
