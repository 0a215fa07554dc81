import { openDevice } from "dpbandits";
import { decide } from "dpbandits/decide";
import type { Options } from "dpbandits/distributed";
import type { Routes } from "dpbandits/service";
import { statement } from "dpbandits/statement";

const device = await openDevice({ url: "/v1/local/tips", epsilon: 1, budget: 3 });
const words: string = statement(device, 3);
const arm: string | null = decide<string>({}, { age: 44 });
type Decision = Routes["POST /v1/policies/{policy}/decisions"]["answer"];
export { arm, words };
export type { Decision, Options };
