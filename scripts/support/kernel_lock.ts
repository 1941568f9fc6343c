/**
 * The kernel's part of the locks: whatever is started after `forbidLinks` can make no symbolic link, in a
 * directory of its own either. The runtime's locks follow links, and `node:wasi` of Deno 2.9.6 makes them
 * for everybody (docs/architecture.md, "What stays possible").
 */
import { causes, say } from "../../proto/io/log.ts";

/** Numbers of Linux, from its headers: the processor, and the calls that make a link or go round a filter. */
const CALLS = {
  x86_64: { arch: 0xc000003e, symlink: [88, 266], ioUringSetup: 425, x32: 0x40000000 },
  aarch64: { arch: 0xc00000b7, symlink: [36], ioUringSetup: 425, x32: null },
} as const;

const PR_SET_SECCOMP = 22;
const PR_SET_NO_NEW_PRIVS = 38;
const SECCOMP_MODE_FILTER = 2n;
const LOAD = 0x20;
const IF_EQUAL = 0x15;
const IF_AT_LEAST = 0x35;
const RETURN = 0x06;
const ALLOWED = 0x7fff0000;
const NOT_PERMITTED = 0x00050001;
/** Where the filter finds the number of the call, and of the processor. */
const NUMBER_AT = 0;
const ARCH_AT = 4;

/** One instruction: its code, how many to skip where it holds and where not, and its operand. */
type Instruction = readonly [code: number, yes: number, no: number, operand: number];

/** The filter for this processor; null where its numbers are not known here. */
function filter(): readonly Instruction[] | null {
  if (Deno.build.os !== "linux") return null;
  const { arch, symlink, ioUringSetup, x32 } = CALLS[Deno.build.arch];
  const refused = [...symlink, ioUringSetup];
  const tests: [code: number, operand: number][] = refused.map((call) => [IF_EQUAL, call]);
  if (x32 !== null) tests.unshift([IF_AT_LEAST, x32]);
  return [
    [LOAD, 0, 0, ARCH_AT],
    // Calls by another processor's numbers are refused as a whole.
    [IF_EQUAL, 0, tests.length + 2, arch],
    [LOAD, 0, 0, NUMBER_AT],
    ...tests.map(([code, operand], at): Instruction => [code, tests.length - at, 0, operand]),
    [RETURN, 0, 0, ALLOWED],
    [RETURN, 0, 0, NOT_PERMITTED],
  ];
}

/**
 * Puts the filter on this process and all that it starts from now on, for good; says so as `program` where
 * it cannot. Needs every permission.
 */
export function forbidLinks(program: string): void {
  const problem = setFilter();
  if (problem === null) return;
  say(
    program,
    `the kernel does not keep the programs from making links: ${problem}`,
    'what that leaves possible stands in docs/architecture.md, "What stays possible"',
  );
}

/** Returns why it could not, or null. */
function setFilter(): string | null {
  const instructions = filter();
  if (instructions === null) return `there is no filter for ${Deno.build.os}`;
  const code = new DataView(new ArrayBuffer(8 * instructions.length));
  for (const [at, [operation, yes, no, operand]] of instructions.entries()) {
    code.setUint16(8 * at, operation, true);
    code.setUint8(8 * at + 2, yes);
    code.setUint8(8 * at + 3, no);
    code.setUint32(8 * at + 4, operand, true);
  }
  const program = new DataView(new ArrayBuffer(16));
  program.setUint16(0, instructions.length, true);
  program.setBigUint64(8, addressOf(code), true);
  try {
    const libc = Deno.dlopen("libc.so.6", {
      prctl: { parameters: ["i32", "u64", "u64", "u64", "u64"], result: "i32" },
    });
    const { prctl } = libc.symbols;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1n, 0n, 0n, 0n) !== 0) return "the kernel keeps its privileges";
    const took = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, addressOf(program), 0n, 0n);
    return took === 0 ? null : "the kernel does not take the filter";
  } catch (error) {
    return `the C library cannot be called: ${causes(error)}`;
  }
}

function addressOf(view: DataView<ArrayBuffer>): bigint {
  return BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(view)));
}
