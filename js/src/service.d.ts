/**
 * Requests and answers of the service's routes that pages may use (setting `cors_origins`). These are types alone: send
 * JSON with `fetch` and the header `Authorization: Bearer`. Whoever opens a page can read its token.
 */

/** What an arm is called. */
export type Label = string | boolean | number;

/** A column of a context, and which of its rules a cell breaks; never a value. */
export interface Fault {
  column: string;
  rule: string;
}

/** RFC 9457: the body of every refusal, but of flags. `type` is `urn:dpbandits:` and a name that stays. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail?: string;
  id?: string;
  reason?: "context" | "available" | "candidates";
  faults?: Fault[];
}

export interface DecisionRequest {
  /** Yours: the same id and body have the same answer. */
  id: string;
  user?: string | number | null;
  context?: Record<string, unknown> | null;
  candidates?: unknown[] | null;
  available?: unknown[] | null;
  arm?: Label | null;
  deferred?: boolean;
}

/** `arm` if the policy has arms or actions, else `index`; `action` if it has no arms. Times are seconds since 1970. */
export interface Decision {
  id: string;
  release: number;
  fallback: boolean;
  propensity: number | null;
  arm?: Label;
  index?: number;
  action?: number[] | Label | Record<string, Label>;
  expires_at?: number;
  would_choose?: Label | Record<string, Label>;
  reason?: "context" | "available" | "user" | "user-has-had-all" | "no-rounds-left";
  faults?: Fault[];
  /** Of the user, if the policy has a readout. */
  group?: "policy" | "control";
}

export interface DecisionsRequest {
  decisions: DecisionRequest[];
}

/** One of the two. */
export interface DecisionResult {
  decision?: Decision;
  problem?: Problem;
}

export interface Decisions {
  results: DecisionResult[];
}

export interface CheckRequest {
  contexts: Record<string, unknown>[];
}

/** A declared value is used for what is `replaced`; `ignored` is the number of members that are no columns. */
export interface Check {
  fits: boolean;
  faults: Fault[];
  replaced: Fault[];
  ignored: number;
}

export interface Checks {
  results: Check[];
}

export interface Status {
  status:
    | "deferred"
    | "pending"
    | "counted"
    | "defaulted"
    | "late"
    | "abandoned"
    | "expired"
    | "lost"
    | "refused"
    | "fallback";
}

export interface RewardRequest {
  reward: number | boolean;
  /** Of the policy's readout, by name; a value that is left out or is no number counts as the public default. */
  metrics?: Record<string, unknown> | null;
}

export interface Outcome {
  outcome: "counted" | "late" | "duplicate";
}

export interface RewardsRequest {
  rewards: { decision: string; reward: number | boolean; metrics?: Record<string, unknown> | null }[];
}

/** One of the two. */
export interface OutcomeResult {
  outcome?: "counted" | "late" | "duplicate";
  problem?: Problem;
}

export interface Outcomes {
  results: OutcomeResult[];
}

export interface FlagsRequest {
  context?: Record<string, unknown> | null;
}

/** What OFREP calls an evaluation; an error in place of a value if the context cannot be read. */
export interface Flag {
  key: string;
  reason?: "SPLIT" | "STATIC" | "DEFAULT";
  variant?: string;
  value?: Label;
  metadata?: Record<string, unknown>;
  errorCode?: string;
  errorDetails?: string;
}

export interface Flags {
  flags: Flag[];
}

/** The body of a refusal of flags. */
export interface FlagProblem {
  key?: string;
  errorCode: string;
  errorDetails: string;
}

/** Method and path -> what is sent, and what is answered with a status of 200. Reports of devices are sent by `Device`. */
export interface Routes {
  "POST /v1/policies/{policy}/decisions": { request: DecisionRequest; answer: Decision };
  "POST /v1/policies/{policy}/decisions:batch": { request: DecisionsRequest; answer: Decisions };
  "POST /v1/policies/{policy}/decisions:check": { request: CheckRequest; answer: Checks };
  "GET /v1/policies/{policy}/decisions/{decision}": { request: never; answer: Status };
  "PUT /v1/policies/{policy}/decisions/{decision}/reward": { request: RewardRequest; answer: Outcome };
  "POST /v1/policies/{policy}/decisions/{decision}:activate": { request: never; answer: Status };
  "POST /v1/policies/{policy}/decisions/{decision}:abandon": { request: never; answer: Status };
  "POST /v1/policies/{policy}/rewards:batch": { request: RewardsRequest; answer: Outcomes };
  "POST /ofrep/v1/evaluate/flags/{policy}": { request: FlagsRequest; answer: Flag };
  "POST /ofrep/v1/evaluate/flags": { request: FlagsRequest; answer: Flags };
}
