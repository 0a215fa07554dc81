import type { Device, Options as Local } from "./index.js";

export interface Options extends Omit<Local, "token" | "url" | "epsilon" | "budget" | "fetch"> {
  /** Where the collector publishes: `policy` below it is the text of Python's `DapCollector.policy`. */
  url: string;
  /** The most that its owner accepts for one report: the contract's epsilon divided by its reports of a user. */
  epsilon: number;
  /** The most for all reports; no more are made than the contract allows. */
  budget: number;
  /** Seconds after a choice at which its report leaves: a public number, the same for all devices. */
  deadline: number;
  /** The module `@divviup/dap` 0.9.1, or a promise of it; by default it is imported by its name. */
  dap?: PromiseLike<unknown> | object;
  fetch?: typeof fetch;
}

/**
 * A device that reports to two aggregators, once a version. Beside the codes of a local device, `over` refuses a second
 * choice of a version, and choices of the last one: use `decide`. After `network`, reports that a leader refused are
 * gone and stay charged; others are sent by the next `send`. `unsent` has the ids of reports.
 */
export function openDevice(options: Options): Promise<Device>;
