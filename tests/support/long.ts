/** How many cases a property test tries. */

/** `usual` cases, or `long` ones in `deno task test:long`. */
export function runs(usual: number, long: number): number {
  return Deno.env.get("BOXMAKER_LONG") === "1" ? long : usual;
}
