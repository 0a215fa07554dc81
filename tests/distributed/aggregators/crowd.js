/**
 * Devices: each line of the input, {"task": {...}, "buckets": [...]}, is one report a bucket. A report is made once by
 * the unmodified `@divviup/dap`, and the same bytes are sent until the leader acknowledges them. One line is answered
 * for each line of the input: {"acknowledged": number, "bytes": length of a report}.
 */
import { createInterface } from "node:readline";
import { sender } from "./sender.js";

const pause = () => new Promise((done) => setTimeout(done, 50));

/** Repeats a call until it succeeds, because a killed aggregator comes back. A refusal of the leader ends it. */
async function lasting(call) {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (error.shortType) throw error;
      await pause();
    }
  }
}

async function sent(task, buckets) {
  const all = sender(task);
  await lasting(() => all.fetchKeyConfiguration());
  let bytes = 0;
  for (const bucket of buckets) {
    const report = await all.generateReport(bucket);
    bytes = report.encode().length;
    await lasting(() => all.sendReport(report));
  }
  return { acknowledged: buckets.length, bytes };
}

for await (const line of createInterface({ input: process.stdin })) {
  const { task, buckets } = JSON.parse(line);
  console.log(JSON.stringify(await sent(task, buckets).catch((error) => ({ refused: String(error.shortType ?? error) }))));
}
