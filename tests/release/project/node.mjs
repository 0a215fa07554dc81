// Runs `use.mjs` in Node, which has neither Web Locks nor IndexedDB: memory stands for both.
import { readFileSync } from "node:fs";
import { run } from "./use.mjs";

const records = new Map();
const store = {
  async update(key, change) {
    const state = structuredClone(records.get(key) ?? {});
    const value = change(state);
    records.set(key, state);
    return value;
  },
};
const locks = { request: (name, work) => Promise.resolve().then(work) };
console.log(await run(JSON.parse(readFileSync("cases.json", "utf8")), { store, locks }));
