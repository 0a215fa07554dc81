/**
 * Simulated pages of two aggregators: each line of the input, {"url", "pages", "reports"}, is so many people, each with a
 * device of their own. Without `reports` they decide only. The answer to each line is {"pages", "regret", "random"}: mean
 * losses against the best arm, of these devices and of random arms.
 */
import { createInterface } from "node:readline";
import { openDevice } from "../../js/src/distributed.js";
import { memoryLocks, memoryStore } from "../../js/test/memory.js";
import { ARMS, chances, uniforms } from "./world.js";

const TOGETHER = 8;
const dap = import(new URL("../../tests/distributed/aggregators/node_modules/@divviup/dap/dist/index.js", import.meta.url));

async function page(url, reports) {
  const options = { url, epsilon: 1e9, budget: 1e9, deadline: 60, dap, store: memoryStore(), locks: memoryLocks() };
  const device = await openDevice(options);
  const [age, sleep, luck] = uniforms();
  const context = { age: 18 + 72 * age, sleep: 3 + 7 * sleep };
  const good = chances([age, sleep]);
  const { id, arm } = reports ? await device.choose(context) : { arm: await device.decide(context) };
  const chance = good[ARMS.indexOf(arm)];
  if (reports) {
    await device.report(id, Number(luck < chance));
    await device.send({ early: true });
  }
  const best = Math.max(...good);
  return [best - chance, best - good.reduce((sum, one) => sum + one) / good.length];
}

async function crowd({ url, pages, reports }) {
  const sums = [0, 0];
  let left = pages;
  const one = async () => {
    while (left-- > 0) (await page(url, reports)).forEach((lost, place) => (sums[place] += lost));
  };
  await Promise.all(Array.from({ length: TOGETHER }, one));
  return { pages, regret: sums[0] / pages, random: sums[1] / pages };
}

for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(await crowd(JSON.parse(line))));
