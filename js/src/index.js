/** Locally private decisions in a browser: choose by what a server publishes, report privately. */
export { indexedStore } from "./device.js";
export { openDevice } from "./local.js";
export { Refused } from "./refused.js";
