/**
 * One person's device: one choice, one charge, one report, across tabs, reloads and crashes.
 *
 * All that a device remembers is one record of a store. Every step changes it in one transaction: choosing closes
 * an earlier choice with a report of nobody; reporting charges the budget, draws the report, keeps it and forgets
 * the choice. What is drawn is sent when its deadline is there, which depends on nobody's data.
 *
 * Its `protocol` reads what the server publishes, draws a report and sends it: `local.js` or `distributed.js`.
 */
import { expect } from "./refused.js";
import { decided, grouped, pointOf, shareOf } from "./contract.js";
import { hex } from "./blake2b.js";

const DIGITS = 30;
const MOST_SENT = 1000;

/** A number as its shortest decimals say it, in 10^-30ths: what a budget is counted in. */
function amount(number) {
  const [, whole, part = "", power = 0] = /^(\d+)(?:\.(\d+))?(?:e(.+))?$/.exec(number) ?? [];
  const zeros = DIGITS - part.length + Number(power);
  expect(whole && number > 0 && zeros >= 0, "parameter", "amount");
  return BigInt(whole + part) * 10n ** BigInt(zeros);
}

/** What a page is told of a choice. */
const shown = ({ id, label }) => ({ id, arm: label });

/** A device over a store. Build it with `opened`. */
export class Device {
  #options;
  #protocol;
  #contract;
  #published;

  constructor(options, protocol) {
    this.#options = options;
    this.#protocol = protocol;
  }

  get #kind() {
    return this.#contract.classes.findLastIndex((one) => one <= this.#options.epsilon);
  }

  /** What one report costs: the largest class that its owner accepts. */
  get epsilon() {
    return this.#contract.classes[this.#kind];
  }

  /** The contract, and the version that was read last. */
  get policy() {
    return { contract: this.#contract, published: this.#published };
  }

  /** One step at a time over all tabs, each in one transaction. */
  #step(change) {
    const { locks, store, account } = this.#options;
    return locks.request(`dpbandits ${account}`, () => store.update(account, change));
  }

  async #fetch(what, request) {
    const { url, token, fetch } = this.#options;
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const reply = await fetch(`${url}/${what}`, { headers, ...request });
    expect(reply.ok, "network", reply.status);
    return reply;
  }

  /** Take what the server publishes now: of the contract that this account is of, and no version again. */
  async refresh() {
    const text = await (await this.#fetch("policy")).text();
    const [contract, published] = await this.#protocol.read(text);
    expect(contract.classes[0] <= this.#options.epsilon, "epsilon", "too large");
    const budget = amount(this.#options.budget);
    expect(!contract.readout || budget <= amount(contract.classes[0]), "parameter", "budget of more than one report");
    await this.#step((state) => {
      state.fingerprint ??= contract.fingerprint;
      expect(state.fingerprint === contract.fingerprint, "pinned", "another contract");
      state.budget ??= budget;
      expect(state.budget === budget, "pinned", "another budget");
      const [before, now] = [state.version ?? -1, published.version];
      expect(now >= before, "retired", "this version");
      expect(now > before || state.published === published.text, "changed", "this version");
      state.spent ??= 0n;
      state.choices ??= 0;
      state.reports ??= [];
      state.version = now;
      state.published = published.text;
    });
    this.#contract = contract;
    this.#published = published;
  }

  /** The newest version that any tab has taken: all decide by it. */
  #newest(state) {
    expect(state.fingerprint === this.#contract.fingerprint, "cleared", "storage");
    if (this.#published.text !== state.published) this.#published = this.#protocol.published(state.published, this.#contract);
    return this.#published;
  }

  #decided(state, context, available, group) {
    return decided(this.#contract, this.#newest(state), pointOf(this.#contract, context), available, group);
  }

  /**
   * The arm for this context, and the choice's number. An open choice is over: its report says nothing.
   * Refused, before a context is read, where the budget does not cover all reports that are then owed.
   */
  choose(context, { available } = {}) {
    return this.#step((state) => {
      this.#newest(state);
      this.#afford(state, state.open ? 2n : 1n);
      this.#protocol.allow?.(state);
      this.#close(state, null);
      const id = ++state.choices;
      const group = grouped(this.#contract);
      state.open = { id, at: this.#options.now(), ...this.#decided(state, context, available, group) };
      return shown(state.open);
    });
  }

  /** The arm alone: no report follows, and nothing is charged. */
  decide(context, { available } = {}) {
    return this.#step((state) => this.#decided(state, context, available).label);
  }

  /** The choice that has no report yet, as after a reload; null where there is none. */
  current() {
    return this.#step(({ open }) => (open ? shown(open) : null));
  }

  /**
   * Charge, draw and keep the report of a choice. True where this call did; false where it was done before, or
   * the choice is over: nothing is drawn or charged twice. A reward after the deadline is none.
   */
  report(id, reward) {
    return this.#step((state) => {
      this.#newest(state);
      expect(id > 0 && id <= state.choices, "unknown", "no such choice");
      if (state.open?.id !== id) return false;
      this.#close(state, this.#due(state.open) ? null : shareOf(this.#contract, reward));
      return true;
    });
  }

  /** Close a choice that is due and send what is; how many were confirmed. `early` sends all that is drawn. */
  send({ early } = {}) {
    return this.#options.locks.request(`dpbandits ${this.#options.account} sending`, async () => {
      const due = await this.#step((state) => {
        this.#newest(state);
        if (state.open && this.#due(state.open)) this.#close(state, null);
        return state.reports.filter((one) => early || this.#due(one)).slice(0, MOST_SENT);
      });
      if (due.length) {
        await this.#protocol.send(due, (...all) => this.#fetch(...all), (change) => this.#step(change));
        const sent = due.map(({ bytes }) => hex(bytes));
        await this.#step((state) => {
          state.reports = state.reports?.filter(({ bytes }) => !sent.includes(hex(bytes)));
        });
      }
      return due.length;
    });
  }

  /** Reports that were drawn and not yet confirmed. */
  unsent() {
    return this.#step(({ reports }) => (reports ?? []).map(({ bytes }) => bytes.slice()));
  }

  /** Epsilon that was charged. */
  spent() {
    return this.#step(({ spent }) => Number(`${spent ?? 0}e-${DIGITS}`));
  }

  /** Past its deadline; also where the clock was set back to before the choice. */
  #due({ at }) {
    const waited = this.#options.now() - at;
    return !(waited >= 0 && waited < this.#contract.deadline);
  }

  #afford(state, reports) {
    expect(reports * amount(this.epsilon) <= state.budget - state.spent, "budget", "too small");
  }

  #close(state, share) {
    const { open } = state;
    if (!open) return;
    this.#afford(state, 1n);
    state.spent += amount(this.epsilon);
    state.reports.push({ at: open.at, ...this.#protocol.draw(this.#contract, this.#kind, open, share) });
    delete state.open;
  }
}

/** An address in one spelling: a server takes escapes, more slashes and dots after its name for the same. */
function spelled(address) {
  const url = new URL(address, globalThis.document?.baseURI);
  url.hostname = url.hostname.replace(/\.+$/, "");
  const parts = url.pathname.split("/").filter(Boolean);
  return [url.origin, ...parts.map((part) => encodeURIComponent(decodeURIComponent(part)))].join("/");
}

/** A device of this protocol, of this site's storage by default, which the browser is asked to keep. */
export async function opened(options, protocol) {
  const url = spelled(options.url);
  if (!options.store) globalThis.navigator?.storage?.persist?.().catch(() => {}); // a page may go on without it
  const own = {
    account: url,
    store: options.store ?? indexedStore(),
    locks: globalThis.navigator?.locks,
    fetch: (...all) => fetch(...all),
    now: () => Date.now(),
  };
  const device = new Device({ ...own, ...options, url }, protocol);
  await device.refresh();
  return device;
}

/** Records in an IndexedDB database: every change is one transaction, on disk when it is answered. */
export function indexedStore(name = "dpbandits") {
  let opened;
  const open = () =>
    new Promise((done, fail) => {
      const asked = indexedDB.open(name, 1);
      asked.onupgradeneeded = () => asked.result.createObjectStore("devices");
      asked.onerror = () => {
        opened = undefined;
        fail(asked.error);
      };
      asked.onsuccess = () => {
        asked.result.onversionchange = asked.result.onclose = () => {
          asked.result.close();
          opened = undefined;
        };
        done(asked.result);
      };
    });
  return {
    async update(key, change) {
      const database = await (opened ??= open());
      return new Promise((done, fail) => {
        const transaction = database.transaction("devices", "readwrite", { durability: "strict" });
        const records = transaction.objectStore("devices");
        const asked = records.get(key);
        let value, thrown;
        asked.onsuccess = () => {
          try {
            const state = asked.result ?? {};
            value = change(state);
            records.put(state, key);
          } catch (error) {
            thrown = error;
            transaction.abort();
          }
        };
        transaction.oncomplete = () => done(value);
        transaction.onabort = () => fail(thrown ?? transaction.error);
      });
    },
  };
}
