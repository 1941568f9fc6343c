/** The script of `bxctl completion fish`. Pure. */
import { type OptionChoice, type Step, valueGroups, type Values } from "./completion_steps.ts";

/** A script of `complete` commands for fish 3 or later, for `source` or the directory of completions. */
export function fishScript(steps: readonly Step[]): string {
  const withValue = [...valueGroups(steps).values()].flat();
  const paths = steps.filter(({ path }) => path !== "").map(({ path }) => quotedFish(path));
  return `# Completion of bxctl for fish, made by: bxctl completion fish
# Nothing of Boxmaker runs while you type: all words are in here.

# Prints the command so far, as far as it is known, and all words that are no options.
function __bxctl_state
    set -l words (commandline -opc)
    set -l at ''
    set -l typed ''
    set -l value no
    for word in $words[2..-1]
        if test $value = yes
            set value no
            continue
        end
        switch $word
            case ${withValue.join(" ")}
                set value yes
            case '-*'
            case '*'
                set typed (string trim -- "$typed $word")
                if contains -- "$typed" ${paths.join(" ")}
                    set at $typed
                end
        end
    end
    printf '%s\\n' "$at" "$typed"
end

# Whether the command is this one.
function __bxctl_in
    set -l state (__bxctl_state)
    test "$state[1]" = "$argv[1]"
end

# Whether this is all that stands there, but for options.
function __bxctl_next
    set -l state (__bxctl_state)
    test "$state[1]" = "$argv[1]"; and test "$state[2]" = "$argv[1]"
end

complete -c bxctl -e
complete -c bxctl -f
${steps.flatMap(stepLines).join("\n")}
`;
}

function stepLines({ path, next, operand, options }: Step): string[] {
  const at = (test: string) => `complete -c bxctl -n ${quotedFish(`${test} ${quotedFish(path)}`)}`;
  return [
    ...next.map(({ word, about }) =>
      `${at("__bxctl_next")} -a ${quotedFish(word)} -d ${quotedFish(about)}`
    ),
    ...operand.length === 0 ? [] : [`${at("__bxctl_next")} ${offer(operand)}`],
    ...options.map((option) => `${at("__bxctl_in")} ${optionWords(option)}`),
  ];
}

function optionWords({ word, about, values }: OptionChoice): string {
  const value = values === null ? "" : values === "files" ? " -r -F" : ` -x ${offer(values)}`;
  return `-l ${word}${value.trimEnd()} -d ${quotedFish(about)}`;
}

/** Offers what may stand here. */
function offer(values: Values): string {
  if (values === "files") return "-F";
  if (values === "directories") return "-a '(__fish_complete_directories)'";
  return values.length === 0 ? "" : `-a ${quotedFish(values.join(" "))}`;
}

/** `text` as one word of fish. */
function quotedFish(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
