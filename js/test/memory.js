/** What a browser has and Node does not: a store, and locks. */

/** Records in memory; every change is on copies, and kept whole or not at all. */
export function memoryStore() {
  const records = new Map();
  return {
    async update(key, change) {
      const state = structuredClone(records.get(key) ?? {});
      const value = change(state);
      records.set(key, structuredClone(state));
      return value;
    },
  };
}

/** Web Locks: one holder of a name at a time, in order. */
export function memoryLocks() {
  const tails = new Map();
  return {
    request(name, work) {
      const done = (tails.get(name) ?? Promise.resolve()).then(work);
      tails.set(name, done.catch(() => undefined));
      return done;
    },
  };
}
