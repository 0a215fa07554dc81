/** Locally private decisions in a browser: choose by what a server publishes, report privately. */
export { indexedStore, openDevice } from "./device.js";
export { Refused } from "./refused.js";
