/**
 * The mechanisms that no contract has unless its author asks for them by name: `oue`, `hadamard`, `laplace` and
 * `paper-laplace`. Importing this module offers them; without it they are refused.
 */
import { ONE, exp, over } from "./fixed.js";
import { LAWS, NEAR, SAME, category, coded, lattice, packed, share } from "./law.js";
import { expect } from "./refused.js";
import { WORD, words } from "./words.js";

const TAIL = 1e-9;
const LARGEST_ENTRY = 32767;
const TRIALS = 8;

/** Whether an odd number of bits is set. */
function odd(bits) {
  let parity = false;
  for (; bits; bits &= bits - 1) parity = !parity;
  return parity;
}

/** Laplace noise on two numbers a cell; `truth` of a sign, `sensitivity` of both together. */
function laplace(sensitivity, truth, readout) {
  return (n, x) => {
    const alpha = lattice(over(ONE, exp(x / BigInt(sensitivity)))) + 1n;
    const a = share(alpha);
    const farthest = Math.log((2 * n) / TAIL) / -Math.log(a);
    expect(Math.abs(farthest - Math.round(farthest)) > SAME * farthest, "law", NEAR);
    const entry = Math.max(...truth(true)) + Math.ceil(farthest);
    expect(entry <= LARGEST_ENTRY, "law", "the noise does not fit into entries of 16 bits");
    const noise = (readout * 2 * a) / (1 - a) ** 2;
    const geometric = (size) => {
      const values = new Int32Array(size);
      for (let open = [...values.keys()]; open.length; ) {
        const drawn = words(TRIALS * open.length);
        open = open.filter((which, at) => {
          let heads = 0;
          while (heads < TRIALS && drawn[TRIALS * at + heads] < alpha) heads += 1;
          values[which] += heads;
          return heads === TRIALS;
        });
      }
      return values;
    };
    const power = BigInt(sensitivity);
    return {
      thresholds: { alpha },
      odds: [[WORD ** power, alpha ** power]],
      own: 1 + noise,
      other: noise,
      entry,
      encode(cell, positive) {
        const drawn = geometric(4 * n);
        const own = truth(positive);
        const bytes = new DataView(new ArrayBuffer(4 * n));
        for (let at = 0; at < 2 * n; at++) {
          const mine = at >> 1 === cell ? own[at & 1] : 0;
          const value = drawn[at] - drawn[2 * n + at] + mine;
          bytes.setInt16(2 * at, Math.max(-entry, Math.min(entry, value)), true);
        }
        return new Uint8Array(bytes.buffer);
      },
    };
  };
}

Object.assign(LAWS, {
  oue(n, x) {
    const q = lattice(over(ONE, exp(x) + ONE)) + 1n;
    const [p, other] = [0.5, share(q)];
    return {
      thresholds: { q },
      odds: [[WORD - q, q]],
      own: (p + other - 2 * p * other) / (p - other) ** 2,
      other: (2 * other * (1 - other)) / (p - other) ** 2,
      encode(cell, positive) {
        const own = category(cell, positive);
        return packed(Array.from(words(2 * n), (drawn, at) => drawn < (at === own ? WORD / 2n : q)));
      },
    };
  },

  hadamard(n, x) {
    const raised = exp(x);
    const side = lattice(over(raised, raised + ONE));
    const order = 2 ** (2 * n + 1).toString(2).length;
    const second = 2 / (2 * share(side) - 1) ** 2;
    return {
      thresholds: { side },
      odds: [[side, WORD - side]],
      own: second,
      other: second,
      encode(cell, positive) {
        const row = 2 + category(cell, positive);
        const [which, drawn] = words(2);
        const index = Number(drawn & BigInt(order - 1));
        const wrong = odd(row & index) !== which >= side;
        return coded(index ^ (wrong ? row & -row : 0), order - 1);
      },
    };
  },
  laplace: laplace(2, (positive) => (positive ? [1, 0] : [0, 1]), 2),
  "paper-laplace": laplace(4, (positive) => [1, positive ? 1 : 0], 5),
});
