/**
 * The device, driven from outside: a line of JSON in, a line of JSON out. For tests that hold it against the
 * device in Python: random bytes come with each question, in place of the operating system's.
 */
import { createInterface } from "node:readline";
import { webcrypto } from "node:crypto";
import "../src/mechanisms.js";
import { blake2b, hex } from "../src/blake2b.js";
import { decided, grouped, pointOf, readContract, readPublished, shareOf } from "../src/contract.js";
import { draw, readSpec, readVersion, taskId } from "../src/histogram.js";
import { LOCAL } from "../src/local.js";
import { law } from "../src/law.js";
import { decide, read } from "../src/decide.js";

globalThis.crypto ??= webcrypto; // Node 18 has it under another name

const bytesOf = (text) => Uint8Array.from(text.match(/../g) ?? [], (byte) => parseInt(byte, 16));
const plain = (_, value) => (typeof value === "bigint" ? String(value) : value instanceof Uint8Array ? hex(value) : value);

/** Use these bytes for what is drawn by `work`, all of them. */
function given(random, work) {
  let left = bytesOf(random);
  const own = crypto.getRandomValues;
  crypto.getRandomValues = (array) => {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    if (left.length < bytes.length) throw new Error("more random bytes are drawn than were given");
    bytes.set(left.subarray(0, bytes.length));
    left = left.subarray(bytes.length);
    return array;
  };
  try {
    return { ...work(), left: left.length };
  } finally {
    crypto.getRandomValues = own;
  }
}

const ANSWERS = {
  /** Arm and report of a choice. */
  report({ spec, published, context, reward, available, epsilon, random }) {
    const contract = readContract(spec);
    const version = readPublished(published, contract);
    const kind = epsilon === undefined ? contract.classes.length - 1 : contract.classes.indexOf(epsilon);
    return given(random, () => {
      const choice = decided(contract, version, pointOf(contract, context), available, grouped(contract));
      return { arm: choice.label, report: LOCAL.draw(contract, kind, choice, shareOf(contract, reward)).bytes };
    });
  },
  /** Arm and bucket of a choice with two aggregators. */
  bucket({ spec, published, context, reward, available, random }) {
    const contract = readSpec(spec);
    const version = readVersion(published, contract);
    return given(random, () => {
      const choice = decided(contract, version, pointOf(contract, context), available);
      return { arm: choice.label, bucket: draw(contract, 0, choice, shareOf(contract, reward)).bucket };
    });
  },
  /** What follows from a spec of two aggregators. */
  async task({ spec, version }) {
    const { length, chunk, minBatch, versions, epsilon, reports, ...contract } = readSpec(spec);
    return { length, chunk, minBatch, versions, epsilon, reports, id: await taskId(contract, version) };
  },
  /** Fingerprint of a contract, and how many parts and cells it has. */
  contract({ spec }) {
    const { fingerprint, digest, parts, sizes } = readContract(spec);
    return { fingerprint, digest, parts, sizes };
  },
  /** Thresholds of a law. */
  law({ name, cells, epsilon }) {
    const { name: found, thresholds, entry } = law(name, cells, epsilon);
    return { name: found, thresholds, entry };
  },
  /** Number of actions of an exported policy that is read from a text. */
  read({ text }) {
    return { read: read(text).actions.length };
  },
  /** One payload from these bytes. */
  encode({ name, cells, epsilon, cell, positive, random }) {
    return given(random, () => ({ payload: law(name, cells, epsilon).encode(cell, positive) }));
  },
  digest: ({ bytes, size }) => ({ digest: blake2b(bytesOf(bytes), size) }),
  /** What an export decides for several people. */
  decide: ({ policy, contexts, draw }) => ({ arms: contexts.map((context) => decide(policy, context, draw)) }),
};

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const { what, ...asked } = JSON.parse(line);
    answer = await ANSWERS[what](asked);
  } catch (error) {
    answer = { refused: error.code ?? error.name, message: error.message };
  }
  console.log(JSON.stringify(answer, plain));
}
