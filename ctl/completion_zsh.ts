/** The script of `bxctl completion zsh`. Pure. */
import { type Choice, quoted, type Step, valueGroups, type Values } from "./completion_steps.ts";

/** A script for `eval` after `compinit`, or for a directory of `fpath` under the name `_bxctl`. */
export function zshScript(steps: readonly Step[]): string {
  const groups = [...valueGroups(steps)];
  return `#compdef bxctl
# Completion of bxctl for zsh, made by: bxctl completion zsh
# Nothing of Boxmaker runs while you type: all words are in here.

_bxctl() {
  local at='' typed='' option='' word
  local -a choices
  integer index
  # What stands before the word that is completed.
  for ((index = 2; index < CURRENT; index++)); do
    word=$words[index]
    if [[ -n $option ]]; then
      option=''
      continue
    fi
    case $word in
      (${groups.flatMap(([, options]) => options).join("|")}) option=$word ;;
      (-*) ;;
      (*)
        typed=\${typed:+$typed }$word
        case $typed in
          (${steps.filter(({ path }) => path !== "").map(({ path }) => quoted(path)).join("|")})
            at=$typed
            ;;
        esac
        ;;
    esac
  done
  if [[ -z $option && $PREFIX == --*=* ]]; then
    option=\${PREFIX%%=*}
    compset -P 1 '*='
  fi
  if [[ -n $option ]]; then
    case $option in
${groups.map(([values, options]) => `      (${options.join("|")}) ${offer(values)} ;;`).join("\n")}
    esac
    (( $#choices )) && _describe -t values value choices
  elif [[ $PREFIX == -* ]]; then
    case $at in
${steps.map(optionsCase).join("\n")}
    esac
    _describe -o -t options option choices
  elif [[ $typed == $at ]]; then
    case $at in
${steps.map(nextCase).join("\n")}
    esac
    (( $#choices )) && _describe -t commands command choices
  fi
}

if [[ \${funcstack[1]-} == _bxctl ]]; then
  _bxctl "$@"
else
  compdef _bxctl bxctl
fi
`;
}

/** Offers what may stand here: words come to `choices`. */
function offer(values: Values, about: readonly Choice[] = []): string {
  if (values === "files") return "_files";
  if (values === "directories") return "_files -/";
  const choices = [...about.map(described), ...values.map(quoted)];
  return choices.length === 0 ? ":" : `choices=(${choices.join(" ")})`;
}

/** A word with what it does, as `_describe` takes it. */
function described({ word, about }: Choice): string {
  return quoted(`${word.replaceAll(":", "\\:")}:${about}`);
}

function optionsCase({ path, options }: Step): string {
  const choices = options.map(({ word, about }) => ({ word: `--${word}`, about }));
  return `      (${quoted(path)}) ${offer([], choices)} ;;`;
}

function nextCase({ path, next, operand }: Step): string {
  return `      (${quoted(path)}) ${offer(operand, next)} ;;`;
}
