/** A refusal; it depends on the contract, the version and the budget alone, and never on a context. */
export class Refused extends Error {
  constructor(code: string, about: unknown);
  /**
   * `not offered`, `malformed`, `law`: of what the server publishes; `pinned`, `retired`, `changed`: another
   * contract or budget, an older version, other contents; `epsilon`, `budget`: the owner's limits; `network`;
   * `cleared`: storage is gone; `unknown`: no such choice; `parameter`: an argument.
   */
  readonly code: string;
}

/** One person's context: by the names of the contract's columns, or their values in order. */
export type Context = Record<string, unknown> | readonly unknown[];

/** What an arm is called: its label, or its number where the contract has none. */
export type Arm = string | number | boolean;

export interface Choice {
  readonly id: number;
  readonly arm: Arm;
}

/** Where a device's one record is kept: `change` is applied in one transaction, kept when the promise is resolved. */
export interface Store {
  update<T>(key: string, change: (state: any) => T): Promise<T>;
}

export interface Options {
  /** Of the local policy: https://host/v1/local/NAME; however it is spelled, it is one account. */
  url: string;
  /** A token of the scope `report`, where the server wants one. */
  token?: string;
  /** The most that its owner accepts for one report. */
  epsilon: number;
  /** The most for all reports of this account; in a readout that of its one report. */
  budget: number;
  /** Name of the record; by default the url in one spelling. */
  account?: string;
  store?: Store;
  locks?: { request<T>(name: string, work: () => Promise<T>): Promise<T> };
  fetch?: (url: string, request?: any) => Promise<any>;
  now?: () => number;
}

export interface Asked {
  /** Arms that may be given now; all of them where it is left out. It stays on the device. */
  available?: Iterable<Arm>;
}

export class Device {
  private constructor();
  /** What one report costs. */
  readonly epsilon: number;
  /** The contract and the version that were read last. */
  readonly policy: { readonly contract: any; readonly published: any };
  /** Fetch what the server publishes now. */
  refresh(): Promise<void>;
  /** The arm for this context; an earlier choice without a report is over. */
  choose(context: Context, asked?: Asked): Promise<Choice>;
  /** The arm alone: no report follows and nothing is charged. */
  decide(context: Context, asked?: Asked): Promise<Arm>;
  /** The choice that has no report yet. */
  current(): Promise<Choice | null>;
  /** Charge, draw and keep the report of a choice: true where this call did. */
  report(id: number, reward: unknown): Promise<boolean>;
  /** Send what is due; how many reports were confirmed. */
  send(options?: { early?: boolean }): Promise<number>;
  /** Reports that were drawn and not yet confirmed. */
  unsent(): Promise<Uint8Array[]>;
  /** Epsilon that was charged. */
  spent(): Promise<number>;
}

export function openDevice(options: Options): Promise<Device>;

/** Records in an IndexedDB database of this name. */
export function indexedStore(name?: string): Store;
