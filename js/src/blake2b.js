/** BLAKE2b (RFC 7693) without a key: what contracts are named by. */
import { ONE, POINT, root } from "./fixed.js";

const IV = BigUint64Array.from([2n, 3n, 5n, 7n, 11n, 13n, 17n, 19n], (prime) => root(prime * ONE) >> (POINT - 64n));
const SIGMA =
  "0123456789abcdefea489fd61c02b753b8c052fdae3671947931dcbe265a40f8905724afe1bc683d" +
  "2c6a0b834d75fe19c51fed4a0763928bdb7ec13950f4862a6fe9b308c2d714a5a2847615fb9e3cd0";

/** The digest of `size` bytes of bytes. */
export function blake2b(bytes, size) {
  const h = IV.slice();
  h[0] ^= BigInt(0x01010000 ^ size);
  const blocks = Math.ceil(bytes.length / 128) || 1;
  const words = new DataView(new ArrayBuffer(128 * blocks));
  new Uint8Array(words.buffer).set(bytes);
  const v = new BigUint64Array(16); // whose arithmetic is that of 64 bits
  const turn = (at, by, bits) => {
    const both = v[at] ^ v[by];
    v[at] = (both >> bits) | (both << (64n - bits));
  };
  for (let block = 1; block <= blocks; block++) {
    v.set(h);
    v.set(IV, 8);
    v[12] ^= BigInt(Math.min(bytes.length, 128 * block));
    if (block === blocks) v[14] = ~v[14];
    for (let step = 0; step < 96; step++) {
      const [a, b, c, d] = [0, 1, 2, 3].map((row) => 4 * row + ((step + row * ((step >> 2) & 1)) & 3));
      const mix = (half, first, second) => {
        const word = parseInt(SIGMA[(2 * step + half) % 160], 16);
        v[a] += v[b] + words.getBigUint64(128 * block - 128 + 8 * word, true);
        turn(d, a, first);
        v[c] += v[d];
        turn(b, c, second);
      };
      mix(0, 32n, 24n);
      mix(1, 16n, 63n);
    }
    for (let at = 0; at < 8; at++) h[at] ^= v[at] ^ v[at + 8];
  }
  return new Uint8Array(h.buffer, 0, size);
}

/** The digest of a text's UTF-8. */
export const digestOf = (text, size) => blake2b(new TextEncoder().encode(text), size);

/** Bytes in hexadecimal. */
export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, 0)).join("");
