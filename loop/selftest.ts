/**
 * Before loopd serves it looks at the model server (contracts 7): does it answer, and does it run tools
 * of its own? Those would go round the broker: no grant, no approval, no record.
 */
import * as z from "zod";
import type { ModelServer, Reply } from "./llama.ts";
import { ModelError } from "./stream.ts";
import { causes } from "../proto/io/log.ts";

export type SelfTest =
  | { readonly status: "ok" }
  | { readonly status: "selftest_failed"; readonly problem: string }
  /** The names of the tools, as the server gives them. */
  | { readonly status: "runs_tools"; readonly tools: readonly string[] };

export interface SelfTestOptions {
  /** How long a server may load its model, in milliseconds. */
  readonly loadingMs: number;
  /** Told once, when the server is still loading. */
  readonly loading: () => void;
  /** How long one answer may take, in milliseconds; 10 s unless given. */
  readonly answerMs?: number;
}

/** How long one answer may take, in milliseconds. */
const ANSWER_MS = 10_000;
/** Between two looks at a server that is loading, in milliseconds. */
const POLL_MS = 200;

/** Tests `server`. */
export async function selfTest(server: ModelServer, options: SelfTestOptions): Promise<SelfTest> {
  try {
    const health = await healthOnceLoaded(server, options);
    if (health.status !== 200) return failed(`GET /health answered ${health.status}`);
    return judge(await server.get("/tools", options.answerMs ?? ANSWER_MS));
  } catch (error) {
    if (!(error instanceof ModelError)) throw error;
    return failed(causes(error));
  }
}

async function healthOnceLoaded(
  server: ModelServer,
  { loadingMs, loading, answerMs = ANSWER_MS }: SelfTestOptions,
): Promise<Reply> {
  const end = performance.now() + loadingMs;
  for (let told = false;;) {
    const health = await server.get("/health", answerMs);
    if (health.status !== 503) return health;
    if (!told) loading();
    told = true;
    if (performance.now() >= end) return health;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function failed(problem: string): SelfTest {
  return { status: "selftest_failed", problem };
}

/** llama.cpp without tools answers 403 (`feature_disabled`), older versions 404. */
function judge({ status, body }: Reply): SelfTest {
  if (status === 403 || status === 404) return { status: "ok" };
  if (status !== 200) return failed(`GET /tools answered ${status}`);
  const tools = listed(body);
  if (tools === null) return failed("GET /tools answered something that is not a list of tools");
  return tools.length === 0 ? { status: "ok" } : { status: "runs_tools", tools };
}

const List = z.array(z.unknown());
/** A list may come wrapped, as `{"tools": […]}`. */
const Wrapped = z.record(z.string(), z.unknown());

function listed(body: string | null): string[] | null {
  let value: unknown;
  try {
    value = JSON.parse(body ?? "");
  } catch {
    return null;
  }
  const list = List.safeParse(value);
  if (list.success) return list.data.map(nameOf);
  const wrapped = Wrapped.safeParse(value);
  if (!wrapped.success) return null;
  const values = Object.values(wrapped.data);
  const lists = values.map((inner) => List.safeParse(inner)).filter(({ success }) => success);
  if (lists.length === 0 && values.length > 0) return null;
  return lists.flatMap(({ data }) => (data ?? []).map(nameOf));
}

const Named = z.union([
  z.object({ tool: z.string() }).transform(({ tool }) => tool),
  z.object({ name: z.string() }).transform(({ name }) => name),
  z.object({ function: z.object({ name: z.string() }) }).transform(({ function: { name } }) =>
    name
  ),
]);

function nameOf(tool: unknown): string {
  const named = Named.safeParse(tool);
  return named.success ? named.data.toWellFormed() : "a tool without a name";
}
