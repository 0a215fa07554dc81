/** A device that cheats, for tests: node forger.js TASK sends three forged reports, an honest one twice, and two that are refused. */
import { Buffer } from "node:buffer";
import { sender } from "./sender.js";

const task = JSON.parse(process.argv[2]);
const put = async (body) => (await fetch(new URL(`tasks/${task.id}/reports`, task.leader), { method: "PUT", body })).status;

/** A report whose encoding is changed before it is split and proved. */
async function report(change, duration = task.duration) {
  const made = sender({ ...task, duration });
  const { flp } = made.vdaf;
  const encode = flp.encode.bind(flp);
  flp.encode = (bucket) => change(encode(bucket), flp.field);
  return (await made.generateReport(1)).encode();
}

const honest = await report((vector) => vector);
const twoHot = await report((vector) => vector.map((one, place) => (place < 2 ? 1n : one)));
const minus = await report((vector, field) => vector.map((one) => field.sub(0n, one)));
const noise = Buffer.from(honest);
noise[0] ^= 1; // another id: both shares are bound to the first one
const other = Buffer.from(honest);
other[other.length - 1] ^= 1; // the same id, other bytes
const late = await report((vector) => vector, 1); // it tells the second in which it was made
console.log(
  JSON.stringify({
    forged: [await put(twoHot), await put(minus), await put(noise)],
    twice: [await put(honest), await put(honest)],
    other: await put(other),
    late: await put(late),
  }),
);
