/** A plain verifier in Rust (`rust/`), built on this machine from the crates that Debian packages. */
import { PROJECT } from "../support/roles.ts";
import { runProgram } from "./programs.ts";

/** Where Debian's librust-*-dev packages put their crates. */
const CRATES = "/usr/share/cargo/registry";

/**
 * Builds it below `directory`, which does not exist. Returns the path of the program. Throws where cargo or
 * the crates are missing.
 */
export async function buildVerifier(directory: string): Promise<string> {
  await Deno.stat(CRATES);
  // In a copy: cargo writes beside what it builds.
  Deno.mkdirSync(`${directory}/src`, { recursive: true });
  for (const file of ["Cargo.toml", "src/main.rs"]) {
    Deno.copyFileSync(`${PROJECT}/scripts/bench/rust/${file}`, `${directory}/${file}`);
  }
  await runProgram("cargo", [
    ...["build", "--release", "--offline", "--quiet"],
    ...["--config", 'source.crates-io.replace-with="debian"'],
    ...["--config", `source.debian.directory="${CRATES}"`],
  ], { cwd: directory, env: { CARGO_TARGET_DIR: `${directory}/target` } });
  return `${directory}/target/release/verifier`;
}
