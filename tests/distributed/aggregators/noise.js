/**
 * Exact discrete Laplace noise, P(j) proportional to exp(-rate |j|), for a rational rate: integers and random
 * bytes alone, after Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020), algorithm 2.
 */
import { randomBytes } from "node:crypto";

/** A uniform integer from 0 to `bound` - 1. */
function below(bound) {
  const bits = (bound - 1n).toString(2).length;
  for (;;) {
    const drawn = BigInt(`0x${randomBytes(Math.ceil(bits / 8)).toString("hex")}`) & ((1n << BigInt(bits)) - 1n);
    if (drawn < bound) return drawn;
  }
}

/** True with probability exp(-over / under), for 0 <= over <= under. */
function expMinus(over, under) {
  let k = 1n;
  while (below(under * k) < over) k += 1n; // the k-th coin is true with probability over / (under k)
  return k % 2n === 1n;
}

/** One draw at the rate `over / under`, both of them positive. */
export function discreteLaplace(over, under) {
  for (;;) {
    const rest = below(under);
    if (!expMinus(rest, under)) continue;
    let whole = 0n;
    while (expMinus(1n, 1n)) whole += 1n;
    const size = (rest + under * whole) / over;
    const negative = below(2n) === 1n;
    if (size !== 0n || !negative) return negative ? -size : size;
  }
}

/** The rate of an aggregator's noise, [over, under]: the largest double below epsilon / (2 k), as in Python. */
export function rateOf(epsilon, reports) {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, epsilon / (2 * reports));
  bits.setBigUint64(0, bits.getBigUint64(0) - 1n);
  let [over, under] = [bits.getFloat64(0), 1n];
  for (; over % 1; under *= 2n) over *= 2;
  return [BigInt(over), under];
}
