/**
 * What a report costs a device: node measure.js [CELLS]     It fails beyond the limits, which are for 64 cells.
 *
 * Time is the processor time of a report, which is split, proved and encrypted: the mean of 100 after 20 others, with its
 * standard error. Other processes on the machine lengthen it less than they lengthen the time of a clock.
 */
import { Buffer } from "node:buffer";
import { gzipSync } from "node:zlib";
import { buildSync } from "esbuild";
import * as messages from "./messages.js";
import { sender } from "./sender.js";

const LIMITS = { milliseconds: 20, bytes: 4000, bundle: 50_000 };
const cells = Number(process.argv[2] ?? 64);
const length = 2 * cells + 1;
const addresses = { leader: "https://leader.example", helper: "https://helper.example" };
const task = sender({ id: Buffer.alloc(32, 1), length, chunk: Math.floor(Math.sqrt(length)), duration: 2 ** 32, ...addresses });
const pair = await messages.suite.kem.generateKeyPair();
const key = Buffer.from(await messages.suite.kem.serializePublicKey(pair.publicKey));
const config = Buffer.concat([Buffer.of(1, 0, 0x20, 0, 1, 0, 1), messages.opaque(key, 2)]);
const headers = { "Content-Type": "application/dap-hpke-config-list" };
task.fetch = async () => new Response(messages.opaque(config, 2), { headers });

const times = [];
let bytes = 0;
for (let count = 0; count < 120; count += 1) {
  const begun = process.cpuUsage();
  bytes = (await task.generateReport(count % length)).encode().length;
  const { user, system } = process.cpuUsage(begun);
  if (count >= 20) times.push((user + system) / 1000);
}
const mean = times.reduce((sum, one) => sum + one, 0) / times.length;
const variance = times.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (times.length - 1);
const options = { bundle: true, minify: true, format: "esm", target: "es2022", platform: "browser", write: false };
// Node's crypto is a fallback that browsers never load
const device = { entryPoints: ["../../../js/src/distributed.js"], nodePaths: ["node_modules"] };
const entry = { ...device, mainFields: ["module", "main"], external: ["crypto"] };
const [script] = buildSync({ ...options, ...entry }).outputFiles;
const found = { milliseconds: mean, error: Math.sqrt(variance / times.length), bytes, bundle: gzipSync(script.contents, { level: 9 }).length };
console.log(JSON.stringify({ cells, repetitions: times.length, ...found }));
if (cells === 64) for (const [name, limit] of Object.entries(LIMITS)) if (found[name] > limit) throw new Error(`${name}: more than ${limit}`);
