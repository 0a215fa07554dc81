/**
 * One aggregator, leader or helper, of DAP-09 with Prio3Histogram, for tests and demonstrations. Experimental.
 *
 *   node aggregator.js CONFIG.json        listens on 127.0.0.1; the database is the file `database` of CONFIG
 *
 * One operator: no more than central. Whoever runs both programs can read every report.
 *
 * CONFIG has the text of the spec. The ids of the tasks, the buckets, the noise and the smallest batch follow from it, and
 * devices derive the same ids from their spec: none reports where noise or batches are smaller. (`exact` is for tests.)
 * A second process on one database is refused by a lock, which ends with its process.
 *
 * A task is one version. Its batch is the set of all its valid reports, and is released once. What is written in one
 * transaction, so that a killed process loses nothing and releases nothing twice:
 *
 *   upload          the report, before it is acknowledged
 *   job             leader: the ids of a job, before it is sent; helper: the ids, the sum and the answer together
 *   job's answer    leader: the sum and the end of these reports
 *   release         noise, noisy share and the end of the batch; the exact share is overwritten, and then the log is
 *                   emptied that still holds it
 *
 * A job that is sent again is answered with the stored answer, and a share that is asked for again is the stored one.
 */
import Database from "better-sqlite3";
import { Buffer } from "node:buffer";
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { DURATION, readSpec, taskId } from "../../../js/src/histogram.js";
import * as messages from "./messages.js";
import { discreteLaplace, rateOf } from "./noise.js";

const { opaque, Reader, ROLE, uint } = messages;
const KINDS = { report: "dap-report", keys: "dap-hpke-config-list", collection: "dap-collection" };
const LARGEST_REPORT = 64 * 2 ** 10;
const LARGEST_BODY = 16 * 2 ** 20;
const JOB_SIZE = 50; // reports
const PAUSE = 100; // milliseconds between two looks for work
const NONE = Buffer.alloc(32);
const ERROR = { collected: 1, replayed: 2, key: 4, decrypt: 5, proof: 6, early: 10 };

const config = JSON.parse(readFileSync(process.argv[2], "utf8"));
const role = ROLE[config.role];
const index = role - ROLE.leader;
const [privateKey, publicKey, collectorKey] = [config.privateKey, config.publicKey, config.collectorKey].map((text) => Buffer.from(text, "base64url"));
const spec = readSpec(config.spec);
const [over, under] = config.exact ? [100n, 1n] : rateOf(spec.epsilon, spec.reports);
const STATEMENT =
  "One operator: no more than central. Whoever runs both aggregators can read every report. Experimental." +
  (config.exact ? " For tests: nearly no noise." : "");
const vdaf = messages.histogram(spec);
const { field } = vdaf.flp;
const names = await Promise.all(Array.from({ length: spec.versions }, (_, version) => taskId(spec, version)));
const tasks = new Map(
  names.map((name, version) => [name, { name, id: Buffer.from(name, "base64url"), verifyKey: Buffer.from(config.verifyKeys[version], "base64url") }]),
);

const lock = new Database(`${config.database}.lock`, { timeout: 0 });
try {
  lock.exec("BEGIN EXCLUSIVE");
} catch {
  console.log("Another process runs on this database: end it first.");
  process.exit(1);
}
process.on("exit", () => lock.close());
const base = new Database(config.database);
base.pragma("journal_mode = WAL");
base.pragma("synchronous = FULL");
base.pragma("secure_delete = ON");
base.exec(`
  CREATE TABLE IF NOT EXISTS reports (task TEXT, id BLOB, body BLOB, job BLOB, done INTEGER DEFAULT 0,
    PRIMARY KEY (task, id)) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS open_reports ON reports (task, job) WHERE done = 0;
  CREATE TABLE IF NOT EXISTS jobs (task TEXT, id BLOB, request BLOB, answer BLOB, PRIMARY KEY (task, id));
  CREATE TABLE IF NOT EXISTS batches (task TEXT PRIMARY KEY, share BLOB, reports INTEGER, checksum BLOB,
    asked INTEGER DEFAULT 0, closed INTEGER DEFAULT 0, released INTEGER DEFAULT 0, other BLOB, problem TEXT);
`);
const sql = (text) => base.prepare(text);
const queries = {
  begin: sql("INSERT OR IGNORE INTO batches (task, share, reports, checksum) VALUES (?, ?, 0, ?)"),
  batch: sql("SELECT * FROM batches WHERE task = ?"),
  add: sql("UPDATE batches SET share = ?, reports = ?, checksum = ? WHERE task = ?"),
  release: sql("UPDATE batches SET share = ?, closed = 1, released = 1 WHERE task = ? AND released = 0"),
  ask: sql("UPDATE batches SET asked = 1 WHERE task = ?"),
  close: sql("UPDATE batches SET closed = 1 WHERE task = ?"),
  other: sql("UPDATE batches SET other = ?, problem = ? WHERE task = ?"),
  report: sql("SELECT body FROM reports WHERE task = ? AND id = ?"),
  keep: sql("INSERT INTO reports (task, id, body, job, done) VALUES (?, ?, ?, ?, ?)"),
  end: sql("UPDATE reports SET done = 1, body = ? WHERE task = ? AND id = ? AND done = 0"),
  left: sql("SELECT COUNT(*) AS left FROM reports WHERE task = ? AND done = 0"),
  waiting: sql("SELECT id FROM reports WHERE task = ? AND done = 0 AND job IS NULL LIMIT ?"),
  assign: sql("UPDATE reports SET job = ? WHERE task = ? AND id = ?"),
  oldest: sql("SELECT job FROM reports WHERE task = ? AND done = 0 AND job IS NOT NULL LIMIT 1"),
  members: sql("SELECT id, body FROM reports WHERE task = ? AND job = ? AND done = 0 ORDER BY id"),
  job: sql("SELECT request, answer FROM jobs WHERE task = ? AND id = ?"),
  answer: sql("INSERT INTO jobs (task, id, request, answer) VALUES (?, ?, ?, ?)"),
};
const together = (work) => base.transaction(work).immediate();
/** Empties the write-ahead log, which keeps earlier pages, and so the exact share of a released batch. */
const emptyLog = () => base.pragma("wal_checkpoint(TRUNCATE)");
emptyLog(); // a process that was killed after a release did not
for (const name of tasks.keys()) queries.begin.run(name, field.encode(Array(spec.length).fill(0n)), NONE);

class Problem extends Error {
  constructor(type, status = 400) {
    super(type);
    this.status = status;
  }
}

const digest = (bytes) => createHash("sha256").update(bytes).digest();

/** Adds output shares to the exact sum of an open batch. Call it inside a transaction. */
function addToBatch(task, accepted) {
  const batch = queries.batch.get(task.name);
  let { share, checksum } = batch;
  if (accepted.length) share = field.encode(accepted.reduce((sum, one) => field.vecAdd(sum, one.outputShare), field.decode(share)));
  for (const { id } of accepted) checksum = messages.addToChecksum(checksum, id);
  queries.add.run(share, batch.reports + accepted.length, checksum, task.name);
}

/**
 * Draws the noise of this aggregator and ends the batch. Call it inside a transaction. Raw data meets noise here.
 * A report adds one to one bucket, so that k reports of a user, when replaced, move all sums by at most 2 k in L1:
 * the rate, epsilon / (2 k), is the spec's, and this noise suffices alone.
 */
function release(task) {
  const { share } = queries.batch.get(task.name);
  const noisy = field.decode(share).map((sum) => {
    const drawn = discreteLaplace(over, under);
    return drawn < 0n ? field.sub(sum, -drawn) : field.add(sum, drawn);
  });
  if (queries.release.run(field.encode(noisy), task.name).changes !== 1) throw new Error("the batch is released");
}

/** All times begin the task's only interval; DAP's rounding of any clock gives zero. */
const inTime = ({ metadata }) => metadata.readBigUInt64BE(16) === 0n;

/** The whole time, to which all reports of a task belong: DAP's batch selector. */
const selector = () => Buffer.concat([uint(messages.TIME_INTERVAL, 1), interval()]);
function interval() {
  const bytes = Buffer.alloc(16);
  bytes.writeBigUInt64BE(BigInt(DURATION), 8);
  return bytes;
}

/** The stored noisy share of a released batch, encrypted for the collector. */
async function sealedShare(task) {
  const { share } = queries.batch.get(task.name);
  const info = Buffer.concat([Buffer.from("dap-09 aggregate share"), Buffer.of(role, ROLE.collector)]);
  const aad = Buffer.concat([task.id, opaque(Buffer.alloc(0)), selector()]);
  return messages.sealedBytes(await messages.seal(collectorKey, info, share, aad, 0));
}

// Both aggregators ---------------------------------------------------------------------------------------------------

/** The preparation of one report at this aggregator. It fails for reports that nobody can read. */
async function prepared(task, report, sealed) {
  if (!inTime(report)) throw Object.assign(new Error("another time"), { dap: ERROR.early });
  if (sealed.id !== config.keyId) throw Object.assign(new Error("another key"), { dap: ERROR.key });
  const share = await messages.openInput(privateKey, task.id, role, report, sealed).catch(() => {
    throw Object.assign(new Error("not for this key"), { dap: ERROR.decrypt });
  });
  return messages.prepare(vdaf, task.verifyKey, index, report, share);
}

// The leader ---------------------------------------------------------------------------------------------------------

function upload(task, body) {
  let report;
  try {
    report = messages.readReport(body);
  } catch {
    throw new Problem("invalidMessage");
  }
  if (report.leader.id !== config.keyId) throw new Problem("outdatedConfig");
  if (!inTime(report)) throw new Problem("reportTooEarly");
  together(() => {
    const before = queries.report.get(task.name, report.id);
    // a client that heard no answer sends the same bytes again; the digest of an ended report stands for its bytes
    if (before && (before.body.equals(body) || before.body.equals(digest(body)))) return;
    if (before || queries.batch.get(task.name).closed) throw new Problem("reportRejected");
    queries.keep.run(task.name, report.id, body, null, 0);
  });
}

/** One step of a task's reports: a job of waiting reports, or one that was begun before, is sent and ended. */
async function step(task) {
  const job = together(() => {
    const begun = queries.oldest.get(task.name);
    if (begun) return begun.job;
    const waiting = queries.waiting.all(task.name, JOB_SIZE);
    const id = randomBytes(16);
    for (const one of waiting) queries.assign.run(id, task.name, one.id);
    return waiting.length ? id : null;
  });
  if (job === null) return false;
  const members = queries.members.all(task.name, job);
  const mine = await Promise.all(
    members.map(async ({ id, body }) => {
      const report = messages.readReport(body);
      const state = await prepared(task, report, report.leader).catch(() => null);
      return { id, body, report, state };
    }),
  );
  const valid = mine.filter((one) => one.state);
  const accepted = [];
  if (valid.length) {
    const inits = valid.map(({ report, state }) =>
      Buffer.concat([
        report.metadata,
        opaque(report.publicShare),
        messages.sealedBytes(report.helper),
        opaque(Buffer.concat([uint(0, 1), opaque(vdaf.encodePreparationShare(state.preparationShare))])),
      ]),
    );
    const request = Buffer.concat([opaque(Buffer.alloc(0)), uint(messages.TIME_INTERVAL, 1), opaque(Buffer.concat(inits))]);
    const answer = await toHelper("PUT", task, `aggregation_jobs/${job.toString("base64url")}`, request);
    const reader = new Reader(new Reader(answer).opaque(4));
    for (const one of valid) {
      if (!reader.take(16).equals(one.id)) throw new Error("the helper answers for another report");
      const kind = reader.uint(1);
      if (kind === 2) reader.take(1);
      if (kind !== 0) continue;
      const message = new Reader(reader.opaque(4));
      if (message.uint(1) !== 2) throw new Error("the helper does not finish");
      const jointRand = message.opaque(4);
      try {
        accepted.push({ id: one.id, ...vdaf.prepareNext(one.state.preparationState, { jointRand }) });
      } catch {
        // the helper counts a report that this aggregator does not: the batches differ, and its release is refused
      }
    }
  }
  together(() => {
    for (const { id, body } of mine)
      if (!queries.end.run(digest(body), task.name, id).changes) throw new Error("another process ended this job");
    addToBatch(task, accepted);
  });
  return true;
}

async function toHelper(method, task, path, body) {
  const address = new URL(`tasks/${task.name}/${path}`, config.helper);
  const headers = { "DAP-Auth-Token": config.helperToken };
  const answer = await fetch(address, { method, headers, body, signal: AbortSignal.timeout(60_000) });
  const bytes = Buffer.from(await answer.arrayBuffer());
  if (answer.status >= 400 && answer.status < 500) throw new Problem(JSON.parse(bytes.toString()).type.split(":").at(-1));
  if (!answer.ok) throw new Error(`the helper answers ${answer.status}`);
  return bytes;
}

/** Releases a batch that was asked for once it is large enough and no report of it waits. */
async function finish(task) {
  const batch = queries.batch.get(task.name);
  if (!batch.asked || batch.other || batch.problem) return;
  if (!batch.closed && batch.reports >= spec.minBatch) queries.close.run(task.name);
  if (!queries.batch.get(task.name).closed || queries.left.get(task.name).left) return;
  if (!batch.released) {
    together(() => release(task));
    emptyLog();
  }
  const count = Buffer.alloc(8);
  count.writeBigUInt64BE(BigInt(batch.reports));
  const request = Buffer.concat([selector(), opaque(Buffer.alloc(0)), count, batch.checksum]);
  try {
    queries.other.run(await toHelper("POST", task, "aggregate_shares", request), null, task.name);
  } catch (error) {
    if (!["batchMismatch", "invalidBatchSize"].includes(error.message)) throw error; // the helper is away: later
    queries.other.run(null, error.message, task.name);
  }
}

async function lead() {
  for (;;) {
    let busy = false;
    for (const task of tasks.values()) {
      try {
        while (await step(task)) busy = true;
        await finish(task);
      } catch {
        busy = false; // the helper is away, or answers nonsense: the same job is sent again later
      }
    }
    if (!busy) await new Promise((done) => setTimeout(done, PAUSE));
  }
}

function askCollection(task, body) {
  if (!body.equals(Buffer.concat([selector(), opaque(Buffer.alloc(0))]))) throw new Problem("batchInvalid");
  queries.ask.run(task.name);
}

async function collection(task) {
  const { other, problem, reports } = queries.batch.get(task.name);
  if (problem) throw new Problem(problem);
  if (!other) return null;
  const count = Buffer.alloc(8);
  count.writeBigUInt64BE(BigInt(reports));
  return Buffer.concat([uint(messages.TIME_INTERVAL, 1), count, interval(), await sealedShare(task), other]);
}

// The helper ---------------------------------------------------------------------------------------------------------

async function aggregate(task, job, body) {
  const fingerprint = digest(body);
  const stored = () => {
    const before = queries.job.get(task.name, job);
    if (before && !before.request.equals(fingerprint)) throw new Problem("invalidMessage", 409);
    return before?.answer;
  };
  const early = stored();
  if (early) return early;
  const reports = [];
  try {
    const reader = new Reader(body);
    if (reader.opaque(4).length || reader.uint(1) !== messages.TIME_INTERVAL) throw new Error("another task");
    const inits = new Reader(reader.opaque(4));
    reader.end();
    while (inits.at < inits.bytes.length) {
      const metadata = inits.take(24);
      const report = { metadata, id: Buffer.from(metadata.subarray(0, 16)), publicShare: inits.opaque(4), sealed: inits.sealed() };
      reports.push({ ...report, payload: inits.opaque(4) });
    }
    if (new Set(reports.map(({ id }) => id.toString("hex"))).size !== reports.length) throw new Error("twice");
  } catch {
    throw new Problem("invalidMessage");
  }
  const made = await Promise.all(
    reports.map(async (report) => {
      try {
        const state = await prepared(task, report, report.sealed);
        const payload = new Reader(report.payload);
        if (payload.uint(1) !== 0) throw new Error("no first message");
        const theirs = messages.readPreparationShare(vdaf, payload.opaque(4));
        payload.end();
        const message = await vdaf.unshardPreparationShares(null, [theirs, state.preparationShare]);
        const { outputShare } = vdaf.prepareNext(state.preparationState, message);
        return { id: report.id, outputShare, message: message.jointRand };
      } catch (error) {
        return { id: report.id, error: error.dap ?? ERROR.proof };
      }
    }),
  );
  return together(() => {
    const meanwhile = stored();
    if (meanwhile) return meanwhile;
    const { released } = queries.batch.get(task.name);
    const accepted = [];
    const answers = made.map((one) => {
      const replayed = queries.report.get(task.name, one.id) && ERROR.replayed;
      const error = (released && ERROR.collected) || replayed || one.error;
      if (!replayed && !released) queries.keep.run(task.name, one.id, null, job, 1);
      if (error) return Buffer.concat([one.id, Buffer.of(2, error)]);
      accepted.push(one);
      return Buffer.concat([one.id, Buffer.of(0), opaque(Buffer.concat([Buffer.of(2), opaque(one.message)]))]);
    });
    if (accepted.length) addToBatch(task, accepted);
    const answer = opaque(Buffer.concat(answers));
    queries.answer.run(task.name, job, fingerprint, answer);
    return answer;
  });
}

async function helperShare(task, body) {
  const wanted = selector();
  const reader = new Reader(body);
  if (!reader.take(wanted.length).equals(wanted) || reader.opaque(4).length) throw new Problem("batchInvalid");
  const count = reader.uint64();
  const checksum = reader.take(32);
  reader.end();
  together(() => {
    const batch = queries.batch.get(task.name);
    if (count !== BigInt(batch.reports) || !checksum.equals(batch.checksum)) throw new Problem("batchMismatch");
    if (batch.reports < spec.minBatch) throw new Problem("invalidBatchSize");
    if (!batch.released) release(task);
  });
  emptyLog();
  return sealedShare(task);
}

// HTTP ---------------------------------------------------------------------------------------------------------------

function authorised(asked, token) {
  const given = digest(Buffer.from(String(asked.headers["dap-auth-token"])));
  if (!timingSafeEqual(given, digest(Buffer.from(token)))) throw new Problem("unauthorizedRequest", 403);
}

async function bodyOf(asked, largest = LARGEST_BODY) {
  const parts = [];
  let size = 0;
  for await (const part of asked) {
    size += part.length;
    if (size > largest) throw new Problem("invalidMessage", 413);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

async function answered(asked) {
  const address = new URL(asked.url, "http://localhost");
  const route = `${asked.method} ${address.pathname}`;
  if (route === "GET /") return [200, "text/plain", STATEMENT];
  if (route === "GET /hpke_config") {
    const key = Buffer.concat([uint(config.keyId, 1), uint(0x20, 2), uint(1, 2), uint(1, 2), opaque(publicKey, 2)]);
    return [200, KINDS.keys, opaque(key, 2)];
  }
  const [, method, name, what, id] = route.match(/^(\w+) \/tasks\/([\w-]{43})\/(\w+)(?:\/([\w-]{22}))?$/) ?? [];
  const task = tasks.get(name);
  if (!task) throw new Problem("unrecognizedTask", 404);
  const leads = role === ROLE.leader;
  if (leads && method === "PUT" && what === "reports") return upload(task, await bodyOf(asked, LARGEST_REPORT)), [201, KINDS.report, ""];
  authorised(asked, leads ? config.collectorToken : config.helperToken);
  const body = await bodyOf(asked);
  if (leads && what === "collection_jobs" && method === "PUT") return askCollection(task, body), [201, KINDS.collection, ""];
  if (leads && what === "collection_jobs" && method === "POST") {
    const found = await collection(task);
    return found ? [200, KINDS.collection, found] : [202, KINDS.collection, ""];
  }
  if (!leads && what === "aggregation_jobs" && method === "PUT" && id)
    return [201, "dap-aggregation-job-resp", await aggregate(task, Buffer.from(id, "base64url"), body)];
  if (!leads && what === "aggregate_shares" && method === "POST") return [200, "dap-aggregate-share", await helperShare(task, body)];
  throw new Problem("unrecognizedMessage", 404);
}

const server = createServer(async (asked, answer) => {
  const open = { "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "content-type", "Access-Control-Allow-Methods": "GET, PUT" };
  if (asked.method === "OPTIONS") return answer.writeHead(204, open).end();
  try {
    const [status, kind, body] = await answered(asked);
    answer.writeHead(status, { ...open, "Content-Type": kind.includes("/") ? kind : `application/${kind}` }).end(body);
  } catch (error) {
    const known = error instanceof Problem;
    const [status, title] = known ? [error.status, error.message] : [500, "internal"];
    const taskid = asked.url.match(/^\/tasks\/([\w-]{43})\//)?.[1]; // clients cannot read a problem without it
    const problem = { type: `urn:ietf:params:ppm:dap:error:${title}`, title, status, taskid };
    answer.writeHead(status, { ...open, "Content-Type": "application/problem+json" }).end(JSON.stringify(problem));
  }
});
server.listen(config.port, "127.0.0.1", () => {
  console.log(`${config.role} http://127.0.0.1:${server.address().port}/ ${STATEMENT}`);
  if (role === ROLE.leader) lead();
});
