/** Numbers with 256 bits after the point, as integers: what probabilities and constants are found with. */

export const POINT = 256n;
export const ONE = 1n << POINT;

export const times = (a, b) => (a * b) >> POINT;
export const over = (a, b) => (a << POINT) / b;

/** e^x from below, by its series; x at least 0. */
export function exp(x) {
  let sum = ONE;
  for (let n = 1n, term = x; term; n += 1n, term = times(term, x) / n) sum += term;
  return sum;
}

/** The root of x, from below, by Newton's steps from above. */
export function root(x) {
  for (let found = x + ONE, next; ; found = next) {
    next = (found + over(x, found)) >> 1n;
    if (next >= found) return found;
  }
}
