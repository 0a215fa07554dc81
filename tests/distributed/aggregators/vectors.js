/**
 * Test vectors, written to the standard output: node vectors.js TASK > ../dap-09.json, where TASK is the id of the
 * task of the first version of the spec in test_dap.py, in hexadecimal digits.
 *
 * `prio3` has every message of VDAF-08 for three reports of a histogram of nine buckets, from the unmodified
 * `@divviup/prio3` with fixed random bytes. `report` is a report of DAP-09 as `@divviup/dap` uploads it, with the keys
 * that open it. `collection` is a leader's answer to the collector, with the collector's key. Sealing draws random
 * bytes, so that a new run writes other ciphertexts.
 */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { Task } from "@divviup/dap";
import * as messages from "./messages.js";

const drawn = (name, length) => createHash("shake256", { outputLength: length }).update(name).digest();
const [LENGTH, CHUNK, BUCKETS] = [9, 3, [0, 4, 8]];
const vdaf = messages.histogram({ length: LENGTH, chunk: CHUNK });
const prio3 = await vdaf.run({
  aggregationParameter: null,
  verifyKey: drawn("verify", vdaf.verifyKeySize),
  measurements: BUCKETS,
  nonces: BUCKETS.map((bucket) => drawn(`nonce ${bucket}`, 16)),
  rands: BUCKETS.map((bucket) => drawn(`random ${bucket}`, vdaf.randSize)),
});

async function keys(name) {
  const { publicKey, privateKey } = await messages.suite.kem.deriveKeyPair(drawn(name, 32));
  const raw = async (key) => Buffer.from(await messages.suite.kem.serializePrivateKey(key));
  return { public: Buffer.from(await messages.suite.kem.serializePublicKey(publicKey)), private: await raw(privateKey) };
}

const [leader, helper, collector] = await Promise.all(["leader", "helper", "collector"].map(keys));
const taskId = Buffer.from(process.argv[2], "hex");
const task = new Task({
  type: "histogram",
  id: taskId,
  leader: "https://leader.example/",
  helper: "https://helper.example/",
  length: LENGTH,
  chunkLength: CHUNK,
  timePrecisionSeconds: 2 ** 32,
});
task.fetch = async (address) => {
  const key = address.startsWith("https://leader") ? leader.public : helper.public;
  const config = Buffer.concat([Buffer.of(1, 0, 0x20, 0, 1, 0, 1), messages.opaque(key, 2)]);
  const headers = { "Content-Type": "application/dap-hpke-config-list" };
  return new Response(messages.opaque(config, 2), { headers });
};
const report = (await task.generateReport(4)).encode();

const hex = (bytes) => Buffer.from(bytes).toString("hex");
const interval = Buffer.from("00000000000000000000000100000000", "hex");
const aad = Buffer.concat([taskId, Buffer.alloc(4), Buffer.of(1), interval]);
const shares = await Promise.all(
  prio3.agg_shares.map(async (share, index) => {
    const info = Buffer.concat([Buffer.from("dap-09 aggregate share"), Buffer.of(2 + index, 0)]);
    return messages.sealedBytes(await messages.seal(collector.public, info, Buffer.from(share, "hex"), aad, 0));
  }),
);
const collection = Buffer.concat([Buffer.of(1), Buffer.from("0000000000000003", "hex"), interval, ...shares]);
console.log(
  JSON.stringify(
    {
      length: LENGTH,
      chunk: CHUNK,
      prio3,
      report: { task: hex(taskId), leader: hex(leader.private), helper: hex(helper.private), bucket: 4, bytes: hex(report) },
      collection: { task: hex(taskId), collector: hex(collector.private), bytes: hex(collection) },
    },
    null,
    1,
  ),
);
