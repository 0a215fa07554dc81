/**
 * A device of two aggregators: a report leaves it as two encrypted shares, one for each.
 *
 * The unmodified npm package `@divviup/dap` 0.9.1 splits, proves, encrypts and sends; it is loaded with the first device.
 * Experimental: DAP-09 and VDAF-08 are drafts, and the standards will not understand these messages.
 */
import { hex } from "./blake2b.js";
import { opened } from "./device.js";
import { DURATION, draw, readSpec, readVersion, taskId } from "./histogram.js";
import { expect } from "./refused.js";

const SENT = /^\{"spec":(.*?),"published":(.*),"leader":"([^"\\]+)","helper":"([^"\\]+)"\}$/s; // canonical JSON has spaces

/** How a device reads, draws and sends with two aggregators. */
function protocol({ dap, fetch, deadline }) {
  const tasks = new Map();
  let contract;

  async function taskOf(version) {
    if (!tasks.has(version)) {
      const { length, chunk: chunkLength, leader, helper } = contract;
      const { Task } = await (dap ?? import("@divviup/dap"));
      const id = await taskId(contract, version);
      const task = new Task({ type: "histogram", id, leader, helper, length, chunkLength, timePrecisionSeconds: DURATION });
      if (fetch) task.fetch = fetch;
      tasks.set(version, task);
    }
    return tasks.get(version);
  }

  /** Bytes of a report. They are kept before they are sent, and whatever is sent again is the same. */
  async function sealed({ bytes, version, bucket, sealed }, step) {
    if (sealed) return sealed;
    const made = Uint8Array.from((await (await taskOf(version)).generateReport(bucket)).encode());
    return step(({ reports }) => {
      const kept = reports?.find((one) => hex(one.bytes) === hex(bytes));
      if (!kept) return null; // storage was cleared meanwhile
      delete kept.bucket;
      return (kept.sealed = made);
    });
  }

  /** Send one report; what went wrong, if anything: a status of the leader, or words. */
  async function sent(one, step) {
    const bytes = await sealed(one, step).catch(() => undefined);
    if (bytes === undefined) return "no keys";
    try {
      if (bytes) await (await taskOf(one.version)).sendReport({ encode: () => bytes });
    } catch ({ status }) {
      return status ?? "no answer";
    }
  }

  return {
    draw,
    published: readVersion,
    async read(text) {
      const [, spec, version, leader, helper] = SENT.exec(text) ?? [];
      contract = readSpec(spec, { leader, helper, deadline });
      expect(deadline > 0, "parameter", "deadline");
      const published = readVersion(version, contract);
      // Keys are fetched now: later, the request would tell the helper when a report is due.
      if (published.version < contract.versions)
        await taskOf(published.version).then((task) => task.fetchKeyConfiguration()).catch(() => {}); // else before sending
      return [contract, published];
    },
    /** One report a version, and no more than the contract allows. No context was read yet. */
    allow(state) {
      expect(state.version < contract.versions && !(state.chosen >= state.version), "over", "this version");
      expect(!(state.promised >= contract.reports), "budget", "too small");
      state.chosen = state.version;
      state.promised = (state.promised ?? 0) + 1;
    },
    /** Send each of these reports until the leader answers. One that the leader refuses is given up: it stays charged. */
    async send(due, _, step) {
      const problems = [];
      for (const one of due) {
        const problem = await sent(one, step);
        if (problem) problems.push(problem);
        const refused = problem >= 400 && problem < 500 && problem !== 429;
        if (problem && !refused) continue; // it is sent again later
        await step((state) => {
          state.reports = state.reports?.filter(({ bytes }) => hex(bytes) !== hex(one.bytes));
        });
      }
      expect(!problems.length, "network", problems[0]);
    },
  };
}

/**
 * A device that reports to two aggregators.
 *
 * `url` is where the collector publishes, as https://shop.example/tips: `policy` below it is the text of Python's
 * `DapCollector.policy`. `deadline` is the number of seconds after a choice at which its report leaves, a public number
 * that is the same for all devices. `dap` is the module `@divviup/dap`, or a promise of it, where a page has no bundler.
 */
export const openDevice = (options) => opened(options, protocol(options));
