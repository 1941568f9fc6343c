/**
 * What a mutant changes, and the tables of the changes that are made. Nothing here asks whether the
 * result compiles: the tests run without a check of types.
 */

/** A change of a source: what stands from `start` to `end` (in UTF-16 units) becomes `text`. */
export interface Change {
  /** What is done, in a word or two: part of a mutant's name. */
  readonly operator: string;
  readonly start: number;
  readonly end: number;
  readonly text: string;
  /** The function or method that it stands in, or an empty text. */
  readonly within: string;
}

/** Each comparison with what it is turned into. The negation is among them. */
export const COMPARISONS: Readonly<Record<string, readonly string[]>> = {
  "===": ["!=="],
  "!==": ["==="],
  "<": ["<=", ">="],
  "<=": ["<", ">"],
  ">": [">=", "<="],
  ">=": [">", "<"],
};

export const ARITHMETIC: Readonly<Record<string, string>> = {
  "+": "-",
  "-": "+",
  "*": "/",
  "/": "*",
  "%": "*",
};

export const ASSIGNMENTS: Readonly<Record<string, string>> = {
  "+=": "-=",
  "-=": "+=",
  "*=": "/=",
  "??=": "=",
  "||=": "=",
  "&&=": "=",
};

/** Methods with the one that is called instead. */
export const METHODS: Readonly<Record<string, string>> = {
  some: "every",
  every: "some",
  min: "max",
  max: "min",
  startsWith: "endsWith",
  endsWith: "startsWith",
  indexOf: "lastIndexOf",
  lastIndexOf: "indexOf",
  strictObject: "object",
};

/** Methods whose call is left out: what they are called on stands in its place. */
export const LEFT_OUT: readonly string[] = [
  ...["filter", "slice", "subarray", "sort", "map", "replace", "replaceAll", "padEnd", "padStart"],
  ...["toLowerCase", "toUpperCase", "trim", "optional", "nullable", "refine", "regex"],
];

/** Functions whose argument stands in place of their call. */
export const PASSED_THROUGH: readonly string[] = ["Object.freeze"];

/** Methods that take a test: what it answers is turned round. */
export const PREDICATES: readonly string[] = [
  ...["some", "every", "filter", "find", "findIndex", "findLast", "refine"],
];

/** A part of a regular expression: what stands from `start` to `end` becomes `text`. */
export type PatternChange = Omit<Change, "within">;

/** What one token of a regular expression is turned into. */
function changesOfToken(token: string): readonly string[] {
  switch (token) {
    case "^":
    case "$":
      return [""];
    case "+":
      return ["*"];
    case "*":
      return ["+"];
    case "?":
      return [""];
    case "[^":
      return ["["];
    case "[":
      return ["[^"];
    default: {
      const [, least = "", most] = /^\{(\d+)(?:,(\d+))?\}$/.exec(token) ?? [];
      const above = (number: string) => String(Number(number) + 1);
      const below = (number: string) => String(Number(number) - 1);
      if (least === "") return [];
      return most === undefined
        ? [`{${above(least)}}`]
        : [`{${above(least)},${most}}`, `{${least},${above(most)}}`, `{${least},${below(most)}}`];
    }
  }
}

// An escape, the inside of a class and the head of a group are passed over.
const TOKEN = /\\.|\(\?(?:[:=!]|<[=!])|\[\^?|\]|\{\d+(?:,\d+)?\}|[\s\S]/g;

/** The changes of the regular expression `pattern`, which starts at `offset` of its source. */
export function patternChanges(pattern: string, offset: number): PatternChange[] {
  const found: PatternChange[] = [];
  let inClass = false;
  for (const { 0: token, index } of pattern.matchAll(TOKEN)) {
    if (inClass && token !== "]") continue;
    inClass = token === "[" || token === "[^";
    for (const text of changesOfToken(token)) {
      const changed = pattern.slice(0, index) + text + pattern.slice(index + token.length);
      if (!isPattern(changed)) continue;
      const start = offset + index;
      const operator = `${token} to ${text === "" ? "nothing" : text}`;
      found.push({ operator, start, end: start + token.length, text });
    }
  }
  return found;
}

/** Whether `text`, with whatever stands in its `${…}`, is a regular expression. */
function isPattern(text: string): boolean {
  try {
    new RegExp(text.replace(/\$\{\w+\}/g, "x"));
    return true;
  } catch {
    return false;
  }
}
