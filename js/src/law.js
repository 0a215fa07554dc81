/**
 * The laws of reports: integer thresholds over 2^64, and what is drawn by them.
 *
 * Thresholds are those of real numbers, rounded down, found with 256 bits after the point. A float decides
 * nothing here that a probability rests on; variances are compared where `auto` names one of two public
 * laws, and are refused where they are too near to call.
 */
import { ONE, POINT, exp, over, root, times } from "./fixed.js";
import { expect } from "./refused.js";
import { WORD, below, word, words } from "./words.js";

const DOUBT = 1n << 96n; // far above what roundings below add up to, far below a 2^-64th
const SLACK = 1 - 1e-9;
const MOST_CELLS = 1 << 20;
export const SAME = 1e-12;
export const NEAR = "too near to call";

const exact = (x) => BigInt(x * 2 ** 120) << (POINT - 120n); // no bit of a number from 1e-7 on is lost
export const share = (threshold) => Number(threshold) / 2 ** 64;

/** Of a probability, its floor in 2^-64ths. */
export function lattice(probability) {
  const low = (probability - DOUBT) >> (POINT - 64n);
  expect(low === (probability + DOUBT) >> (POINT - 64n), "law", NEAR);
  return low;
}

/** Bits as bytes, the first bit highest. */
export function packed(bits) {
  const bytes = new Uint8Array(Math.ceil(bits.length / 8));
  bits.forEach((bit, at) => {
    if (bit) bytes[at >> 3] |= 128 >> (at & 7);
  });
  return bytes;
}

/** An integer in as few bytes as hold the largest of its kind, lowest first. */
export function coded(code, most) {
  const bytes = [];
  for (; most; most >>= 8, code >>= 8) bytes.push(code & 255);
  return Uint8Array.from(bytes);
}

export const category = (cell, positive) => 2 * cell + (positive ? 0 : 1);

/**
 * Name -> (cells n, epsilon x in 2^-256ths) -> the law: `odds`, the largest ratios of likelihoods; `own` and
 * `other`, second moments of a cell's signed sum a report. Further ones may be added, as mechanisms.js does.
 */
export const LAWS = {
  signed(n, x) {
    const raised = exp(x);
    const grown = raised - ONE;
    const cells = BigInt(n);
    const wide = root(over(2n * cells * ONE + grown + 2n * ONE, 2n * cells * times(grown, grown)));
    const theta = wide < (2n * ONE) / 5n ? wide : (2n * ONE) / 5n;
    const whole = ONE + times(grown, theta);
    const thresholds = {
      same: lattice(over(times(raised, theta), whole)),
      opposite: lattice(over(theta, whole)),
      theta: lattice(theta),
    };
    const { same, opposite, theta: t } = thresholds;
    const mine = [same, opposite, WORD - same - opposite];
    const theirs = [t, t, WORD - 2n * t];
    const pairs = mine.flatMap((p, i) => mine.map((q, j) => [p * theirs[j], q * theirs[i]]));
    const [a, b] = [share(same), share(opposite)];
    return {
      thresholds,
      odds: [[same, opposite], [opposite, same], ...(n > 1 ? pairs : [])],
      own: (a + b) / (a - b) ** 2,
      other: (2 * share(t)) / (a - b) ** 2,
      encode(cell, positive) {
        const signs = Array.from(words(n), (drawn, at) => {
          if (at === cell) return drawn < same ? (positive ? 1 : -1) : drawn < same + opposite ? (positive ? -1 : 1) : 0;
          return drawn < t ? 1 : drawn < 2n * t ? -1 : 0;
        });
        return joined(packed(signs), packed(signs.map((sign) => sign < 0)));
      },
    };
  },

  krr(n, x) {
    const raised = exp(x);
    const others = BigInt(2 * n - 1);
    const keep = lattice(over(raised, raised + others * ONE));
    const p = share(keep);
    const q = (1 - p) / (2 * n - 1);
    return {
      thresholds: { keep },
      odds: [[keep * others, WORD - keep], [WORD - keep, keep * others]],
      own: (p + q) / (p - q) ** 2,
      other: (2 * q) / (p - q) ** 2,
      encode(cell, positive) {
        const truth = category(cell, positive);
        const lies = word() >= keep;
        const other = Number(below(others));
        return coded([truth, other + (other >= truth)][Number(lies)], 2 * n - 1);
      },
    };
  },
};

/** Bytes after one another. */
export function joined(...parts) {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((at, part) => (bytes.set(part, at), at + part.length), 0);
  return bytes;
}

/** Whether this device offers a mechanism. */
export const offers = (name) => name === "auto" || Object.hasOwn(LAWS, name);

/** The law of reports in n cells: `encode(cell, positive)`, integer `thresholds`, `variance` of a cell's sum. */
export function law(name, n, epsilon) {
  if (name === "auto") return nearest([law("signed", n, epsilon), law("krr", n, epsilon)]);
  expect(offers(name), "not offered", `mechanism ${name}`);
  expect(epsilon >= 1e-6 && epsilon <= 16 && n >= 1 && n <= MOST_CELLS, "law", "epsilon");
  const found = LAWS[name](n, exact(epsilon * SLACK));
  const most = exp(exact(epsilon));
  expect(found.odds.every(([p, q]) => p << POINT <= q * most), "law", name);
  return { name, cells: n, variance: (found.own + (n - 1) * found.other) / n, ...found };
}

/** The law of least variance, the first of equals; refused where two are too near to call. */
export function nearest(laws) {
  const best = laws.reduce((one, other) => (other.variance < one.variance ? other : one));
  for (const { variance } of laws) {
    const apart = Math.abs(variance - best.variance);
    expect(apart === 0 || apart > SAME * variance, "law", NEAR);
  }
  return best;
}
