// Checked by tsc alone: what a page writes with the service's types, and three mistakes that it must find.
import type { Decision, Outcome, Problem, Routes } from "dpbandits/service";

type Route = keyof Routes;

async function sent<R extends Route>(
  route: R,
  path: string,
  body?: Routes[R]["request"],
): Promise<Routes[R]["answer"]> {
  const [method] = route.split(" ");
  const reply = await fetch(path, { method, body: JSON.stringify(body) });
  if (!reply.ok) throw new Error(((await reply.json()) as Problem).title);
  return reply.json();
}

const decide = "POST /v1/policies/{policy}/decisions";
const one: Decision = await sent(decide, "/v1/policies/offers/decisions", {
  id: "visit-1",
  user: "u-17",
  context: { age: 44, region: "west" },
});
const told: Outcome = await sent(
  "PUT /v1/policies/{policy}/decisions/{decision}/reward",
  `/v1/policies/offers/decisions/${one.id}/reward`,
  { reward: true },
);
const why: string = one.fallback ? (one.faults ?? []).map(({ column, rule }) => `${column} ${rule}`).join() : told.outcome;

// @ts-expect-error - a decision needs an id
await sent(decide, "/v1/policies/offers/decisions", { user: "u-17" });
// @ts-expect-error - an outcome is one of three words
const never: boolean = told.outcome === "refused";
// @ts-expect-error - the arm may be left out
const arm: string = one.arm;
export { arm, never, why };
