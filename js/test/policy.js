/** A local policy's answer, as the service writes it: a question over ages and regions. */
import { readFileSync } from "node:fs";
import { digestOf, hex } from "../src/blake2b.js";

const { vectors, readouts } = JSON.parse(
  readFileSync(new URL("../../reproduction/results/report-vectors.json", import.meta.url), "utf8"),
);

/** The same with another number of the version, or another contract. */
export function version({ number = 4, epsilon = 1, name = "one-bit" } = {}) {
  const { spec, published } = vectors.find((one) => one.name === name);
  const contract = spec.replace(/"epsilon": [\d.]+/, `"epsilon": ${epsilon === 1 ? "1.0" : epsilon}`);
  const told = published
    .replace(/"version": \d+/, `"version": ${number}`)
    .replace(/"spec": "\w+"/, `"spec": "${hex(digestOf(contract, 4))}"`);
  return `{"spec":${contract},"published":${told}}`;
}

const spaced = (told) => JSON.stringify(told).replaceAll('":', '": ').replaceAll(',"', ', "');

/** A readout with its version, or with other members of either. */
export function readout({ changes = {}, other = {} } = {}) {
  const { spec, published } = readouts.find((one) => one.name === "readout-questions");
  const contract = spaced({ ...JSON.parse(spec), ...changes });
  const told = { ...JSON.parse(published), ...other, spec: hex(digestOf(contract, 4)) };
  return `{"spec":${contract},"published":${spaced(told)}}`;
}

export const policyText = (number) => version({ number });
