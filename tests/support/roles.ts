/** A home with a configuration for each of the three programs, and the flags and command line of each. */
import { lockOf as ctlLockOf, readCtlConfig } from "../../ctl/config.ts";
import { lockOf as loopLockOf, readLoopConfig } from "../../loop/config.ts";
import { denoFlags, type Role } from "../../proto/locks.ts";
import { DEADLINE_MS, flagsFor, PROJECT, TempHome } from "./broker.ts";

export class RolesHome extends TempHome {
  readonly configs: Readonly<Record<Role, string>> = {
    brokerd: this.configFile,
    loopd: `${this.root}/loopd.toml`,
    bxctl: `${this.root}/bxctl.toml`,
  };

  /** `llama`: `host:port` of the model server. */
  constructor(llama = "127.0.0.1:8080") {
    super();
    const paths = `[paths]\nhome = "${this.home}"\n`;
    Deno.writeTextFileSync(
      this.configs.loopd,
      `${paths}[broker]\nsocket = "${this.layout.brokerSocket}"\n[llama]\nurl = "http://${llama}"\n`,
    );
    Deno.writeTextFileSync(this.configs.bxctl, paths);
  }

  /** The flags of `role`, as the one table gives them for its configuration. */
  flags(role: Role): string[] {
    switch (role) {
      case "brokerd":
        return flagsFor(this);
      case "loopd":
        return denoFlags(loopLockOf(readLoopConfig(this.configs.loopd, undefined)));
      case "bxctl":
        return denoFlags(ctlLockOf(readCtlConfig({ config: this.configs.bxctl }, undefined)));
    }
  }

  /** Runs `role` with `args` and its configuration under `flags`, to its end. */
  async run(
    role: Role,
    args: readonly string[],
    flags: readonly string[] = this.flags(role),
  ): Promise<{ code: number; stdout: string; stderr: string }> {
    const folder = { brokerd: "broker", loopd: "loop", bxctl: "ctl" }[role];
    const main = new URL(`${folder}/main.ts`, PROJECT).pathname;
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", ...flags, main, ...args, "--config", this.configs[role]],
      cwd: PROJECT,
      env: { BOXMAKER_HOME: "", NO_COLOR: "1" },
      signal: AbortSignal.timeout(DEADLINE_MS),
    }).output();
    const text = new TextDecoder();
    return { code, stdout: text.decode(stdout), stderr: text.decode(stderr) };
  }
}
