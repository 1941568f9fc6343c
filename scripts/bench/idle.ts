/** The least that brokerd could be: what it imports, a socket, and the line that says so. */
import fs from "node:fs";
import { parse } from "smol-toml";
import * as z from "zod";

const path = Deno.args[0];
if (path === undefined) throw new Error("usage: idle.ts SOCKET");
// Named, so that no import is left out as unused.
if ([fs.openSync, parse, z.object].some((imported) => typeof imported !== "function")) Deno.exit(1);
const listener = Deno.listen({ transport: "unix", path });
console.error("idle: ready");
for await (const conn of listener) conn.close();
