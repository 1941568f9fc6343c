/**
 * Finds the mutants of a source: a plugin of `deno lint`, which reads TypeScript and hands out the syntax
 * tree. It finds no fault; it reports one message, the list of changes as JSON.
 */
import {
  ARITHMETIC,
  ASSIGNMENTS,
  type Change,
  COMPARISONS,
  LEFT_OUT,
  METHODS,
  PASSED_THROUGH,
  patternChanges,
  PREDICATES,
} from "./changes.ts";

type Node = Deno.lint.Node;

/** What `table` has for `key` itself: `toString` is a method like others. */
function ownOf<T>(table: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

/** The nodes around `node`, the nearest first. */
function* around(node: Node): Generator<Node> {
  let at: Node | Deno.lint.TSParameterProperty = node;
  while (at.type !== "Program" && at.type !== "TSParameterProperty" && "parent" in at) {
    at = at.parent;
    if (at.type !== "TSParameterProperty") yield at;
  }
}

function isFunction(node: Node) {
  return node.type === "FunctionDeclaration" || node.type === "FunctionExpression" ||
    node.type === "ArrowFunctionExpression";
}

/** The nearest named function or method around `node`, or an empty text. */
function nameAround(node: Node, textOf: (node: Node) => string): string {
  for (const outer of around(node)) {
    if (outer.type === "MethodDefinition") return textOf(outer.key);
    if (outer.type === "FunctionDeclaration" && outer.id) return outer.id.name;
    const isNamed = outer.type === "VariableDeclarator" && outer.init && isFunction(outer.init);
    if (isNamed && outer.id.type === "Identifier") return outer.id.name;
  }
  return "";
}

/** The name of a called function, `Object.freeze` or `freeze` of `x.freeze()`. */
function calledName({ callee }: Deno.lint.CallExpression): { full: string; method: string } {
  if (callee.type === "Identifier") return { full: callee.name, method: "" };
  if (callee.type !== "MemberExpression" || callee.property.type !== "Identifier") {
    return { full: "", method: "" };
  }
  const method = callee.property.name;
  const object = callee.object.type === "Identifier" ? callee.object.name : "";
  return { full: `${object}.${method}`, method };
}

/** Whether a text says something to a person: it is in a thrown error or a description. */
function isSaid(node: Node): boolean {
  for (const outer of around(node)) {
    if (outer.type === "ThrowStatement") return true;
    if (outer.type === "CallExpression" && calledName(outer).method === "describe") return true;
    if (outer.type === "NewExpression" && outer.callee.type === "Identifier") {
      if (/(Error|Unreadable|Failed|Opened)$/.test(outer.callee.name)) return true;
    }
  }
  return false;
}

/** Several words: a sentence for a person. */
const SENTENCE = /[\p{L},:]{1,} [\p{L}(]/u;

/** Whether the negation of `test` is made by another change: a comparison flips, a `!` goes. */
function flipsItself(test: Node): boolean {
  return (test.type === "BinaryExpression" && Object.hasOwn(COMPARISONS, test.operator)) ||
    (test.type === "UnaryExpression" && test.operator === "!") ||
    (test.type === "Literal" && typeof test.value === "boolean");
}

function isUnreachable(node: Node): boolean {
  const inner = node.type === "ReturnStatement" ? node.argument : null;
  const call = node.type === "ExpressionStatement" ? node.expression : inner;
  return call?.type === "CallExpression" && calledName(call).full === "assertNever";
}

/** Whether `body` is one statement that another change drops. */
function isDropped(body: Node): boolean {
  const [only, more] = body.type === "BlockStatement" ? body.body : [body];
  return only !== undefined && more === undefined &&
    (only.type === "ThrowStatement" || only.type === "ExpressionStatement" ||
      only.type === "ContinueStatement");
}

const rule: Deno.lint.Rule = {
  create(context) {
    const { sourceCode } = context;
    const source = sourceCode.text;
    const found: Change[] = [];
    const textOf = (node: Node) => source.slice(...node.range);
    const change = (
      node: Node,
      operator: string,
      text: string,
      [start, end]: readonly [number, number] = node.range,
    ) => {
      const within = nameAround(node, textOf);
      const same = found.some((other) =>
        other.start === start && other.end === end && other.text === text
      );
      if (source.slice(start, end) !== text && !same) {
        found.push({ operator, start, end, text, within });
      }
    };
    /** Changes the token `token` that stands between two nodes. */
    const changeToken = (node: Node, left: Node, right: Node, token: string, text: string) => {
      const start = source.indexOf(token, left.range[1]);
      if (start < 0 || start >= right.range[0]) throw new Error(`no ${token} in ${textOf(node)}`);
      change(node, `${token} to ${text || "nothing"}`, text, [start, start + token.length]);
    };
    const negate = (test: Node) => {
      if (!flipsItself(test)) change(test, "negate", `!(${textOf(test)})`);
    };
    /** Drops each of `parts` of a list or table, with the comma that it needs. */
    const dropEach = (parts: readonly (Node | null)[]) => {
      parts.forEach((part, index) => {
        if (part === null) return;
        const next = parts[index + 1];
        const before = parts[index - 1];
        const start = next || !before ? part.range[0] : before.range[1];
        const end = next ? next.range[0] : part.range[1];
        change(part, "drop element", "", [start, end]);
      });
    };
    const isInFunction = (node: Node) => [...around(node)].some(isFunction);
    const changeText = (node: Node, value: string) => {
      if (isSaid(node) || SENTENCE.test(value)) return;
      change(node, value === "" ? "fill text" : "empty text", value === "" ? '"mutant"' : '""');
    };
    const changeNumber = (node: Deno.lint.Literal, value: number) => {
      for (const other of [value + 1, value - 1, 0]) {
        if (value < 0 || other < 0 || (other === 0 && value === 0)) continue;
        change(node, `${textOf(node)} to ${other}`, String(other));
      }
      if (value === 0 && node.parent.type !== "UnaryExpression") {
        change(node, "0 to -1", "(-1)");
      }
    };

    return {
      IfStatement: ({ test, consequent, alternate }) => {
        negate(test);
        if (!alternate && !isDropped(consequent)) change(test, "never", "false");
      },
      WhileStatement: ({ test }) => negate(test),
      DoWhileStatement: ({ test }) => negate(test),
      ForStatement: ({ test }) => {
        if (test) negate(test);
      },
      ConditionalExpression: ({ test }) => negate(test),
      BinaryExpression: (node) => {
        const { left, right, operator } = node;
        for (const other of ownOf(COMPARISONS, operator) ?? []) {
          changeToken(node, left, right, operator, other);
        }
        const arithmetic = ownOf(ARITHMETIC, operator);
        const isText = [left, right].some((side) =>
          side.type === "TemplateLiteral" ||
          (side.type === "Literal" && typeof side.value === "string")
        );
        if (arithmetic && !isText) changeToken(node, left, right, operator, arithmetic);
      },
      LogicalExpression: (node) => {
        const { left, right, operator } = node;
        if (operator === "??") {
          change(node, "drop ??", "", [left.range[1], right.range[1]]);
          return;
        }
        const [other, neutral] = operator === "&&" ? ["||", "true"] : ["&&", "false"];
        changeToken(node, left, right, operator, other);
        for (const side of [left, right]) {
          const isSame = side.type === "LogicalExpression" && side.operator === operator;
          if (!isSame) change(side, "drop operand", neutral);
        }
      },
      UnaryExpression: (node) => {
        if (node.operator === "!") change(node, "drop !", textOf(node.argument));
      },
      UpdateExpression: (node) => {
        const other = node.operator === "++" ? "--" : "++";
        change(node, `${node.operator} to ${other}`, textOf(node).replace(node.operator, other));
      },
      AssignmentExpression: (node) => {
        const other = ownOf(ASSIGNMENTS, node.operator);
        if (other) changeToken(node, node.left, node.right, node.operator, other);
      },
      Literal: (node) => {
        const { parent, value } = node;
        if (parent.type === "TSLiteralType" || parent.type.startsWith("Import")) return;
        if (parent.type.startsWith("Export") || parent.type === "ExpressionStatement") return;
        if (parent.type === "Property" && parent.key === node && !parent.computed) return;
        if (typeof value === "boolean") change(node, `${value} to ${!value}`, String(!value));
        if (typeof value === "number") changeNumber(node, value);
        if (typeof value === "string") changeText(node, value);
        const raw = textOf(node);
        if (!(value instanceof RegExp) && !raw.startsWith("/")) return;
        const last = raw.lastIndexOf("/");
        const [start, end] = node.range;
        for (const { operator, text, ...at } of patternChanges(raw.slice(1, last), start + 1)) {
          change(node, operator, text, [at.start, at.end]);
        }
        for (let flag = start + last + 1; flag < end; flag += 1) {
          change(node, `drop flag ${source[flag]}`, "", [flag, flag + 1]);
        }
      },
      TemplateLiteral: (node) => {
        const [start, end] = node.range;
        const content = source.slice(start + 1, end - 1);
        const { parent } = node;
        if (parent.type !== "TaggedTemplateExpression") return changeText(node, content);
        if (textOf(parent.tag) !== "String.raw") return;
        change(node, "empty text", "``");
        for (const { operator, text, ...at } of patternChanges(content, start + 1)) {
          change(node, operator, text, [at.start, at.end]);
        }
      },
      MemberExpression: (node) => {
        const { object, property, computed } = node;
        // `optional` is true of the whole chain that follows too.
        const between = source.slice(object.range[1], property.range[0]);
        if (between.includes("?.")) {
          changeToken(node, object, property, "?.", computed ? "" : ".");
        }
      },
      CallExpression: (node) => {
        const { callee, arguments: given } = node;
        const { full, method } = calledName(node);
        const [argument] = given;
        if (source.startsWith("?.(", callee.range[1])) {
          const start = callee.range[1];
          change(node, "?. to nothing", "", [start, start + 2]);
        }
        if (PASSED_THROUGH.includes(full) && argument) {
          // As a statement it is dropped as a whole.
          if (node.parent.type !== "ExpressionStatement") {
            change(node, `drop ${full}`, textOf(argument));
          }
        }
        if (callee.type !== "MemberExpression") return;
        const other = ownOf(METHODS, method);
        if (other !== undefined) {
          change(callee.property, `${method} to ${other}`, other);
        }
        if (LEFT_OUT.includes(method)) {
          change(node, `drop ${method}`, "", [callee.object.range[1], node.range[1]]);
        }
        if (PREDICATES.includes(method) && argument?.type === "ArrowFunctionExpression") {
          const { body } = argument;
          if (body.type !== "BlockStatement") negate(body);
        }
      },
      ReturnStatement: (node) => {
        if (node.argument === null) {
          change(node, "drop return", ";");
          return;
        }
        const outer = [...around(node)].find(isFunction);
        const typed = outer && "returnType" in outer ? outer.returnType?.typeAnnotation : null;
        if (!typed || isUnreachable(node)) return;
        const isTest = typed.type === "TSBooleanKeyword" || typed.type === "TSTypePredicate";
        if (isTest && node.argument) negate(node.argument);
      },
      ExpressionStatement: (node) => {
        const { expression } = node;
        const isSuper = expression.type === "CallExpression" && expression.callee.type === "Super";
        const isDirective = expression.type === "Literal";
        if (!isSuper && !isDirective && !isUnreachable(node)) change(node, "drop statement", ";");
      },
      ThrowStatement: (node) => change(node, "drop throw", ";"),
      ContinueStatement: (node) => change(node, "drop continue", ";"),
      BreakStatement: (node) => {
        if (node.parent.type !== "SwitchCase") change(node, "drop break", ";");
      },
      SwitchCase: (node) => {
        const [first] = node.consequent;
        const last = node.consequent.at(-1);
        if (!first || !last || isUnreachable(first) || first.type === "BreakStatement") return;
        change(node, "drop case", "break;", [first.range[0], last.range[1]]);
      },
      ArrayExpression: (node) => {
        const { elements } = node;
        const isTable = elements.every((element) => element.type === "Literal");
        if (isTable || !isInFunction(node)) dropEach(elements);
      },
      ObjectExpression: (node) => {
        if (!isInFunction(node)) dropEach(node.properties);
      },
      "Program:exit": (node) => {
        found.sort((a, b) => a.start - b.start || a.end - b.end);
        context.report({ node, message: JSON.stringify(found) });
      },
    };
  },
};

const plugin: Deno.lint.Plugin = { name: "mutate", rules: { mutants: rule } };
export default plugin;
