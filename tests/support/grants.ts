/** Grant files for tests, as text and as what the broker reads from them. Pure. */
import { type GrantSet, type LoadedGrant, readGrant } from "../../broker/grant_rules.ts";
import { utf8 } from "../../proto/text.ts";

/** The fields of a grant file; what is absent is absent in the file, but for what every grant needs. */
export interface GrantFields {
  readonly tool?: string;
  readonly mode?: string;
  readonly max_taint?: string;
  readonly result_class?: string;
  readonly untrusted?: boolean;
  readonly expires?: string;
  readonly hint?: string;
  readonly constraints?: {
    readonly paths?: readonly string[];
    readonly hosts?: readonly string[];
  };
}

/** What every grant needs: an `auto` grant of `read_file` for any session. */
const NEEDED = { tool: "read_file", mode: "auto", max_taint: "secret", result_class: "private" };

/** `value` as TOML writes text. JSON's escapes are TOML's; only DEL stands raw in the one and not the other. */
export function tomlText(value: string): string {
  return JSON.stringify(value).replaceAll("\x7f", "\\u007f");
}

function tomlValue(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(tomlValue).join(", ")}]`;
  return typeof value === "string" ? tomlText(value) : String(value);
}

/** The text of a grant file. */
export function grantFile({ constraints = {}, ...fields }: GrantFields): string {
  const lines = Object.entries({ ...NEEDED, ...fields });
  const covers = Object.entries(constraints);
  return [
    ...lines.map(([key, value]) => `${key} = ${tomlValue(value)}\n`),
    ...(covers.length === 0 ? [] : ["[constraints]\n"]),
    ...covers.map(([key, value]) => `${key} = ${tomlValue(value)}\n`),
  ].join("");
}

/** The grant set of files with these stems, as the broker reads it. */
export function grantSet(files: Readonly<Record<string, GrantFields>>): GrantSet {
  const grants: LoadedGrant[] = [];
  for (const [id, fields] of Object.entries(files)) {
    const loaded = readGrant(`${id}.toml`, utf8(grantFile(fields)));
    if (Array.isArray(loaded)) return { ok: false, problems: loaded };
    grants.push(loaded);
  }
  return { ok: true, grants };
}

/** The one grant of a file with these fields, which must be valid. */
export function grantOf(fields: GrantFields, id = "g"): LoadedGrant {
  const loaded = readGrant(`${id}.toml`, utf8(grantFile(fields)));
  if (Array.isArray(loaded)) throw new Error(`not valid: ${JSON.stringify(loaded)}`);
  return loaded;
}
