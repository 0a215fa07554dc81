/**
 * Many simulated pages, each with a device of its own: a record, a budget and one report.
 *
 * They share this tab and its connection: what a version says is fetched once, and reports leave in one request. A page
 * forgets its report when the server has confirmed that request.
 */
import { openDevice } from "./js/src/index.js";
import { joined } from "./js/src/law.js";
import { memoryLocks, memoryStore } from "./js/test/memory.js";
import { ARMS, chances, uniforms } from "./world.js";

const TOGETHER = 50;
const BUSY = 25; // milliseconds of work before the browser may draw

/** Let so many pages report, yielding how many have; `go` resolves when they may go on. */
export async function* crowd({ url, token, epsilon, fetch, count, go }) {
  let drew = performance.now();
  for (let done = 0; done < count; ) {
    await go();
    const size = Math.min(TOGETHER, count - done);
    const line = await connection(url, token, fetch, size);
    const sending = [];
    for (let page = 0; page < size; page++) {
      const device = await openDevice({
        url, epsilon, budget: epsilon, account: `page ${page}`, store: line.store, locks: line.locks, fetch: line.fetch,
      });
      const [age, sleep, luck] = uniforms();
      const { id, arm } = await device.choose({ age: 18 + 72 * age, sleep: 3 + 7 * sleep });
      await device.report(id, Number(luck < chances([age, sleep])[ARMS.indexOf(arm)]));
      sending.push(device.send({ early: true }));
      if (performance.now() - drew > BUSY) {
        await new Promise((next) => setTimeout(next));
        drew = performance.now();
      }
    }
    await Promise.all(sending);
    done += size;
    yield done;
  }
}

/** What pages of a batch share. */
async function connection(url, token, fetch, size) {
  const headers = { Authorization: `Bearer ${token}` };
  const answered = async (reply) => {
    if (!reply.ok) throw new Error(`the server answers ${reply.status}`);
    return reply.text();
  };
  const policy = await answered(await fetch(`${url}/policy`, { headers }));
  const bodies = [];
  let send;
  const confirmed = new Promise((done) => (send = done)).then(async () =>
    answered(await fetch(`${url}/reports`, { method: "POST", headers, body: joined(...bodies) })),
  );
  return {
    store: memoryStore(),
    locks: memoryLocks(),
    async fetch(what, request) {
      if (request.method !== "POST") return { ok: true, text: async () => policy };
      if (bodies.push(request.body) === size) send();
      await confirmed;
      return { ok: true };
    },
  };
}
