/**
 * One choice, one charge, one report: whatever is done to a device, in whatever order, over however many tabs.
 *
 * FAST_CHECK_RUNS says how many cases: a few by default, 100,000 in `make js`; a tenth are whole histories of a
 * device, the others laws of reports.
 */
import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import test from "node:test";
import fc from "fast-check";
import "../src/mechanisms.js";
import { hex } from "../src/blake2b.js";
import { LAWS, law } from "../src/law.js";
import { openDevice, Refused } from "../src/index.js";
import { statement } from "../src/statement.js";
import { memoryLocks, memoryStore } from "./memory.js";
import { policyText, readout, version } from "./policy.js";

globalThis.crypto ??= webcrypto; // Node 18 has it under another name

const numRuns = Number(process.env.FAST_CHECK_RUNS ?? 300);
const DAY = 86_400_000;
const SPENT = ["budget", "retired", "changed", "network", "cleared"];

/** A browser's profile and a server, which may crash, forget to answer, go back and send again. */
class World {
  constructor() {
    this.store = memoryStore();
    this.locks = memoryLocks();
    this.clock = 1e12;
    this.version = 3;
    this.received = [];
    this.lost = this.torn = false;
  }

  open(budget) {
    const { store, locks } = this;
    const update = (key, change) => {
      if (!this.torn) return store.update(key, change);
      return store.update(key, (state) => {
        change(state);
        throw new Refused("torn", "the transaction was aborted");
      });
    };
    return openDevice({
      ...{ url: "https://shop.test/v1/local/tips", epsilon: 1, budget, locks, store: { update } },
      now: () => this.clock,
      fetch: async (url, request) => {
        if (url.endsWith("/policy")) return { ok: true, text: async () => policyText(this.version) };
        const body = request.body;
        for (let at = 0; at < body.length; ) {
          const length = body[at] + 256 * body[at + 1];
          this.received.push(hex(body.subarray(at + 2, at + 2 + length)));
          at += 2 + length;
        }
        return { ok: !this.lost, status: 503 };
      },
    });
  }
}

const nonce = (report) => report.slice(18, 34);

const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("choose"), context: fc.anything() }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("report"), which: fc.nat(5), reward: fc.anything() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("send"), early: fc.boolean() }) },
  fc.record({ do: fc.constant("clock"), by: fc.integer({ min: -3 * DAY, max: 3 * DAY }) }),
  fc.record({ do: fc.constant("publish"), by: fc.integer({ min: -2, max: 2 }) }),
  fc.record({ do: fc.constantFrom("reload", "lose", "tear", "decide") }),
);

test("one choice, one charge, one report", async () => {
  let cases = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 5 }),
      fc.array(fc.tuple(fc.nat(2), step), { maxLength: 25 }),
      async (budget, steps) => {
        cases += 1;
        const world = new World();
        const tabs = await Promise.all([0, 1, 2].map(() => world.open(budget)));
        const chosen = new Map();
        const doing = {
          choose: async (tab, { context }) => {
            const { id, arm } = await tab.choose(context);
            assert(!chosen.has(id), "two choices of one number");
            assert(["mail", "call"].includes(arm));
            chosen.set(id, arm);
          },
          report: (tab, { which, reward }) => tab.report([...chosen.keys()][which] ?? 1, reward),
          send: (tab, { early }) => tab.send({ early }),
          clock: async (_, { by }) => void (world.clock += by),
          publish: async (tab, { by }) => {
            world.version = Math.max(0, world.version + by);
            await tab.refresh();
          },
          reload: async (_, __, place) => void (tabs[place] = await world.open(budget)),
          lose: async () => void (world.lost = !world.lost),
          tear: async () => void (world.torn = !world.torn),
          decide: async (tab) => assert(["mail", "call"].includes(await tab.decide({}))),
        };
        for (const [place, one] of steps) {
          try {
            await doing[one.do](tabs[place], one, place);
          } catch (error) {
            assert([...SPENT, "torn", "unknown"].includes(error.code), error);
          }
          if (one.do === "reload" && world.torn) world.torn = false;
        }
        world.lost = world.torn = false;
        const waiting = (await tabs[0].unsent()).map(hex);
        const all = new Set([...world.received, ...waiting]);
        const open = await tabs[0].current();
        assert.equal(new Set([...all].map(nonce)).size, all.size, "two reports of one nonce");
        assert.equal(await tabs[0].spent(), all.size, "charges and reports differ");
        assert.equal(all.size + Number(open !== null), chosen.size, "choices and reports differ");
        assert(chosen.size <= budget, "more choices than the budget covers");
        assert([...all].every((report) => report.length === 36), "reports of different lengths");
      },
    ),
    { numRuns: Math.ceil(numRuns / 10), seed: 20 },
  );
  assert(cases >= numRuns / 10);
});

test("laws keep their epsilon, and every input draws as many words", () => {
  let drawn = 0;
  const own = crypto.getRandomValues;
  crypto.getRandomValues = (array) => ((drawn += array.byteLength), own.call(crypto, array));
  fc.assert(
    fc.property(
      fc.constantFrom(...Object.keys(LAWS), "auto"),
      fc.integer({ min: 1, max: 40 }),
      fc.double({ min: 0.05, max: 16, noNaN: true }),
      fc.nat(),
      fc.boolean(),
      (name, cells, epsilon, where, positive) => {
        const one = law(name, cells, epsilon);
        for (const threshold of Object.values(one.thresholds)) assert(threshold > 0n && threshold < 1n << 64n);
        const logarithms = one.odds.map(([p, q]) => Math.log(Number((p << 80n) / q)) - 80 * Math.LN2);
        const worst = Math.max(...logarithms);
        assert(worst <= epsilon * (1 + 1e-12) && worst >= epsilon * (1 - 1e-6), `${worst} at ${epsilon}`);
        const lengths = [where % cells, 0].map((cell, at) => {
          drawn = 0;
          return [one.encode(cell, positive !== Boolean(at)).length, name.includes("laplace") ? 0 : drawn];
        });
        assert.deepEqual(lengths[0], lengths[1]);
      },
    ),
    { numRuns: Math.ceil(0.9 * numRuns), seed: 21 },
  );
  crypto.getRandomValues = own;
});

test("an older version is refused, and so are other contents and another contract", async () => {
  const world = new World();
  const device = await world.open(2);
  const refused = (code) => assert.rejects(device.refresh(), (error) => error instanceof Refused && error.code === code);
  world.version = 2;
  await refused("retired");
  await assert.rejects(world.open(2), { code: "retired" });
  world.version = 3;
  const text = policyText(3);
  for (const [code, changed] of [
    ["changed", text.replace(/"table": "../, '"table": "AA')],
    ["pinned", text.replaceAll('"seed": 0', '"seed": 1')],
    ["malformed", text.slice(0, -2)],
    ["malformed", "{}"],
    ["malformed", "null"],
  ]) {
    assert.notEqual(changed, text, code);
    const other = openDevice({
      ...{ url: "https://shop.test/v1/local/tips", epsilon: 1, budget: 2, store: world.store, locks: world.locks },
      fetch: async () => ({ ok: true, text: async () => changed }),
    });
    await assert.rejects(other, (error) => error.code === code, code);
  }
});

test("an owner's limits are kept", async () => {
  const world = new World();
  const options = { url: "https://shop.test/v1/local/tips", store: world.store, locks: world.locks };
  const fetch = async () => ({ ok: true, text: async () => policyText(1) });
  await assert.rejects(openDevice({ ...options, fetch, epsilon: 0.5, budget: 2 }), { code: "epsilon" });
  for (const budget of [0, -1, NaN, "many", undefined, Infinity]) {
    await assert.rejects(openDevice({ ...options, fetch, epsilon: 1, budget }), { code: "parameter" });
  }
  const device = await openDevice({ ...options, fetch, epsilon: 1, budget: 2.5 });
  await assert.rejects(openDevice({ ...options, fetch, epsilon: 1, budget: 9 }), { code: "pinned" });
  const { id } = await device.choose({ age: 30 });
  assert.equal(await device.report(id, 1), true);
  assert.equal(await device.report(id, 0), false);
  await device.choose({ age: 31 });
  await assert.rejects(device.choose({ age: 32 }), { code: "budget" });
  assert.match(statement(device, 2.5), /Clearing the site's storage/);
  assert.match(statement(device, 2.5), /At most 2.5 is spent on this policy, under its address, by this site/);
  assert.match(statement(device, 2.5), /Other policies, of this site too, have budgets of their own/);
});

test("there is one account of a url, however a page writes it", async () => {
  const { store, locks } = new World();
  const fetch = async (url) => {
    assert.equal(url, "https://shop.test/v1/local/tips/policy");
    return { ok: true, text: async () => policyText(1) };
  };
  globalThis.document = { baseURI: "https://shop.test/basket?item=1" };
  try {
    const spellings = [
      "/v1/local/tips",
      "https://shop.test/v1/local/tips",
      "HTTPS://Shop.TEST:443/v1/local/tips//",
      "https://shop.test./v1/local/tips",
      "https://shop.test/v1/local/%74ips",
      "https://shop.test/v1/%6cocal/%74%69ps/",
      "https://shop.test//v1//local/./x/../tips",
      "https://shop.test/v1/local/tips?campaign=1#top",
      "https://me:secret@shop.test/v1/local/tips",
      "https://%73hop.test/v1/local/tips",
    ];
    for (const [spent, url] of spellings.entries()) {
      const device = await openDevice({ url, store, locks, fetch, epsilon: 1, budget: 2 });
      assert.equal(await device.spent(), Math.min(spent, 2));
      if (spent < 2) await device.report((await device.choose({ age: 30 })).id, 1);
      else await assert.rejects(device.choose({ age: 30 }), { code: "budget" });
    }
  } finally {
    delete globalThis.document;
  }
});

test("other addresses are other accounts", async () => {
  const { store, locks } = new World();
  const fetch = async () => ({ ok: true, text: async () => policyText(1) });
  for (const end of ["test/v1/local/tips", "test:8443/v1/local/tips", "test/v1/local/tip", "test/v1/local%2Ftips", "test/v1/local/%2574ips"]) {
    const device = await openDevice({ url: `https://shop.${end}`, store, locks, fetch, epsilon: 1, budget: 1 });
    assert.equal(await device.spent(), 0, end);
    await device.report((await device.choose({ age: 30 })).id, 1);
  }
  await assert.rejects(openDevice({ url: "https://shop.test/%zz", store, locks, fetch, epsilon: 1, budget: 1 }), URIError);
});

test("a browser is asked to keep its own storage, and none else", async () => {
  const { store, locks } = new World();
  const known = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  const fetch = async () => ({ ok: true, text: async () => policyText(1) });
  const options = { url: "https://shop.test/v1/local/tips", locks, fetch, epsilon: 1, budget: 1 };
  let asked = 0;
  const storages = [
    { persist: async () => (asked += 1) },
    { persist: () => ((asked += 1), Promise.reject(new Error("not now"))) },
    {},
    undefined,
  ];
  try {
    for (const storage of storages) {
      Object.defineProperty(globalThis, "navigator", { value: { storage, locks }, configurable: true });
      await openDevice({ ...options, store });
      assert.equal(asked, 0);
    }
    for (const [place, storage] of storages.entries()) {
      Object.defineProperty(globalThis, "navigator", { value: { storage, locks }, configurable: true });
      await assert.rejects(openDevice(options), ReferenceError); // Node has no IndexedDB
      assert.equal(asked, Math.min(place + 1, 2));
    }
  } finally {
    if (known) Object.defineProperty(globalThis, "navigator", known);
    else delete globalThis.navigator;
  }
});

test("budgets are added up exactly", async () => {
  const world = new World();
  const fetch = async () => ({ ok: true, text: async () => version({ epsilon: 0.1 }) });
  const options = { url: "https://shop.test/v1/local/tips", store: world.store, locks: world.locks, fetch };
  const device = await openDevice({ ...options, epsilon: 0.1, budget: 0.3 });
  for (const reward of [1, 0, 1]) await device.report((await device.choose({ age: 20 })).id, reward);
  assert.equal(await device.spent(), 0.3);
  await assert.rejects(device.choose({ age: 20 }), { code: "budget" });
  assert.equal(await device.decide({ age: 20 }), await device.decide({ age: 20 }));
});

test("a contract whose reports cannot be drawn is refused before a choice is made that would have none", async () => {
  const { store, locks } = new World();
  for (const epsilon of [1e-7, 17]) {
    const fetch = async () => ({ ok: true, text: async () => version({ name: "krr", epsilon }) });
    const options = { url: "https://shop.test/v1/local/tips", epsilon: 20, budget: 100, store, locks, fetch };
    await assert.rejects(openDevice(options), { code: "law" });
  }
});

test("a device of a readout is in one group, and sends one report of it", async () => {
  const { store, locks } = new World();
  const open = (account, budget = 1, told = {}) => {
    const fetch = async () => ({ ok: true, text: async () => readout(told) });
    return openDevice({ url: "https://shop.test/v1/local/tips", epsilon: 1, budget, store, locks, fetch, account });
  };
  const person = { age: 44, region: "south" };
  const arms = new Set();
  for (let account = 0; account < 60; account++) {
    const device = await open(`${account}`);
    assert.equal(await device.decide(person), "mail");
    const { id, arm } = await device.choose(account % 2 ? person : undefined);
    await device.report(id, [1, 0, undefined, "?", -7][account % 5]);
    const [report] = await device.unsent();
    assert.equal(report.length, 19);
    assert.deepEqual([report[0], report[17] < 2, report[18] < 2], [0xd3, true, true]);
    if (report[17] === 0) assert.equal(arm, "call"); // three of four are in the control group
    else if (account % 2) assert.equal(arm, "mail");
    arms.add(report[17]);
    await assert.rejects(device.choose(person), { code: "budget" });
    assert.equal(await device.decide(person), "mail");
    assert(statement(device, 1).includes("beside the group"));
  }
  assert.equal(arms.size, 2);
  await assert.rejects(open("more", 2), { code: "parameter" });
  await assert.rejects(open("other", 1, { other: { version: 1 } }), { code: "pinned" });
  await assert.rejects(open("other", 1, { other: { about: "place" } }), { code: "pinned" });
  for (const changes of [{ share: 1 }, { control: "post" }, { missing: 2 }, { privacy: { kind: "JointDP", epsilon: 1 } }]) {
    await assert.rejects(open("wrong", 1, { changes }), { code: "malformed" });
  }
});

test("a choice reports by its deadline, and is sent no sooner", async () => {
  const world = new World();
  const device = await world.open(4);
  const first = await device.choose({ age: 30 });
  await device.report(first.id, 1);
  assert.equal(await device.send(), 0);
  world.clock += DAY - 1;
  assert.equal(await device.send(), 0);
  world.clock += 1;
  assert.equal(await device.send(), 1);
  assert.equal(world.received.length, 1);
  await device.choose({ age: 30 }); // never rewarded
  world.clock += DAY;
  assert.equal(await device.send(), 1);
  assert.equal(await device.current(), null);
  const late = await device.choose({ age: 30 });
  world.clock -= 2 * DAY; // set back to before the choice: over, as if its time had come
  assert.equal(await device.send(), 1);
  assert.equal(await device.report(late.id, 1), false);
  assert.equal(new Set(world.received).size, 3);
});

test("one open choice over all tabs: the earlier one's report says nothing", async () => {
  const world = new World();
  const [left, right] = [await world.open(9), await world.open(9)];
  const first = await left.choose({ age: 30 });
  const second = await right.choose({ age: 31 });
  assert.deepEqual(await left.current(), second);
  assert.equal(await left.report(first.id, 1), false);
  assert.equal(await left.report(second.id, 1), true);
  await assert.rejects(left.report(7, 1), { code: "unknown" });
  assert.equal((await right.unsent()).length, 2);
  const both = await Promise.all([left, right, left].map((tab) => tab.choose({ age: 30 })));
  assert.deepEqual(both.map(({ id }) => id), [3, 4, 5]);
  assert.equal(await left.spent(), 4);
});

test("cleared storage begins anew, and a tab that was open notices", async () => {
  const world = new World();
  const device = await world.open(1);
  await device.choose({ age: 30 });
  world.store = memoryStore();
  const fresh = await world.open(1);
  assert.equal(await fresh.spent(), 0);
  await assert.doesNotReject(fresh.choose({ age: 30 }));
});
