// Uses the installed npm package by its name, in Node and in a browser: `run` returns a line or throws.
import { openDevice } from "dpbandits";
import { decide, read } from "dpbandits/decide";
import "dpbandits/mechanisms";
import { statement } from "dpbandits/statement";

/** `given` has an exported policy with decisions of the library, and a local policy as the service writes it. */
export async function run(given, options = {}) {
  const policy = read(JSON.stringify(given.policy));
  const wrong = given.cases.filter(([context, arm]) => decide(policy, context) !== arm);
  if (wrong.length) throw new Error(`${wrong.length} of ${given.cases.length} decisions differ`);
  const sent = [];
  const fetch = async (url, request) => {
    if (request?.method === "POST") sent.push(request.body);
    return { ok: true, text: async () => given.local, json: async () => ({}) };
  };
  const device = await openDevice({ url: "https://shop.example/v1/local/tips", epsilon: 1, budget: 2, fetch, ...options });
  const { id } = await device.choose({ age: 44 });
  if (!(await device.report(id, 1)) || (await device.report(id, 1))) throw new Error("a report is made once");
  if ((await device.send({ early: true })) !== 1 || sent.length !== 1) throw new Error("one report leaves");
  if ((await device.spent()) !== 1) throw new Error("a report is charged");
  if (!statement(device, 2)) throw new Error("there is no statement");
  return `${given.cases.length} decisions equal the library's, one report`;
}
