/** The script of `bxctl completion bash`. Pure. */
import { quoted, type Step, valueGroups, type Values } from "./completion_steps.ts";

/** A script of functions for bash 4.4 or later, for `eval` or for the directory of completions. */
export function bashScript(steps: readonly Step[]): string {
  const groups = [...valueGroups(steps)];
  return `# Completion of bxctl for bash, made by: bxctl completion bash
# Nothing of Boxmaker runs while you type: all words are in here.

_bxctl() {
  local current="\${COMP_WORDS[COMP_CWORD]}" at='' typed='' option='' word index
  COMPREPLY=()
  # What stands before the word that is completed. In --tool=shell the = is a word of its own.
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="\${COMP_WORDS[index]}"
    if [[ -n $option ]]; then
      [[ $word == = ]] || option=''
      continue
    fi
    case "$word" in
      ${groups.flatMap(([, options]) => options).join(" | ")}) option="$word" ;;
      -*) ;;
      *)
        typed="\${typed:+$typed }$word"
        case "$typed" in
          ${steps.filter(({ path }) => path !== "").map(({ path }) => quoted(path)).join(" | ")})
            at="$typed"
            ;;
        esac
        ;;
    esac
  done
  if [[ -n $option ]]; then
    [[ $current == = ]] && current=''
    case "$option" in
${groups.map(([values, options]) => `      ${options.join(" | ")}) ${offer(values)} ;;`).join("\n")}
    esac
  elif [[ $current == -* ]]; then
    case "$at" in
${steps.map(optionsCase).join("\n")}
    esac
  elif [[ $typed == "$at" ]]; then
    case "$at" in
${steps.map(nextCase).join("\n")}
    esac
  fi
}

_bxctl_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current")
}

_bxctl_files() {
  # For names with spaces, and a slash after directories.
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$current")
}

complete -F _bxctl bxctl
`;
}

/** Offers what may stand here. */
function offer(values: Values): string {
  if (values === "files") return "_bxctl_files -f";
  if (values === "directories") return "_bxctl_files -d";
  return values.length === 0 ? ":" : `_bxctl_words ${quoted(values.join(" "))}`;
}

function optionsCase({ path, options }: Step): string {
  return `      ${quoted(path)}) ${offer(options.map(({ word }) => `--${word}`))} ;;`;
}

function nextCase({ path, next, operand }: Step): string {
  const words = next.map(({ word }) => word);
  const values = typeof operand === "string" ? operand : [...words, ...operand];
  return `      ${quoted(path)}) ${offer(values)} ;;`;
}
