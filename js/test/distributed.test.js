/** Two aggregators: one report a version, at most k, and the same bytes of a report however often it is sent. */
import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import test from "node:test";
import fc from "fast-check";
import { digestOf, hex } from "../src/blake2b.js";
import { openDevice } from "../src/distributed.js";
import { Refused } from "../src/refused.js";
import { statement } from "../src/statement.js";
import { memoryLocks, memoryStore } from "./memory.js";

globalThis.crypto ??= webcrypto; // Node 18 has it under another name

const numRuns = Math.ceil(Number(process.env.FAST_CHECK_RUNS ?? 300) / 10);
const DAY = 86_400_000;
const CELLS = 36;
const specOf = (reports) =>
  `{"arms": ["mail", "call"], "contexts": {"columns": [{"clip": false, "high": 90.0, "low": 18.0, "name": "age", ` +
  `"type": "Range"}, {"name": "region", "type": "Categories", "values": ["north", "south"]}], "type": "Schema"}, ` +
  `"format": 1, "horizon": 1000, "kind": "DistributedSpec", "privacy": {"epsilon": 1.0, "kind": "DistributedDP", ` +
  `"reports_per_user": ${reports}}, "reward_range": {"high": 1.0, "low": 0.0}, "seed": 0, ` +
  `"tuning": {"cells": ${CELLS}, "first": 0.02, "growth": 1.5, "min_batch": 1, "temperature": 0.3}}`;
const VERSIONS = 8; // of this horizon

function policy(reports, version, { leader = "https://leader.test/", arms = Array(CELLS).fill(1) } = {}) {
  const spec = specOf(reports);
  const published = { arms, kind: "PublishedCellArms", spec: hex(digestOf(spec, 32)), version };
  return `{"spec":${spec},"published":${JSON.stringify(published)},"leader":"${leader}","helper":"https://helper.test/"}`;
}

/** A browser's profile, a collector, and a leader that may forget to answer or refuse. */
class World {
  constructor(reports) {
    this.reports = reports;
    this.store = memoryStore();
    this.locks = memoryLocks();
    this.clock = 1e12;
    this.version = 0;
    this.received = []; // [task, bytes], as often as they came
    this.refused = [];
    this.lost = this.torn = this.strict = false;
  }

  open(options = {}) {
    const world = this;
    class Task {
      constructor(parameters) {
        this.parameters = parameters;
      }
      async fetchKeyConfiguration() {}
      async generateReport(bucket) {
        const bytes = crypto.getRandomValues(new Uint8Array(12));
        new DataView(bytes.buffer).setUint16(0, bucket);
        return { encode: () => bytes };
      }
      async sendReport(report) {
        const told = [this.parameters.id, hex(report.encode())];
        if (world.strict) {
          world.refused.push(told);
          throw Object.assign(new Error("reportRejected"), { status: 400 });
        }
        world.received.push(told);
        if (world.lost) throw new TypeError("fetch failed");
      }
    }
    const update = (key, change) =>
      this.store.update(key, (state) => {
        const value = change(state);
        if (this.torn) throw new Refused("torn", "the transaction was aborted");
        return value;
      });
    return openDevice({
      url: "https://shop.test/tips", epsilon: 1, budget: 1, deadline: 60, dap: { Task },
      store: { update }, locks: this.locks, now: () => this.clock,
      fetch: async () => ({ ok: true, text: async () => policy(this.reports, this.version) }),
      ...options,
    });
  }
}

const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant("choose"), context: fc.anything() }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("report"), which: fc.nat(3), reward: fc.anything() }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("send"), early: fc.boolean() }) },
  { weight: 3, arbitrary: fc.constant({ do: "publish" }) },
  fc.record({ do: fc.constant("clock"), by: fc.integer({ min: -DAY, max: DAY }) }),
  fc.record({ do: fc.constantFrom("reload", "lose", "tear", "refuse", "decide") }),
);

test("one report a version and at most k, whatever is done over two tabs", async () => {
  let made = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.array(fc.tuple(fc.nat(1), step), { maxLength: 40 }),
      async (reports, steps) => {
        const world = new World(reports);
        const budget = reports % 2 ? 1 : 100; // the contract's own limit holds whatever the owner accepts
        const tabs = [await world.open({ budget }), await world.open({ budget })];
        const chosen = [];
        for (const [tab, one] of steps) {
          const device = tabs[tab];
          const refused = (error) => assert(["over", "budget", "network", "torn"].includes(error.code), error);
          if (one.do === "choose")
            await device.choose(one.context).then(({ id }) => chosen.push({ id, version: world.version }), refused);
          if (one.do === "report" && chosen.at(-1 - one.which))
            await device.report(chosen.at(-1 - one.which).id, one.reward).catch(refused);
          if (one.do === "send") await device.send({ early: one.early }).catch(refused);
          if (one.do === "decide") assert.equal(await device.decide({ age: 30 }).catch(() => "call"), "call");
          if (one.do === "publish" && !world.torn) {
            world.version += 1;
            await Promise.all(tabs.map((each) => each.refresh()));
          }
          if (one.do === "clock") world.clock += one.by;
          if (one.do === "reload" && !world.torn) tabs[tab] = await world.open({ budget });
          if (one.do === "lose") world.lost = !world.lost;
          if (one.do === "tear") world.torn = !world.torn;
          if (one.do === "refuse") world.strict = !world.strict;
        }
        world.lost = world.torn = world.strict = false;
        const open = await tabs[0].current();
        if (open) await tabs[0].report(open.id, 1);
        await tabs[0].send({ early: true });
        await tabs[1].send({ early: true });
        assert.equal((await tabs[1].unsent()).length, 0);
        assert.equal(new Set(chosen.map(({ version }) => version)).size, chosen.length);
        assert(chosen.length <= reports && chosen.every(({ version }) => version < VERSIONS));
        const told = new Map([...world.received, ...world.refused].map(([task, bytes]) => [bytes, task]));
        assert.equal(told.size, chosen.length); // one report a choice, in the same bytes whenever it is sent
        assert.equal(new Set(told.values()).size, chosen.length); // each in a task of its own
        assert(Math.abs((await tabs[0].spent()) - chosen.length / reports) < 1e-12);
        made += chosen.length;
      },
    ),
    { numRuns, seed: 30 },
  );
  assert(made > numRuns / 2);
});

test("a report leaves at its deadline, with or without a reward, and a device with nothing to say is not seen", async () => {
  const world = new World(4);
  const device = await world.open();
  const bucketOf = () => parseInt(world.received.at(-1)[1].slice(0, 4), 16);
  for (const [version, [context, reward, bucket]] of [
    [{ age: 18, region: "north" }, 1, 0],
    [{ age: 18, region: "south" }, 0, 3],
    [{ age: 18, region: "west" }, 1, 2 * CELLS], // no such region
    [{ age: 90, region: "south" }, undefined, 2 * CELLS], // never rewarded
  ].entries()) {
    world.version = version;
    await device.refresh();
    const { id } = await device.choose(context);
    if (reward !== undefined) await device.report(id, reward);
    assert.equal(await device.send(), 0);
    world.clock += 60_000;
    assert.equal(await device.send(), 1);
    assert.equal(bucketOf(), bucket);
  }
  assert.equal(world.received.length, 4);
  const said = statement(device, 9);
  assert.match(said, /Two that work together read every report/);
  assert.match(said, /at most 4 reports give what they see with probabilities within a factor of exp\(1\)/);
  assert.match(said, /At most 1 is spent/);
  assert.doesNotMatch(said, /locally|undefined|NaN/);
  world.version = 4;
  await device.refresh();
  await assert.rejects(device.choose({ age: 18 }), { code: "budget" });
});

test("the last version takes no reports, and other aggregators are another contract", async () => {
  const world = new World(9);
  world.version = VERSIONS;
  const device = await world.open();
  await assert.rejects(device.choose({ age: 18 }), { code: "over" });
  assert.equal(await device.decide({ age: 18 }), "call");
  const answer = (text) => ({ fetch: async () => ({ ok: true, text: async () => text }) });
  for (const [code, text] of [
    ["pinned", policy(9, VERSIONS, { leader: "https://other.test/" })],
    ["pinned", policy(8, VERSIONS)],
    ["retired", policy(9, VERSIONS - 1)],
    ["changed", policy(9, VERSIONS, { arms: Array(CELLS).fill(0) })],
    ["malformed", policy(9, VERSIONS, { arms: Array(CELLS - 1).fill(0) })],
    ["malformed", policy(9, VERSIONS, { arms: Array(CELLS).fill(2) })],
    ["malformed", "{}"],
  ])
    await assert.rejects(world.open(answer(text)), (error) => error instanceof Refused && error.code === code, text);
  const fresh = { store: memoryStore() };
  await assert.rejects(world.open({ ...fresh, epsilon: 0.1 }), { code: "epsilon" });
  for (const deadline of [0, undefined, NaN]) await assert.rejects(world.open({ ...fresh, deadline }), { code: "parameter" });
});
