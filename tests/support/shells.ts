/** The real shells, completing command lines with a script of bxctl's. */
import { existsSync } from "node:fs";
import type { Shell } from "../../ctl/commands.ts";
import { TempDir } from "./scripts.ts";

/** How long a shell may take for all lines of a test, in milliseconds. */
const DEADLINE_MS = 240_000;

export function hasShell(shell: Shell): boolean {
  return ["/bin", "/usr/bin"].some((folder) => existsSync(`${folder}/${shell}`));
}

/** Before the words offered for a line stands this line. */
const NEXT = "== next line";

/**
 * Each harness is given the script's path and then command lines; it prints for each `NEXT` and the words
 * that the shell offers at the line's end.
 */
const HARNESS = {
  // The words are split as bash splits them, an = apart; what stands in them has no quotes here.
  bash: `source "$1"; shift
    complete -p bxctl >&2
    for line; do
      echo '${NEXT}'
      read -r -a COMP_WORDS <<<"\${line//=/ = }"
      [[ $line == *' ' ]] && COMP_WORDS+=("")
      COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)) COMP_LINE="$line" COMP_POINT=\${#line}
      _bxctl bxctl
      for word in "\${COMPREPLY[@]}"; do echo "$word"; done
    done`,
  // Only its line editor completes, so it has a terminal of its own, and what it would offer is written down.
  zsh: `zmodload zsh/zpty
    export SCRIPT=$1 OUT=$2; shift 2
    zpty terminal zsh -f -i
    zpty -w terminal 'PS1= ; stty -echo; source $SETUP; print ready-$((40 + 2))'
    zpty -r terminal output '*ready-42*'
    for line; do
      print '${NEXT}' >>$OUT
      zpty -w -n terminal $line$'\\t'
      zpty -r terminal output '*completed-42*'
      zpty -w -n terminal $'\\x15'
    done
    zpty -d terminal
    cat $OUT`,
  fish: `source $argv[1]
    for line in $argv[2..-1]
      echo '${NEXT}'
      complete -C $line | string replace -r '\\t.*' ''
    end
    exit 0`,
} as const satisfies Record<Shell, string>;

const ZSH_SETUP = `autoload -Uz compinit; compinit -u -D
  source $SCRIPT
  bindkey '^I' complete-word
  bindkey '^U' kill-whole-line
  unsetopt autolist automenu beep; LISTMAX=100000
  zstyle ':completion:*' insert-tab false
  compadd() {
    if [[ \${@[1,(i)(-|--)]} == *-[OAD]' '* ]]; then builtin compadd "$@"; return; fi
    local -a hits
    builtin compadd -A hits "$@"
    (( $#hits )) && print -rl -- $hits >>$OUT
    builtin compadd "$@"
  }
  completed() { print completed-$((40 + 2)); comppostfuncs=(completed) }
  comppostfuncs=(completed)`;

/**
 * What `shell` offers at the end of each of `lines`, in the order of the alphabet, with `script` loaded and
 * in the folder `cwd`. Fails where anything runs bxctl meanwhile.
 */
export async function offered(
  shell: Shell,
  script: string,
  lines: readonly string[],
  cwd = "/",
): Promise<string[][]> {
  using place = new TempDir();
  const file = place.write(`script.${shell}`, script);
  const ran = `${place.path}/ran`;
  Deno.chmodSync(place.write("bin/bxctl", `#!/bin/sh\n: >${ran}\n`), 0o755);
  const args = {
    bash: ["--norc", "--noprofile", "-c", HARNESS.bash, "bash", file],
    zsh: ["-f", "-c", HARNESS.zsh, "zsh", file, `${place.path}/out`],
    fish: ["--no-config", "-c", HARNESS.fish, file],
  } as const;
  const { code, stdout, stderr } = await new Deno.Command(shell, {
    args: [...args[shell], ...lines],
    cwd,
    env: {
      PATH: `${place.path}/bin:/usr/bin:/bin`,
      HOME: place.path,
      SETUP: place.write("setup", ZSH_SETUP),
      TERM: "xterm",
    },
    stdin: "null",
    signal: AbortSignal.timeout(DEADLINE_MS),
  }).output();
  const said = new TextDecoder().decode(stderr);
  if (code !== 0) throw new Error(`${shell} ended with ${code}: ${said}`);
  if (existsSync(ran)) throw new Error("something ran bxctl");
  const [before, ...answers] = new TextDecoder().decode(stdout).split(`${NEXT}\n`);
  if (before !== "" || answers.length !== lines.length) throw new Error(`${before}${said}`);
  // zsh may hand the same words over twice.
  const words = (answer: string) => new Set(answer.split("\n").filter((word) => word !== ""));
  return answers.map((answer) => [...words(answer)].sort());
}
