/** Random words, and nothing else that is random: 64 bits of the operating system's generator each. */

/** How many words there are. */
export const WORD = 1n << 64n;

const MOST_AT_ONCE = 8192; // crypto.getRandomValues takes 65,536 bytes

/** n independent uniform words. No argument replaces their source. */
export function words(n) {
  const drawn = new BigUint64Array(n);
  for (let at = 0; at < n; at += MOST_AT_ONCE) {
    crypto.getRandomValues(drawn.subarray(at, at + MOST_AT_ONCE));
  }
  return drawn;
}

/** One word. */
export const word = () => words(1)[0];

/** A uniform integer below n, a BigInt: words past the last multiple of n are drawn again. */
export function below(n) {
  for (;;) {
    const drawn = word();
    if (drawn < (WORD / n) * n) return drawn % n;
  }
}
