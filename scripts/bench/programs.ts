/** Programs of this machine that the bench holds Boxmaker against, and what to say where there are none. */
import { display } from "../../proto/escape.ts";

/** Runs `command` to its end, which must be 0. Throws with its last words otherwise. */
export async function runProgram(
  command: string,
  args: readonly string[],
  options: Pick<Deno.CommandOptions, "cwd" | "env"> = {},
): Promise<string> {
  const program = new Deno.Command(command, { args: [...args], stdin: "null", ...options });
  const { code, stdout, stderr } = await program.output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${text(stderr).slice(-500)}`);
  return text(stdout);
}

/** What `make` gives; null, said on stderr with the reason, where this machine cannot do it. */
export async function orNothing<T>(what: string, make: () => Promise<T>): Promise<T | null> {
  try {
    return await make();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    console.error(`bench: no figure against ${what}: ${display(why)}`);
    return null;
  }
}
