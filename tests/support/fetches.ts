/** Calls of http_fetch through a real brokerd whose configuration leads some names to a test's https site. */
import assert from "node:assert/strict";
import type { FinalToolResponse } from "../../proto/messages.ts";
import { namesOf, type TempHome } from "./broker.ts";
import { callTool, contentOf, noContainerOf, toolHome, type ToolOptions } from "./containers.ts";
import { tomlText } from "./grants.ts";
import { CA_FILE } from "./https_site.ts";
import { noneLeftWith } from "./scripts.ts";

/** Names that the grant and the site's certificate have. */
export const NAMES = ["page.example", "www.page.example", "other.example"] as const;
/** A granted name that the certificate does not have. */
export const UNNAMED = "third.page.example";
/** Names that the grant does not have. */
export const NOT_GRANTED = ["evil.example", "page.example.evil.example"] as const;

export interface EgressTable {
  /** Names and the addresses they lead to. All the names above lead to the site unless given. */
  readonly hosts?: Readonly<Record<string, string>>;
  /** The site's address alone unless given. */
  readonly private?: readonly string[];
  /** The authority of the site's certificate unless given; null for none. */
  readonly caFile?: string | null;
}

/** `[egress]` of brokerd.toml for a site at the address `site`. */
function egress(site: string, table: EgressTable): string {
  const all = [...NAMES, UNNAMED, ...NOT_GRANTED].map((name) => [name, site] as const);
  const { hosts = Object.fromEntries(all), private: named = [site], caFile = CA_FILE } = table;
  return [
    `[egress]\nprivate = ${JSON.stringify(named)}\n`,
    caFile === null ? "" : `ca_file = ${tomlText(caFile)}\n`,
    "[egress.hosts]\n",
    ...Object.entries(hosts).map(([name, address]) => `"${name}" = "${address}"\n`),
  ].join("");
}

/** A home whose grant lets page.example, what is below it, and other.example be fetched. */
export async function fetchHome(
  site: string,
  table: EgressTable = {},
  options: Pick<ToolOptions, "runner"> = {},
): Promise<TempHome> {
  const home = await toolHome({ ...options, more: egress(site, table) });
  const hosts = ["page.example", "*.page.example", "other.example"];
  const constraints = `[constraints]\nhosts = ${JSON.stringify(hosts)}\n`;
  home.grant("fetch", `tool = "http_fetch"\nmode = "auto"\n${constraints}`);
  return home;
}

export function answerTo(home: TempHome, url: string): Promise<FinalToolResponse> {
  return callTool(home, "http_fetch", { url });
}

/** The content of a fetch. */
export interface Page {
  readonly status: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The page at `url`, which must come. */
export async function pageAt(home: TempHome, url: string): Promise<Page> {
  return JSON.parse(await contentOf(home, "http_fetch", { url }));
}

/** Why fetching `url`, which must fail, failed, in words. */
export async function failureAt(home: TempHome, url: string): Promise<string> {
  const answer = await answerTo(home, url);
  assert(answer.status === "failed", `${url}: ${JSON.stringify(answer)}`);
  return answer.message;
}

/** What such a failure begins with where the proxy said no; its reasons follow. */
export const PROXY_REFUSED = "the egress proxy refused the connection; refused: ";

/** Waits until nothing of any fetch of `home` is left: no container, no proxy, no socket. */
export async function nothingLeftOf(home: TempHome): Promise<void> {
  const proxies = `${home.layout.broker}/egress`;
  await noContainerOf(home);
  await noneLeftWith(proxies);
  assert.deepEqual(namesOf(proxies), []);
}

/** The lines in which brokerd told of refused connections. */
export function refusedLines(stderr: string): string[] {
  return stderr.split("\n").filter((line) => line.includes("refused"));
}
