/**
 * The table of who may use what, as rules of `deno lint` (docs/architecture.md): what each folder may
 * import, which files are pure, and which alone read the command line, end the process or listen.
 * Tests and scripts are free of it.
 */
import { fileURLToPath } from "node:url";

const PROJECT = fileURLToPath(new URL("..", import.meta.url));

/** The folders of the programs, and of what they share. */
const FOLDERS = ["proto", "broker", "loop", "ctl"] as const;
type Folder = (typeof FOLDERS)[number];

/** The pure files beside all of proto/*.ts. Each says so in its first comment. */
export const PURE: Readonly<Record<Exclude<Folder, "proto">, readonly string[]>> = {
  broker: [
    ...["approvals", "args", "changes", "explain", "grant_rules", "hosts", "paths", "policy"],
    "runner",
    ...["podman/args", "podman/outcome", "podman/seccomp", "podman/slots"],
    ...["egress/addresses", "egress/events", "egress/settings", "egress/socks"],
  ],
  loop: [
    ...["conversation", "delivery", "denials", "entries", "events", "prompt", "stream", "tools"],
  ],
  ctl: [
    ...["ago", "args", "audit_calls", "audit_page", "audit_summary", "block", "checks", "commands"],
    ...["completion", "completion_bash", "completion_fish", "completion_steps", "completion_zsh"],
    ...["doctor_checks", "durations", "editor", "explained", "fit", "grant_warnings", "help"],
    ...["init_files", "init_units", "keys", "one_line", "progress", "prose", "remembered"],
    ...["replayed", "screen", "status_checks", "waiting", "watch_keys", "watch_screen"],
    ...["watch_state", "width"],
  ],
};

/**
 * What bxctl takes from broker/: the pure files of the decision, so that what it explains is what decides.
 * loop/ takes nothing: the process that talks to the model has no code that decides.
 */
const DECISION = ["args", "explain", "grant_rules", "hosts", "paths", "policy"]
  .map((name) => `broker/${name}.ts`);

/** What is no code and becomes part of a program: the service units that `bxctl init` writes. */
const TEXTS: Readonly<Record<string, RegExp>> = {
  "ctl/init_units.ts": /^docs\/samples\/systemd\/user\/[\w-]+\.service$/,
};

/** The packages and built-in modules that pure files may import, and all files. */
const PURE_PACKAGES = ["zod", "smol-toml", "node:buffer", "node:crypto", "node:url", "node:util"];
const PACKAGES = [...PURE_PACKAGES, "node:fs", "node:fs/promises"];
/** The built-in modules of single files. */
const PACKAGES_OF: Readonly<Record<string, readonly string[]>> = {
  // It could listen too, so it stays in the one file that talks to the model server.
  "loop/transport.ts": ["node:http"],
  // Which also makes files of memory; what is used of it looks whether bytes are ASCII.
  "proto/text.ts": ["node:buffer"],
};

/** Names of the clock, of chance, of waiting and of the world outside, for pure files. */
const IMPURE = [
  ...["Deno", "crypto", "fetch", "globalThis", "performance", "process", "self", "window"],
  ...["setTimeout", "setInterval", "queueMicrotask", "WebSocket", "Worker", "localStorage"],
];
const IMPURE_MEMBERS = ["Date.now", "Math.random"];

/** What only a main.ts uses, and what only the file that makes sockets uses. */
const ENTRY_MEMBERS = ["args", "env", "exit", "exitCode"];
const LISTEN_MEMBERS = ["listen", "listenDatagram", "listenTls", "serve"];
const SOCKETS = "proto/io/socket.ts";
/** The folders with a program of their own: its main.ts, and the serve.ts that listens. */
const PROGRAMS: readonly string[] = [...FOLDERS, "broker/egress"];
/** The only files that start programs. */
const STARTERS = ["broker/podman/container.ts", "broker/egress/child.ts"];

/** A file of the programs. */
interface Module {
  readonly folder: Folder;
  /** Its path from the project's folder. */
  readonly path: string;
  readonly pure: boolean;
}

/** The module at `path`, seen from the project's folder; null outside the programs. */
function moduleOf(path: string): Module | null {
  const folder = FOLDERS.find((name) => path.startsWith(`${name}/`));
  if (folder === undefined) return null;
  const pure = folder === "proto"
    ? /^proto\/[^/]+$/.test(path)
    : PURE[folder].some((name) => path === `${folder}/${name}.ts`);
  return { folder, path, pure };
}

/** The module that the linter looks at, or null where the table says nothing of it. */
function linted({ filename }: Deno.lint.RuleContext): Module | null {
  return filename.startsWith(PROJECT) ? moduleOf(filename.slice(PROJECT.length)) : null;
}

/** The path from the project's folder that `source` means in the file at `path`. */
function resolved(path: string, source: string): string {
  return new URL(source, `file:///${path}`).pathname.slice(1);
}

/** Why `from` may not import `source`, or null where it may. `typeOnly`: nothing of it runs. */
function importProblem(from: Module, source: string, typeOnly: boolean): string | null {
  if (!source.startsWith(".")) {
    const allowed = [
      ...from.pure ? PURE_PACKAGES : PACKAGES,
      ...PACKAGES_OF[from.path] ?? [],
    ];
    return allowed.includes(source) ? null : `${from.path} may not import ${source}`;
  }
  const path = resolved(from.path, source);
  if (TEXTS[from.path]?.test(path)) return null;
  const to = moduleOf(path);
  const own = to !== null && (to.folder === "proto" || to.folder === from.folder ||
    (from.folder === "ctl" && DECISION.includes(path)));
  if (to === null || !own) return `${from.folder}/ may not import ${path}`;
  if (from.folder === "proto" && to.folder !== "proto") return `proto/ may not import ${path}`;
  return from.pure && !to.pure && !typeOnly
    ? `${from.path} is pure and may not import ${path}`
    : null;
}

const imports: Deno.lint.Rule = {
  create(context) {
    const module = linted(context);
    if (module === null) return {};
    const check = (node: Deno.lint.Node, source: unknown, typeOnly = false) => {
      const problem = typeof source === "string"
        ? importProblem(module, source, typeOnly)
        : "what is imported must be named by a literal";
      if (problem !== null) context.report({ node, message: problem });
    };
    return {
      ImportDeclaration: (node) => check(node, node.source.value, node.importKind === "type"),
      ExportAllDeclaration: (node) => check(node, node.source.value),
      ExportNamedDeclaration: (node) => {
        if (node.source) check(node, node.source.value);
      },
      ImportExpression: (node) => {
        check(node, node.source.type === "Literal" ? node.source.value : null);
      },
      TSImportType: (node) => {
        const [, source] = /^import\(\s*["']([^"']*)["']/.exec(context.sourceCode.getText(node)) ??
          [];
        check(node, source, true);
      },
    };
  },
};

/** Whether the identifier `node` stands for a variable, and not for a key or a member. */
function isName(node: Deno.lint.Identifier): boolean {
  const { parent } = node;
  switch (parent.type) {
    case "MemberExpression":
      return parent.object === node || parent.computed;
    case "Property":
      return parent.value === node || parent.computed || parent.shorthand;
    case "TSQualifiedName":
      return parent.left === node;
    case "ImportSpecifier":
    case "ExportSpecifier":
    case "MethodDefinition":
    case "PropertyDefinition":
    case "TSPropertySignature":
    case "TSMethodSignature":
      return false;
    default:
      return true;
  }
}

/** `Date.now` of such a node, or null where its parts are no plain names. */
function memberName(node: Deno.lint.MemberExpression): string | null {
  const { object, property, computed } = node;
  if (computed || object.type !== "Identifier" || property.type !== "Identifier") return null;
  return `${object.name}.${property.name}`;
}

const pure: Deno.lint.Rule = {
  create(context) {
    const module = linted(context);
    if (module === null) return {};
    const [first] = context.sourceCode.text.split("*/", 1);
    const says = /\bPure\b/.test(first ?? "");
    if (module.pure !== says) {
      const message = says
        ? `${module.path} says that it is pure, and scripts/lint_plugin.ts does not list it`
        : `${module.path} is pure, and its first comment does not say so`;
      return { Program: (node) => context.report({ node, message }) };
    }
    if (!module.pure) return {};
    const report = (node: Deno.lint.Node, name: string) =>
      context.report({ node, message: `${module.path} is pure and may not use ${name}` });
    return {
      Identifier: (node) => {
        if (IMPURE.includes(node.name) && isName(node)) report(node, node.name);
      },
      MemberExpression: (node) => {
        const name = memberName(node);
        if (name !== null && IMPURE_MEMBERS.includes(name)) report(node, name);
      },
      NewExpression: (node) => {
        const { callee } = node;
        const isDate = callee.type === "Identifier" && callee.name === "Date";
        if (isDate && node.arguments.length === 0) report(node, "new Date()");
      },
      CallExpression: (node) => {
        if (node.callee.type === "Identifier" && node.callee.name === "Date") {
          report(node, "Date()");
        }
      },
    };
  },
};

const authority: Deno.lint.Rule = {
  create(context) {
    const module = linted(context);
    if (module === null) return {};
    const { path } = module;
    const isMain = PROGRAMS.some((program) => path === `${program}/main.ts`);
    const isServe = PROGRAMS.some((program) => path === `${program}/serve.ts`);
    const report = (node: Deno.lint.Node, message: string) => context.report({ node, message });
    const isSockets = (source: unknown) =>
      typeof source === "string" && resolved(path, source) === SOCKETS && !isServe;
    /** `name`: what is taken from there by `node`; null for everything. */
    const checkListen = (node: Deno.lint.Node, name: Deno.lint.Node | null) => {
      if (name?.type === "Identifier" && name.name !== "listen") return;
      report(node, `only a serve.ts imports listen of ${SOCKETS}`);
    };
    return {
      // By any other way to Deno the rules below would see nothing.
      Identifier: (node) => {
        const { parent } = node;
        if (node.name !== "Deno") return;
        if (parent.type === "TSQualifiedName") return;
        if (parent.type === "MemberExpression" && parent.object === node && !parent.computed) {
          return;
        }
        report(node, "Deno is used as Deno.name, so that what is used can be seen");
      },
      MemberExpression: (node) => {
        const [object, member = ""] = memberName(node)?.split(".") ?? [];
        if (object !== "Deno") return;
        if (ENTRY_MEMBERS.includes(member) && !isMain) {
          report(node, `only a main.ts uses Deno.${member}`);
        }
        if (member === "Command" && !STARTERS.includes(path)) {
          report(node, `only ${STARTERS.join(" and ")} use Deno.Command`);
        }
        if (LISTEN_MEMBERS.includes(member) && path !== SOCKETS && !isServe) {
          report(node, `only ${SOCKETS} and a serve.ts use Deno.${member}`);
        }
      },
      ImportDeclaration: (node) => {
        if (!isSockets(node.source.value)) return;
        for (const specifier of node.specifiers) {
          checkListen(specifier, specifier.type === "ImportSpecifier" ? specifier.imported : null);
        }
      },
      ExportNamedDeclaration: (node) => {
        if (!node.source || !isSockets(node.source.value)) return;
        for (const specifier of node.specifiers) checkListen(specifier, specifier.local);
      },
      ExportAllDeclaration: (node) => {
        if (isSockets(node.source.value)) checkListen(node, null);
      },
      ImportExpression: (node) => {
        const { source } = node;
        if (source.type === "Literal" && isSockets(source.value)) checkListen(node, null);
      },
    };
  },
};

const plugin: Deno.lint.Plugin = { name: "boxmaker", rules: { imports, pure, authority } };
export default plugin;
