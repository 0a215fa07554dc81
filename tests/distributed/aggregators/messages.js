/** Messages of DAP-09 and VDAF-08 that `@divviup/dap` and `@divviup/prio3` do not read or write themselves. */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { Prio3Histogram } from "@divviup/prio3";
import { AeadId, CipherSuite, KdfId, KemId } from "hpke-js";

export const suite = new CipherSuite({
  kem: KemId.DhkemX25519HkdfSha256,
  kdf: KdfId.HkdfSha256,
  aead: AeadId.Aes128Gcm,
});
export const ROLE = { collector: 0, client: 1, leader: 2, helper: 3 };
export const TIME_INTERVAL = 1;

/** Reads a message from its start. A message that is too short or too long throws. */
export class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  take(count) {
    if (this.at + count > this.bytes.length) throw new Error("the message is too short");
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }
  uint(size) {
    return this.take(size).readUIntBE(0, size);
  }
  uint64() {
    return this.take(8).readBigUInt64BE();
  }
  opaque(size) {
    return this.take(this.uint(size));
  }
  end() {
    if (this.at !== this.bytes.length) throw new Error("the message is too long");
  }
  sealed() {
    return { id: this.uint(1), enc: this.opaque(2), payload: this.opaque(4) };
  }
}

export function uint(value, size) {
  const bytes = Buffer.alloc(size);
  bytes.writeUIntBE(value, 0, size);
  return bytes;
}

export function opaque(bytes, size = 4) {
  return Buffer.concat([uint(bytes.length, size), bytes]);
}

export function sealedBytes({ id, enc, payload }) {
  return Buffer.concat([uint(id, 1), opaque(enc, 2), opaque(payload)]);
}

/** One uploaded report: `metadata` has 24 bytes, of which the first 16 are the report's id. */
export function readReport(bytes) {
  const reader = new Reader(bytes);
  const metadata = reader.take(24);
  const publicShare = reader.opaque(4);
  const found = { metadata, id: metadata.subarray(0, 16), publicShare, leader: reader.sealed(), helper: reader.sealed() };
  reader.end();
  return found;
}

/** Encrypts a noisy share for the collector. */
export async function seal(publicKey, info, plaintext, aad, id) {
  const recipientPublicKey = await suite.kem.importKey("raw", publicKey);
  const { ct, enc } = await suite.seal({ recipientPublicKey, info }, plaintext, aad);
  return { id, enc: Buffer.from(enc), payload: Buffer.from(ct) };
}

/** Decrypts an input share. `task` is the task's id, and `role` the role of the aggregator that opens. */
export async function openInput(privateKey, task, role, { metadata, publicShare }, { enc, payload }) {
  const recipientKey = await suite.kem.importKey("raw", privateKey, false);
  const info = Buffer.concat([Buffer.from("dap-09 input share"), Buffer.of(ROLE.client, role)]);
  const aad = Buffer.concat([task, metadata, opaque(publicShare)]);
  const plain = Buffer.from(await suite.open({ recipientKey, enc, info }, payload, aad));
  const reader = new Reader(plain);
  if (reader.opaque(2).length) throw new Error("extensions are not supported");
  const share = reader.opaque(4);
  reader.end();
  return share;
}

export function histogram({ length, chunk }) {
  return new Prio3Histogram({ shares: 2, length, chunkLength: chunk });
}

/** Decodes an input share: the leader's holds field elements, and the helper's the seeds of its own. */
async function decodeInput(vdaf, index, bytes) {
  const { flp, xof } = vdaf;
  const reader = new Reader(bytes);
  let measurementShare, proofsShare;
  if (index === 0) {
    measurementShare = flp.field.decode(reader.take(flp.measurementLen * flp.field.encodedSize));
    proofsShare = flp.field.decode(reader.take(flp.proofLen * flp.field.encodedSize));
  } else {
    const expand = (usage, binder, length) =>
      xof.expandIntoVec(flp.field, reader.take(xof.seedSize), vdaf.domainSeparationTag(usage), binder, length);
    measurementShare = await expand(1, Buffer.of(index), flp.measurementLen);
    proofsShare = await expand(2, Buffer.of(1, index), flp.proofLen);
  }
  const blind = reader.take(xof.seedSize);
  reader.end();
  return { measurementShare, proofsShare, blind };
}

/** Prepares one report at aggregator `index`: its state, and its share for the other aggregator. */
export async function prepare(vdaf, verifyKey, index, report, share) {
  const { seedSize } = vdaf.xof;
  const reader = new Reader(report.publicShare);
  const jointRandParts = [0, 1].map(() => Buffer.from(reader.take(seedSize)));
  reader.end();
  const input = await decodeInput(vdaf, index, share);
  const nonce = Buffer.from(report.id);
  return vdaf.prepareInit(verifyKey, index, null, nonce, { jointRandParts }, input);
}

export function readPreparationShare(vdaf, bytes) {
  const { flp, xof } = vdaf;
  const reader = new Reader(bytes);
  const verifiersShare = flp.field.decode(reader.take(flp.verifierLen * flp.field.encodedSize));
  const jointRandomnessPart = Buffer.from(reader.take(xof.seedSize));
  reader.end();
  return { verifiersShare, jointRandomnessPart };
}

/** Checksum of a set of reports: the exclusive or of the SHA-256 digests of their ids. */
export function addToChecksum(checksum, id) {
  const digest = createHash("sha256").update(id).digest();
  return Buffer.from(checksum.map((byte, place) => byte ^ digest[place]));
}
