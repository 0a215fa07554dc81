/** Local privacy: one server reads every report, and noise protects the report before it leaves. */
import { BIT, readContract, readPublished } from "./contract.js";
import { opened } from "./device.js";
import { coded, joined, law } from "./law.js";
import { WORD, below, word } from "./words.js";

const FORMAT = 0xd1;
const READOUT = 0xd3;
const SENT = /^\{"spec":(.*?),"published":(.*)\}$/s; // as the service writes it: canonical JSON has spaces there

/** The report of a choice: where a person's data meets randomness. All reports draw the same words first. */
function draw({ spec, digest, classes, readout }, kind, choice, share) {
  const nonce = crypto.getRandomValues(new Uint8Array(8));
  const { version, cell, cells, turned, silent, blind, group } = choice;
  const numbered = new Uint8Array(Uint32Array.of(version).buffer);
  if (readout) {
    const one = word() < (share ?? readout.missing) * 2 ** 64; // a missing outcome counts before the noise
    return { bytes: joined([READOUT], digest, numbered, nonce, [group], law(BIT, 1, classes[0]).encode(0, one)) };
  }
  const { encode } = law(spec.mechanism, cells, classes[kind]);
  const anywhere = Number(below(BigInt(cells)));
  const coin = word();
  const nobody = blind || share === null || !(cell >= 0 && cell < cells);
  const positive = (silent || coin < (share ?? 0) * 2 ** 64) !== turned;
  const payload = nobody ? encode(anywhere, coin < WORD / 2n) : encode(cell, positive);
  return { bytes: joined([FORMAT], digest, numbered, nonce, spec.epsilons.length ? [kind] : [], payload) };
}

/** How a device reads, draws and sends. */
export const LOCAL = {
  read(text) {
    const [, spec, version] = SENT.exec(text) ?? [];
    const contract = readContract(spec);
    return [contract, readPublished(version, contract)];
  },
  published: readPublished,
  draw,
  async send(due, fetch) {
    const body = joined(...due.flatMap(({ bytes }) => [coded(bytes.length, 65535), bytes]));
    await fetch("reports", { method: "POST", body });
  },
};

/**
 * A device of this site's storage, which the browser is asked to keep.
 *
 * `url` is the local policy's, as https://host/v1/local/tips; `epsilon` what its owner accepts for one report,
 * `budget` for all. `account`, `store`, `locks`, `fetch` and `now` are by default the whole url and the browser's own:
 * however a page spells the url, it is one account. A query is left out.
 */
export const openDevice = (options) => opened(options, LOCAL);
