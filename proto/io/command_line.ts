/** The command line of a daemon: `serve` and its options. */
import { parseArgs, type ParseArgsConfig } from "node:util";
import { causes } from "./log.ts";

type Options = NonNullable<ParseArgsConfig["options"]>;
type Values<O extends Options> = ReturnType<
  typeof parseArgs<{ options: O; allowPositionals: true; strict: true }>
>["values"];

export type ServeLine<O extends Options> =
  | { readonly kind: "help" }
  | { readonly kind: "usage"; readonly problem: string }
  | { readonly kind: "serve"; readonly values: Values<O> };

/** Reads `args`; `--help` is known beside `options`. */
export function readServeLine<const O extends Options>(
  args: string[],
  options: O,
): ServeLine<O> {
  if (args.includes("--help")) return { kind: "help" };
  try {
    const { values, positionals } = parseArgs({
      args,
      options,
      allowPositionals: true,
      strict: true,
    });
    return positionals.length === 1 && positionals[0] === "serve"
      ? { kind: "serve", values }
      : { kind: "usage", problem: "the one command is serve" };
  } catch (error) {
    return { kind: "usage", problem: causes(error) };
  }
}
