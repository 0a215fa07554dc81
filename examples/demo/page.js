/** The page: one's own report, and the map that everybody's reports make. All numbers are the device's own. */
import { openDevice } from "./js/src/index.js";
import { pointOf } from "./js/src/contract.js";
import { law } from "./js/src/law.js";
import { statement } from "./js/src/statement.js";
import { WORD } from "./js/src/words.js";
import { memoryLocks, memoryStore } from "./js/test/memory.js";
import { crowd } from "./crowd.js";
import { drawArms, drawBest, drawLine, drawParts, drawn, least, most, valueOf } from "./maps.js";

const REPORTS = 5; // that the budget covers
const FRAME = 120; // milliseconds a version is shown for, of a recording
const one = (id) => document.getElementById(id);
const says = (id, text) => (one(id).textContent = text);
const shows = (id, seen = true) => (one(id).hidden = !seen);
const grouped = (number) => number.toLocaleString("en");
const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");

/** lies/2^64 in per cent, rounded to so many digits after the point. */
const percent = (lies, digits) => {
  const whole = ((2n * lies * 10n ** BigInt(digits + 2) + WORD) / (2n * WORD)).toString().padStart(digits + 1, "0");
  return `${whole.slice(0, -digits)}.${whole.slice(-digits)}%`;
};

/** What the bytes of a report are, in order: [bytes, name, what it says, whether it depends on the person]. */
function fieldsOf(bytes, { spec, classes }, epsilon, cells) {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const sizes = [
    [1, "format", "the kind of report"],
    [4, "contract", "digest of what everybody agreed on"],
    [4, "version", `the map that is answered: ${view.getUint32(5, true)}`],
    [8, "nonce", "random, so that it counts once"],
    ...(spec.epsilons.length ? [[1, "class", `epsilon ${classes[bytes[17]]}`]] : []),
  ];
  let at = 0;
  const fields = sizes.map(([size, name, told]) => [bytes.slice(at, (at += size)), name, told, false]);
  const code = bytes.slice(at).reduceRight((sum, byte) => 256 * sum + byte, 0);
  const { keep } = law(spec.mechanism, cells, epsilon).thresholds;
  const answer = { code, told: sayingOf(code, cells), lies: WORD - keep, keep, others: 2 * cells - 1 };
  return [[...fields, [bytes.slice(at), "answer", `says “${answer.told}”: drawn by chance`, true]], answer];
}

const sayingOf = (code, cells) => `${cells > 1 ? `part ${(code >> 1) + 1} of ${cells}, ` : ""}${code % 2 ? "−" : "+"}`;

/** Whatever a step throws is shown: a refusal of the device, or a server that is gone. */
function tells(error) {
  const budget = error.code === "budget" ? " Your device has spent what you allowed it, and says nothing more." : "";
  says("refused", `${error.code ? "Refused" : "It did not work"}: ${error.message}.${budget}`);
  shows("refused");
}

let working = false;

/** One step at a time of one's own report: a second click meanwhile is none. At its end the page says what was spent,
 * and what the step names has the focus, not before: a key that is pressed there is no second click. */
const step = (work) => async () => {
  if (working) return;
  working = true;
  shows("refused", false);
  let next = null;
  try {
    next = await work();
  } catch (error) {
    tells(error);
    one("refused").scrollIntoView({ block: "nearest" });
  } finally {
    await showOwn().catch(tells);
    working = false;
  }
  if (next) one(next).focus();
};

const reached = (...all) =>
  fetch(...all).catch(() => {
    throw new Error("the server is gone; run “make demo” again, and open the address it prints");
  });

const where = await (await fetch("where.json")).json();
const { recorded } = where;
const playing = { at: 0 };
const told = (at) => `{"spec":${recorded.spec},"published":${recorded.versions[at]}}`;
const epsilon = recorded ? JSON.parse(recorded.spec).privacy.epsilon : where.epsilon;
const budget = REPORTS * epsilon;
const device = await openDevice({
  url: recorded ? "recorded" : where.url,
  epsilon,
  budget,
  ...(recorded
    ? { store: memoryStore(), locks: memoryLocks(), fetch: async () => ({ ok: true, text: async () => told(playing.at) }) }
    : { token: where.token, fetch: reached }),
});

const context = () => ({ age: Number(one("age").value), sleep: Number(one("sleep").value) });
const me = () => pointOf(device.policy.contract, context());
const history = [];
const versions = new Map(); // that this page has seen, by number
let asked = null; // the choice, and where its person stands: it stays in this page
let open = null; // the choice that the page shows

function drawMap() {
  const { published, contract } = device.policy;
  const { version } = published;
  versions.set(version, published);
  const value = valueOf(published);
  if (history.at(-1)?.[2] !== version) history.push([version * contract.spec.reports_per_version, value, version]);
  says("version", version);
  says("counted", `at least ${grouped(version * contract.spec.reports_per_version)}`);
  says("value", `${(100 * value).toFixed(1)}%`);
  drawArms(one("arms"), published, me());
  drawParts(one("parts"), published);
  drawLine(one("line"), history);
}

function moved() {
  const { age, sleep } = context();
  says("age-says", age);
  says("sleep-says", sleep);
  drawArms(one("arms"), device.policy.published, me());
}

/** The open choice, what was spent and what waits to be sent, as the device has them: of all tabs together. */
async function showOwn() {
  const [choice, spent, { length }] = [await device.current(), await device.spent(), await device.unsent()];
  open = choice;
  shows("asked", choice !== null);
  if (choice) says("arm", choice.arm);
  one("ask").disabled = choice !== null; // who asks anew pays for the choice that is open
  says("spent", `${spent} of ${budget}`);
  says("waiting", length);
  says("send", length > 1 ? `Send all ${length} now` : "Send it now");
  shows("send", length > 0 && !recorded);
}

const ask = step(async () => {
  one("ask").disabled = true;
  await device.refresh();
  drawMap();
  if (await device.current()) throw new Error("another tab has asked: answer that first");
  const point = me();
  const choice = await device.choose(context());
  asked = { id: choice.id, point };
  shows("made", false);
  says("sent", "");
  return "good";
});

const report = (reward) =>
  step(async () => {
    const { id } = open;
    if (!(await device.report(id, reward))) throw new Error("another tab answered it, and nothing was charged again");
    shows("asked", false);
    const made = (await device.unsent()).at(-1);
    if (made) showReport(made, reward, asked?.id === id ? asked.point : null);
    return "made-head";
  });

/** What an honest device would have answered; null where this page does not know. */
function honest(version, point, reward) {
  const published = versions.get(version);
  if (!published || !point) return null;
  const { cell, turned } = published.at(point);
  return 2 * cell + Number((published.silent || reward === 1) === Boolean(turned));
}

function showReport(bytes, reward, point) {
  const { contract, published } = device.policy;
  const version = new DataView(bytes.buffer, bytes.byteOffset).getUint32(5, true);
  const { cells } = versions.get(version) ?? published;
  const [fields, answer] = fieldsOf(bytes, contract, device.epsilon, cells);
  const truth = honest(version, point, reward);
  says("length", bytes.length);
  one("bytes").replaceChildren(
    ...fields.map(([part, name, told, drawn]) => {
      const box = document.createElement("div");
      const [above, below] = [document.createElement("dt"), document.createElement("dd")];
      above.textContent = hexOf(part);
      below.textContent = `${name}: ${told}`;
      if (drawn) box.className = "drawn";
      box.append(above, below);
      return box;
    }),
  );
  const { lies, keep, others } = answer;
  says("percent", percent(lies, 2));
  const honestly = truth === null ? "" : sayingOf(truth, cells);
  says(
    "this-one",
    truth === null
      ? "Whether it does, this page has forgotten: of a choice it keeps no context."
      : truth === answer.code
        ? `This one says the truth, “${honestly}”; nobody but this page can tell.`
        : `This one lies: the truth is “${honestly}”; nobody but this page can tell.`,
  );
  const otherwise = others === 1 ? "the other answer" : `one of the ${others} others, equally likely`;
  says(
    "why",
    `The device draws 64 random bits and says the truth where they are below ${grouped(keep)}, which is 2^64 ` +
      `e^ε / (e^ε + ${others}), rounded down, with ε = ${device.epsilon} (1 − 10^−9); else it says ` +
      `${otherwise}. Anybody’s report is each of the ${others + 1} answers with a probability above 0, so none of ` +
      "them proves anything.",
  );
  says("lie", `${grouped(lies)} / 2^64 = ${percent(lies, 18)}`);
  const odds = Number((keep * BigInt(others) * 10n ** 15n) / lies) / 1e15;
  says("ratio", `${odds.toFixed(10)}, below e^${device.epsilon} = ${Math.exp(device.epsilon).toFixed(10)}`);
  says("sent", recorded ? "Nothing is sent from here." : "");
  shows("made");
}

const send = step(async () => {
  const count = await device.send({ early: true });
  const [them, answers] = count === 1 ? ["it", "one answer"] : ["them", `${count} answers`];
  says("sent", count ? `The server has ${them}: it counts ${answers}, and knows no more.` : "Another tab sent it.");
  return "sent";
});

// -- the crowd ------------------------------------------------------------------------------------------

const gate = { open: Promise.resolve(), release: null };

function pause() {
  gate.open = new Promise((done) => (gate.release = done));
  says("run", "Go on");
}

function goOn() {
  gate.release();
  gate.release = null;
  says("run", "Pause");
}

async function run() {
  if (gate.running) return gate.release ? goOn() : pause();
  gate.running = true;
  says("run", "Pause");
  shows("refused", false);
  try {
    await (recorded ? replay() : live(Number(one("pages").value)));
    says("run", recorded ? "Play again" : "Let more report");
  } catch (error) {
    tells(error);
    says("progress", one("refused").textContent); // where who pressed it looks
    says("run", "Try again");
  } finally {
    gate.running = false;
  }
}

async function live(count) {
  one("pages").disabled = true;
  try {
    for await (const done of crowd({ ...where, fetch: reached, count, go: () => gate.open })) {
      says("progress", `${grouped(done)} of ${grouped(count)} pages have reported`);
      await device.refresh();
      drawMap();
    }
  } finally {
    one("pages").disabled = false;
  }
}

async function replay() {
  history.length = 0;
  for (const at of recorded.versions.keys()) {
    await gate.open;
    if (at < playing.at) continue;
    playing.at = at;
    await device.refresh();
    drawMap();
    says("progress", `version ${at} of ${recorded.versions.length - 1}`);
    await new Promise((next) => setTimeout(next, FRAME));
  }
}

// -- begin ----------------------------------------------------------------------------------------------

const { contract } = device.policy;
says("statement", statement(device, budget));
says("deadline", `${grouped(contract.deadline / 3600000)} hours`);
says("bounds", `${(100 * most).toFixed(1)}%, ${(100 * least).toFixed(1)}%`);
one("legend").replaceChildren(
  ...contract.spec.arms.map((label, arm) => {
    const key = document.createElement("span");
    const swatch = drawn("svg", { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" });
    swatch.append(drawn("rect", { class: `arm-${arm}`, width: 10, height: 10 }));
    key.className = "key";
    key.append(swatch, ` ${arm + 1} ${label}${arm + 1 < contract.spec.arms.length ? ", " : ""}`);
    return key;
  }),
);
drawBest(one("best"));
drawMap();
moved();
await showOwn();
const [left] = (await device.unsent()).slice(-1);
if (left) showReport(left, null, null); // before a reload; whether it helped, nobody kept
for (const id of ["age", "sleep"]) one(id).addEventListener("input", moved);
one("context").addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
document.addEventListener("visibilitychange", () => document.hidden || working || showOwn().catch(tells));
one("good").addEventListener("click", report(1));
one("bad").addEventListener("click", report(0));
one("send").addEventListener("click", send);
one("run").addEventListener("click", run);
one("run").disabled = false;
if (recorded) {
  says("mode", "A recording: your report is real, and is sent to nobody. With a server: make demo.");
  says("run", "Play the recording");
  says(
    "crowd-told",
    "A server published these maps, one after every fifty reports of 2,000 simulated pages. With make demo it does so before your eyes.",
  );
  shows("how-many", false);
} else {
  says("mode", `One local policy on this machine, epsilon ${epsilon} a report.`);
  const link = document.createElement("a");
  link.href = `../desk/local/${encodeURIComponent(where.name)}`;
  link.textContent = "The desk";
  one("desk").append(link, " shows the same policy to a privacy officer, for the token that the terminal printed.");
}
document.body.dataset.ready = "yes";
