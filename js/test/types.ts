import { Refused, indexedStore, openDevice } from "dpbandits";
import { decide } from "dpbandits/decide";
import { openDevice as openDistributed } from "dpbandits/distributed";
import "dpbandits/mechanisms";
import { statement } from "dpbandits/statement";

const device = await openDevice({ url: "/v1/local/tips", epsilon: 1, budget: 3, store: indexedStore() });
const { id, arm } = await device.choose({ age: 44, region: "south" }, { available: ["mail"] });
const sent: number = (await device.report(id, 1)) ? await device.send({ early: true }) : 0;
const words: string = statement(device, 3) + (new Refused("budget", "too small").code as string);
const other: typeof arm | null = decide({}, [44, "south"], sent);
const several: { price: number } | null = decide<{ price: number }>({}, [44, "south"]);
const two = await openDistributed({ url: "/tips", epsilon: 1, budget: 1, deadline: 60, dap: import("dpbandits") });
await two.report((await two.choose([44, "south"])).id, 1);
export { other, several, words };
