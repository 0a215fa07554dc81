/** The made-up people of this demonstration: how likely each suggestion helps whom. The server is not told. */

/** Arms, as the contract names them. */
export const ARMS = ["walk", "nap", "music"];

const rising = (x) => 1 / (1 + Math.exp(-12 * x));

/** [walk, nap, music] help a person with these probabilities; age and sleep as shares of their ranges. */
export function chances([age, sleep]) {
  const awake = rising(sleep - 0.4);
  return [awake * rising(0.55 - age), 1 - awake, awake * rising(age - 0.55)].map((x) => 0.1 + 0.8 * x);
}

/** Three uniform numbers from the browser's generator. */
export const uniforms = () => Array.from(crypto.getRandomValues(new Uint32Array(3)), (one) => one / 2 ** 32);
